"""People find, start, follow, pause and repeat plans on pages."""

import re
import uuid

import pytest
from django.contrib.auth.models import Permission
from django.db.models.signals import pre_save
from django.utils import timezone

from apps.agents.models import Agent
from apps.plans.definitions import PlanDefinition
from apps.plans.models import Step
from apps.plans.registry import register_plan
from apps.plans.running.runs import begin_run
from apps.record.models import Context, Message, Task
from tests.clients import telling
from tests.plans.conftest import agents, plan  # noqa: F401 fixtures

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("agents")]

TWO = {
    "first": {"agent": "loud", "title": "The first", "message": "{{ inputs.text }}"},
    "second": {"agent": "counting", "title": "The second", "message": "{{ steps.first.text }}"},
}
CITY = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string", "title": "Where to?"}}}


@pytest.fixture
def two(plan):  # noqa: F811
    return plan(TWO, inputs=CITY)


@pytest.fixture
def run_page(ada_browser):
    return lambda task, ending="", **asked: ada_browser.get(f"/plans/runs/{task.pk}{ending}", asked)


def begun(user, agent: Agent, **states: str) -> Task:
    receipt = telling.begun(user, agent, "go", parts=[{"text": "go"}, {"data": {"city": "Lisbon"}}])
    task = Task.objects.get(pk=receipt.task)
    begin_run(task, agent.current_version)
    for key, state in states.items():
        child = telling.begun(user, Agent.objects.get(slug="loud"))
        Task.objects.filter(pk=child.task).update(parent=task)
        Step.objects.filter(run=task.pk, key=key).update(state=state, task=child.task, started_at=timezone.now())
    return task


@pytest.mark.services("sizes are counted within JSON")
def test_plans_are_listed_and_shown_with_their_inputs(ada_browser, bob_browser, ada, two):
    run = f"/plans/runs/{begun(ada, two).pk}"
    for browser, is_own in ((ada_browser, True), (bob_browser, False)):
        page = browser.get("/plans").text
        assert ("2 steps" in page, run in page) == (True, is_own)
    page = ada_browser.get("/plans/plan").text
    for words in ("The first, then The second", 'name="answer-city"', "/plans/plan/yaml"):
        assert words in page
    assert "steps:" in ada_browser.get("/plans/plan/yaml").text
    assert ada_browser.get("/plans/loud").status_code == 404, "it is an agent"


@pytest.mark.django_db(transaction=True)
def test_form_starts_one_run_or_names_its_field(ada_browser, two):
    def started(**form):
        said = {"message": str(uuid.uuid4()), "answers": "1", "answer-city": "Lisbon", **form}
        return ada_browser.post("/plans/plan/runs", said)

    assert started(**{"answer-city": ""}).json()["field"] == "answer-city"
    for written in ("[1]", '{"a": NaN}', '{"a": 1e999}', r'{"a": "\ud800"}', '{"a": 1, "a": 2}', '{"a":' * 99):
        wrong = started(inputs=written)
        assert (wrong.status_code, wrong.json()["field"]) == (422, "inputs"), written
    Agent.objects.filter(slug="counting").update(access=Agent.Access.GROUPS)
    assert "steps.second.agent" in started().json()["error"], "its starter may not use this agent"
    Agent.objects.filter(slug="counting").update(access=Agent.Access.AUTHENTICATED)
    form = {"message": str(uuid.uuid4()), "text": "hello"}
    first, again = started(**form), started(**form)
    task = Task.objects.get()
    assert (first.status_code, first.json()["address"]) == (201, f"/plans/runs/{task.pk}")
    assert again.json() == first.json()
    assert Message.objects.get().parts == [{"text": "hello"}, {"data": {"city": "Lisbon"}}]


def test_run_and_its_tasks_lead_to_each_other(ada_browser, ada, two, run_page):
    task = begun(ada, two, first="running")
    page, child = run_page(task).text, Step.objects.get(run=task.pk, key="first").task_id
    for words in (f"/tasks/{child}", "It waits for “The first”.", "Pause</button>"):
        assert words in page
    assert f"/plans/runs/{task.pk}#plan-step-first" in ada_browser.get(f"/tasks/{child}").text
    assert f"/plans/runs/{task.pk}" in ada_browser.get(f"/tasks/{task.pk}").text


def test_ended_run_shows_files_and_where_to_restart(ada_browser, ada, two, run_page):
    task = begun(ada, two)
    made = telling.finished(ada, Agent.objects.get(slug="loud"), {"plot.csv": telling.text("a,b")})
    Task.objects.filter(pk=made.task).update(parent=task)
    Step.objects.filter(run=task.pk, key="first").update(state="done", task=made.task)
    Task.objects.filter(pk=task.pk).update(state="completed")
    page = run_page(task)
    assert [title for title, _ in page.context["delivered"]] == ["The first"]
    [file] = re.findall(r'href="([^"]+)" id="download-', page.text)
    assert ada_browser.get(file).text == "a,b"
    assert page.context["restart_steps"] == [("first", "The first"), ("second", "The second")]
    assert page.context["restart_from"] == "second", "the first that was not done"
    from_here = f"/plans/runs/{task.pk}?from=first#again-title"
    assert page.text.count(f'href="{from_here}"') == 2, "at the step that is done, in the picture and in the table"
    assert ada_browser.get(from_here).context["restart_from"] == "first"


@pytest.mark.django_db(transaction=True)
def test_questions_of_steps_are_answered_once(ada_browser, ada, two):
    task = begun(ada, two)
    for key in ("first", "second"):
        receipt = telling.asked(ada, Agent.objects.get(slug="curious"), {"name": "colour"}, "Which colour?")
        Task.objects.filter(pk=receipt.task).update(parent=task)
        Context.objects.filter(pk=receipt.context).update(parent_task=task.pk)
        Step.objects.filter(run=task.pk, key=key).update(state="asking", task=receipt.task, asked_at=timezone.now())
    child = Task.objects.get(pk=receipt.task)
    address, form = f"/sessions/{child.context_id}/messages", {"task": str(child.pk), "answers": "1"}
    for page in (f"/plans/runs/{task.pk}", f"/plans/runs/{task.pk}/questions", "/inbox", "/inbox/items"):
        shown = ada_browser.get(page).text
        for words in (f'action="{address}"', f'name="asked" value="{child.status_event}"'):
            assert words in shown
    assert shown.count(f'href="/plans/runs/{task.pk}"') == 2
    for asked, text, status in (
        ("x", "green", 422),
        (child.status_event, "red", 201),
        (child.status_event, "blue", 409),
    ):
        said = {**form, "asked": str(asked), "text": text, "message": str(uuid.uuid4())}
        assert ada_browser.post(address, said).status_code == status, text
    assert not Message.objects.filter(task=child.pk, parts__0__text="blue").exists()


@pytest.mark.django_db(transaction=True)
def test_run_is_paused_stopped_and_restarted(ada_browser, ada, two):
    address = f"/plans/runs/{begun(ada, two).pk}"
    for ending, form, status in [
        *(("control", {"do": do}, 200) for do in ("pause", "resume", "resume", "cancel")),
        *(("control", {"do": do}, status) for do, status in (("dance", 422), ("pause", 409))),
        *(("again", {"step": step}, status) for step, status in (("third", 409), ("second", 201))),
    ]:
        sent = {"message": str(uuid.uuid4()), **form}
        assert ada_browser.post(f"{address}/{ending}", sent).status_code == status, form


GOOD = """\
name: Louder
description: Says it louder.
steps:
  first: {agent: loud, title: The first, message: "{{ inputs.text }}"}
  second: {agent: loud, title: The second, message: "{{ steps.first.text }}"}
"""
UNKNOWN = GOOD.replace("agent: loud, title: The second", "agent: nobody, title: The second")


@pytest.fixture
def own(ada):
    return register_plan("louder", PlanDefinition.from_yaml(GOOD), author=ada)


def saved(browser, address="/plans/new", **form):
    return browser.post(address, {"slug": "louder", "definition": GOOD, "base": "", **form})


def problems(response) -> dict[str, str]:
    return {path: sentence for path, sentence, _ in response.context["form"].told}


def shown(response, field: str) -> str:
    """What a field of the form has."""
    return response.context["form"][field].value()


def test_problem_is_named_and_the_text_kept(ada_browser, bob):
    def overtake(**_):
        pre_save.disconnect(overtake, Agent)
        register_plan("louder", PlanDefinition.from_yaml(GOOD), author=bob)

    for form, path in [
        ({"definition": UNKNOWN}, "steps.second.agent"),
        ({"definition": "name: Louder"}, "steps"),
        ({"slug": "loud"}, "slug"),
        ({"slug": "new"}, "slug"),
        ({"slug": ""}, "slug"),
        ({"access": "public"}, "access"),
        ({}, "slug"),  # somebody takes it at the same moment
    ]:
        if not form:
            pre_save.connect(overtake, Agent)
        response = saved(ada_browser, **form)
        assert (response.status_code, path in problems(response)) == (200, True), form
        assert shown(response, "definition") == form.get("definition", GOOD), form
    assert not Agent.objects.filter(kind="plan").exists()


def test_change_is_a_new_version_of_its_base(ada_browser, own):
    base = shown(ada_browser.get("/plans/louder/edit"), "base")
    changed = GOOD.replace("The second", "The last")
    assert saved(ada_browser, "/plans/louder/edit", definition=changed, base=base)["Location"] == "/plans/louder"
    stale = saved(ada_browser, "/plans/louder/edit", definition=GOOD.replace("louder", "softer"), base="0")
    assert "was saved while you were editing" in stale.text
    own.refresh_from_db()
    assert own.current_version.number == int(base) + 1
    assert "The last" in ada_browser.get("/plans/louder").text


def test_authors_edit_and_operators_publish(ada_browser, bob_browser, ada, own):
    Agent.objects.filter(pk=own.pk).update(access="authenticated")
    for answer in (bob_browser.get("/plans/louder/edit"), saved(bob_browser, "/plans/louder/edit")):
        assert answer.status_code == 403
    for browser, may in ((bob_browser, False), (ada_browser, True)):
        assert ("Edit</a>" in browser.get("/plans/louder").text) is may
    Agent.objects.filter(pk=own.pk).update(access="workspace")
    public = {"access": "authenticated", "base": shown(ada_browser.get("/plans/louder/edit"), "base")}
    assert "access" in problems(saved(ada_browser, "/plans/louder/edit", **public))
    ada.user_permissions.add(Permission.objects.get(codename="change_agent"))
    assert saved(ada_browser, "/plans/louder/edit", **public).status_code == 302
    own.refresh_from_db()
    assert own.access == "authenticated"
