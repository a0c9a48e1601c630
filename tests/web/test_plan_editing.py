"""People write, check, save and publish plans."""

from __future__ import annotations

import uuid

import pytest
from django.contrib.auth.models import Permission
from django.db.models.signals import pre_save

from agentkit import Artifact, Completed
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine import accept
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import EXAMPLE_PLAN, register_plan
from tests.plans.conftest import agents  # noqa: F401 fixture
from tests.working import begin, end

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("agents")]

GOOD = """\
name: Louder
description: Says it louder.
steps:
  first: {agent: loud, title: The first, message: "{{ inputs.text }}"}
  second: {agent: loud, title: The second, message: "{{ steps.first.text }}"}
"""
UNKNOWN = GOOD.replace("agent: loud, title: The second", "agent: nobody, title: The second")


@pytest.fixture
def own(ada) -> Agent:
    return register_plan("louder", PlanDefinition.from_yaml(GOOD), author=ada)


def operator(user):
    user.user_permissions.add(Permission.objects.get(codename="change_agent"))
    return user


def saved(browser, address="/plans/new", **form):
    return browser.post(address, {"slug": "louder", "definition": GOOD, "base": "", **form})


def problems(response) -> dict[str, str]:
    return dict(response.context["form"].problems)


def test_a_new_plan_is_its_authors_alone(ada_browser, bob_browser, ada):
    assert saved(ada_browser)["Location"] == "/plans/louder"
    plan = Agent.objects.get(slug="louder")
    assert (plan.access, plan.workspace) == ("workspace", ada.personal_workspace)
    assert plan.current_version.author == ada
    assert bob_browser.get("/plans/louder").status_code == 404


def test_the_planners_draft_fills_the_form_of_who_asked_for_it(ada_browser, bob_browser, ada, echo, said):
    task = accept.accept(ada.principal, echo, said("plan this"))
    end(begin(task.run), Completed("A plan.", [Artifact.text("plan.yaml", GOOD, "application/yaml")]))
    form = ada_browser.get(f"/plans/new?draft={task.task}").context["form"]
    assert (form.text, form.slug, form.problems) == (GOOD, "louder", [])
    for browser, draft in ((bob_browser, task.task), (ada_browser, uuid.uuid4()), (ada_browser, "nonsense")):
        assert browser.get(f"/plans/new?draft={draft}").context["form"].text == EXAMPLE_PLAN


def test_what_cannot_be_saved_is_said_by_its_path_and_kept_as_written(ada_browser):
    for form, path in [
        ({"definition": UNKNOWN}, "steps.second.agent"),
        ({"definition": GOOD.replace("steps.first.text", "steps.third.text")}, "steps.second.message"),
        ({"definition": GOOD.replace("inputs.text", "inputs.size")}, "steps.first.message"),
        ({"definition": "name: Louder"}, "steps"),
        ({"slug": "loud"}, "slug"),
        ({"slug": "new"}, "slug"),
        ({"slug": "No slug"}, "slug"),
        ({"slug": ""}, "slug"),
        ({"access": "public"}, "access"),
    ]:
        response = saved(ada_browser, **form)
        assert response.status_code == 200, form
        assert path in problems(response), form
        assert response.context["form"].text == form.get("definition", GOOD), form
        assert not Agent.objects.filter(kind="plan").exists(), form


def test_a_name_that_somebody_takes_at_the_same_moment_is_said_at_its_field(ada_browser, bob):
    def overtake(**_):
        pre_save.disconnect(overtake, Agent)
        register_plan("louder", PlanDefinition.from_yaml(GOOD), author=bob)

    pre_save.connect(overtake, Agent)
    response = saved(ada_browser)
    assert response.status_code == 200
    assert problems(response) == {"slug": "The name louder is taken. Choose another short name."}


def test_a_change_is_a_new_version(ada_browser, own):
    page = ada_browser.get("/plans/louder/edit")
    base = page.context["form"].base
    changed = page.context["form"].text.replace("The second", "The last")
    assert saved(ada_browser, "/plans/louder/edit", definition=changed, base=base)["Location"] == "/plans/louder"
    own.refresh_from_db()
    assert own.current_version.number == int(base) + 1
    assert "The last" in ada_browser.get("/plans/louder").text
    response = saved(ada_browser, "/plans/louder/edit", definition=GOOD.replace("louder", "softer"), base="0")
    assert "was saved while you were editing" in response.text
    own.refresh_from_db()
    assert own.current_version.number == int(base) + 1


def test_only_who_may_changes_a_plan(ada_browser, bob_browser, bob, own):
    assert bob_browser.get("/plans/louder/edit").status_code == 404
    Agent.objects.filter(pk=own.pk).update(access="authenticated")
    assert bob_browser.get("/plans/louder/edit").status_code == 403
    assert saved(bob_browser, "/plans/louder/edit").status_code == 403
    assert "Edit</a>" not in bob_browser.get("/plans/louder").text
    assert "Edit</a>" in ada_browser.get("/plans/louder").text
    operator(bob)
    assert bob_browser.get("/plans/louder/edit").status_code == 200


def test_publishing_is_for_who_may(ada_browser, ada, own):
    base = ada_browser.get("/plans/louder/edit").context["form"].base
    refused = saved(ada_browser, "/plans/louder/edit", access="authenticated", base=base)
    assert "access" in problems(refused)
    assert "Who may use it" not in refused.text
    operator(ada)
    assert "Who may use it" in ada_browser.get("/plans/louder/edit").text
    assert saved(ada_browser, "/plans/louder/edit", access="authenticated", base=base).status_code == 302
    own.refresh_from_db()
    assert own.access == "authenticated"


def test_it_is_checked_while_it_is_written(ada_browser, client):
    good = ada_browser.post("/plans/check", {"definition": GOOD, "slug": "louder"}).text
    assert "No problems. 2 steps." in good
    assert "The first, then The second" in good
    wrong = ada_browser.post("/plans/check", {"definition": UNKNOWN, "slug": "louder"}).text
    assert "<code>steps.second.agent</code>" in wrong
    assert "The first, then The second" in wrong
    unreadable = ada_browser.post("/plans/check", {"definition": "name: ["}).text
    assert "plan-picture" not in unreadable
    assert client.post("/plans/check", {"definition": GOOD})["Location"].startswith("/sign-in")
    Agent.objects.filter(slug="loud").update(access="groups")
    assert "There is no agent `loud`" in ada_browser.post("/plans/check", {"definition": GOOD}).text


def test_the_example_of_a_new_plan_can_be_saved(ada_browser):
    register_hosted("assistant", "apps.features.routing.assistant:Assistant")
    form = ada_browser.get("/plans/new").context["form"]
    assert form.problems == []
    assert saved(ada_browser, slug=form.slug, definition=form.text)["Location"] == "/plans/short-story"
