"""A plan is an agent: registered with versions, or refused with paths."""

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command

from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import register_hosted, register_model, revert
from apps.plans import registry
from apps.plans.definitions import PlanDefinition, as_yaml
from apps.plans.registry import RESERVED_SLUGS, register_plan
from tests.agents.definitions import clerk, definition
from tests.plans.plans import plan, told

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _echo(echo): ...


def refused(*args, slug: str = "look", author: User | None = None, **fields) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        register_plan(slug, plan(*args, **fields), author=author)
    return told(caught.value)


def numbers(agent: Agent) -> list[int]:
    return list(agent.versions.order_by("number").values_list("number", flat=True))


def test_a_plan_goes_back_where_it_works(ada):
    first = register_plan("look", plan(name="First"), author=ada).current_version
    register_plan("look", plan(name="Second"), author=ada)
    back = revert(first, ada)
    agent = Agent.objects.get(slug="look")
    assert (back.number, back.sha256, back.note) == (3, first.sha256, "Back to version 1.")
    assert (agent.name, agent.current_version) == ("First", back)
    clerk("helper")
    helped = register_plan("look", plan({"a": {"agent": "helper"}})).current_version
    register_plan("look", plan())
    Agent.objects.get(slug="helper").delete()
    with pytest.raises(ValidationError, match="There is no agent `helper`"):
        revert(helped, None)


def test_a_plan_is_its_authors_until_published(ada, bob):
    agent = register_plan("look", plan(), author=ada)
    assert (agent.workspace, agent.access) == (ada.personal_workspace, "workspace")
    assert not agent.is_open_to(bob.principal)
    assert register_plan("look", plan(), author=ada, access="authenticated").is_open_to(bob.principal)
    assert refused(author=bob, limit=2) == {"slug": "There is an agent look already. Choose another slug."}
    bob.is_superuser = True
    bob.save()
    agent = register_plan("look", plan(limit=2), author=User.objects.get(pk=bob.pk))
    assert (numbers(agent), agent.workspace, agent.access) == ([1, 2], ada.personal_workspace, "authenticated")


def test_another_kinds_slug_is_not_taken_over():
    assert "not a plan" in refused(slug="echo")["slug"]
    register_plan("look", plan())
    with pytest.raises(ValidationError, match="The plan look exists already"):
        register_hosted("look", "examples.agents.echo:Echo")
    with pytest.raises(ValidationError, match="another kind"):
        register_model("look", definition())


@pytest.mark.parametrize(
    ("steps", "fields", "path", "sentence"),
    [
        ({"a": {"agent": "nobody"}}, {}, "steps.a.agent", "There is no agent `nobody`, or you may not use it."),
        ({"a": {"on_failure": {"agent": "nobody"}}}, {}, "steps.a.on_failure.agent", "There is no agent `nobody`"),
        (None, {"answering": "nobody"}, "answering", "There is no agent `nobody`"),
        (None, {"agent_limits": {"nobody": 1}}, "agent_limits.nobody", "There is no agent `nobody`"),
        ({"a": {"skill": "sing"}}, {}, "steps.a.skill", "Echo has no skill `sing`; it has "),
        ({"a": {"agent": "look"}}, {}, "steps.a.agent", "A plan cannot call itself: look → look."),
        (None, {"answering": "look"}, "answering", "A plan cannot call itself: look → look."),
        ({"a": {"depends_on": ["b"]}}, {}, "steps.a.depends_on.0", "There is no step `b`; there are `a`."),
        (None, {"skills": [{"name": "A", "description": "a"}] * 2}, "skills.1.id", "Two skills have the id a."),
        *((None, {"slug": slug}, "slug", "Choose another slug.") for slug in RESERVED_SLUGS),
    ],
)
def test_a_plan_that_could_not_work_is_refused(steps, fields, path, sentence):
    found = refused(steps, **fields)
    assert (list(found), sentence in found[path]) == ([path], True)
    assert not Agent.objects.filter(kind="plan").exists()


def test_plans_in_a_circle_are_refused():
    register_plan("one", plan())
    register_plan("two", plan({"a": {"agent": "one"}}))
    register_plan("three", plan({"a": {"on_failure": {"agent": "two"}}}))
    found = refused({"a": {}, "b": {"agent": "three"}}, slug="one")
    assert found == {"steps.b.agent": "These plans call each other in a circle: one → three → two → one."}
    register_plan("four", plan({"a": {"agent": "three"}, "b": {"agent": "two"}}))


def test_a_closed_agent_is_not_there(ada, bob):
    register_model("private", definition(), access="workspace", workspace=ada.personal_workspace)
    step = {"a": {"agent": "private"}}
    register_plan("mine", plan(step), author=ada)
    assert refused(step, author=bob) == refused({"a": {"agent": "nobody"}}, author=bob) | {
        "steps.a.agent": "There is no agent `private`, or you may not use it. Use the slug of a listed agent."
    }
    assert registry.agents_closed_to(plan(step), ada.principal) == []
    assert [path for path, _ in registry.agents_closed_to(plan(step), bob.principal)] == ["steps.a.agent"]


def test_operators_are_told_why_plans_cannot_work(echo):
    agent = register_plan("look", plan())
    assert registry.health_problem(agent) == ""
    Agent.objects.filter(pk=echo.pk).update(is_enabled=False)
    assert registry.health_problem(agent).startswith("steps.look.agent: There is no agent `echo`")
    AgentVersion.objects.filter(agent=agent).update(content={"kind": "plan", "name": "Look"})
    assert registry.health_problem(Agent.objects.get(pk=agent.pk)) == "description: This is required."


PLAN = "name: Look\ndescription: Looks at things.\nsteps:\n  look: {agent: echo, message: Look.}\n"


def test_a_plan_is_registered_from_a_file(tmp_path, capsys, ada):
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    call_command("register_plan", "look", str(file), "--access", "public")
    said = "Look is registered at /a2a/look (everybody, without signing in).\n"
    assert capsys.readouterr().out == said
    call_command("register_plan", "mine", str(file), "--owner", ada.email)
    assert Agent.objects.get(slug="mine").workspace == ada.personal_workspace
    file.write_text(PLAN.replace("echo", "nobody") + "  see: {agent: echo, message: See., depends_on: [hear]}\n")
    with pytest.raises(CommandError) as caught:
        call_command("register_plan", "look", str(file))
    assert caught.value.returncode == 1
    assert str(caught.value).splitlines() == [
        "The plan look was not registered:",
        "steps.see.depends_on.0: There is no step `hear`; there are `look`, `see`.",
        "steps.look.agent: There is no agent `nobody`, or you may not use it. Use the slug of a listed agent.",
    ]
    with pytest.raises(CommandError, match="is not a text file"):
        call_command("register_plan", "look", str(tmp_path))
    with pytest.raises(CommandError, match=r"There is no user who@example\.org"):
        call_command("register_plan", "look", str(file), "--owner", "who@example.org")


SAMPLED = """
name: Wells
description: Reads wells.
steps:
  wells:
    person: {ask: Send the wells., upload: true, samples: [{filename: wells.csv}]}
"""


def test_samples_come_from_files_or_the_plan(tmp_path, ada):
    file, folder = tmp_path / "plan.yaml", tmp_path / "data"
    file.write_text(SAMPLED)
    with pytest.raises(CommandError, match=r"steps.wells.person.samples.0.filename: .* has no text file wells.csv"):
        call_command("register_plan", "wells", str(file))
    folder.mkdir()
    (folder / "wells.csv").write_text("well,value\na,1\n")
    call_command("register_plan", "wells", str(file), f"--samples={folder}")
    written = as_yaml(Agent.objects.get(slug="wells").current_version.content)
    assert PlanDefinition.from_yaml(written).steps["wells"].person.samples[0].text == "well,value\na,1\n"
    with pytest.raises(ValidationError) as caught:
        register_plan("other", PlanDefinition.from_yaml(SAMPLED), author=ada)
    assert list(caught.value.message_dict) == ["steps.wells.person.samples.0.text"]
    with pytest.raises(ValidationError, match="Samples are for uploads"):
        PlanDefinition.from_yaml(SAMPLED.replace("upload: true, ", ""))
    for name in ("../wells.csv", "", "a/b.csv"):
        with pytest.raises(ValidationError):
            PlanDefinition.from_yaml(SAMPLED.replace("wells.csv", name))
