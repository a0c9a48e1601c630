"""Options of steps."""

import base64

import pytest
from django.test import override_settings
from django.utils import timezone

from agentkit import text_part
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.plans.models import PlanRun, Step
from apps.record.models import Artifact, Task
from apps.routing.router import HANDLER
from tests.plans.plan_agents import DONE
from tests.plans.playing import rows, words

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("steps are decided by statements of each database's own"),
]


def test_a_step_without_its_condition_is_skipped(play):
    steps = {
        "long": {"agent": "loud", "message": "long", "when": "inputs.text|length > 10"},
        "short": {"agent": "loud", "message": "short", "when": "inputs.text|length < 10"},
        "after": {"agent": "loud", "message": "{{ steps.long.state }}, {{ steps.short.state }}"},
    }
    task = play(steps)
    assert words(task) == "2 steps done, 1 skipped."
    assert rows(task, "key", "state") == [("after", "done"), ("long", "skipped"), ("short", "done")]
    assert DONE["loud:skipped, done"] == 1


FAN = {
    "part": {"agent": "parting", "message": "{{ inputs.text }}"},
    "shout": {"agent": "loud", "message": "{{ index }} {{ item }}", "for_each": "steps.part.data.words"},
    "join": {"agent": "loud", "message": "{% for one in steps.shout %}{{ one.text }};{% endfor %}"},
}


def test_a_list_becomes_steps_and_is_joined(play):
    task = play(FAN, "a b c")
    assert (task.state, DONE["loud:0 A;1 B;2 C;"]) == ("completed", 1)
    joined = Step.objects.get(run=task.pk, key="join").task
    assert len(joined.references) == 3


def test_an_empty_list_makes_no_steps(play):
    join = {"agent": "loud", "message": "none {{ steps.shout|length }}"}
    task = play(FAN | {"shout": FAN["shout"] | {"for_each": "steps.part.data.words[9:]"}, "join": join}, "a")
    assert (task.state, DONE["loud:none 0"]) == ("completed", 1)
    task = play(FAN | {"shout": FAN["shout"] | {"for_each": "steps.part.text"}}, "a")
    assert task.state == "failed"
    assert words(task).startswith("The step “shout” failed: `for_each` has to give a list")
    task = play({"one": {"agent": "loud", "message": "{{ ' ' }}"}})
    assert words(task) == "The step “one” failed: Its message is empty."


def test_artifacts_are_elements_too_and_files_go_along(play):
    steps = {
        "each": {"agent": "loud", "message": "{{ item.name }}", "for_each": "inputs.files", "attach": ["item"]},
        "all": {"agent": "loud", "message": "all", "attach": ["steps.each"]},
    }
    large = base64.b64encode(b"x" * 300_000).decode()
    files = [{"raw": large, "filename": "large.bin"}, {"raw": "YQ==", "filename": "small.bin"}]
    task = play.send(play.plan(steps), parts=[text_part("files"), *files])
    assert task.state == "completed", words(task)
    (made,) = Artifact.objects.delivered().filter(task=task)
    assert sum("stored" in part for part in made.parts) == sum("raw" in part for part in made.parts) == 1
    assert DONE["loud:large.bin"] == DONE["loud:small.bin"] == 1


@pytest.mark.parametrize(("more", "most"), [({"limit": 2}, 2), ({"agent_limits": {"patient": 3}}, 3), ({}, 6)])
def test_limits_bound_how_many_steps_run_at_once(play, more, most):
    task = play({"all": {"agent": "patient", "message": "{{ item }}", "for_each": "range(6)|list"}}, **more)
    assert Step.objects.filter(run=task.pk, state="running").count() == most
    assert Task.objects.filter(parent=task.pk).count() == most
    assert play.release(task).state == "completed"
    assert DONE["patient"] == 6


def test_a_step_repeats_until_good_or_bound(play):
    message = "{{ last.text if last else '' }}x"
    steps = {
        "better": {"agent": "loud", "message": message, "repeat": {"until": "last.text|length >= 3", "max": 5}},
        "after": {"agent": "loud", "message": "got {{ steps.better.text }}"},
    }
    task = play(steps)
    assert (task.state, DONE["loud:got XXX"]) == ("completed", 1)
    assert rows(task, "key", "round", "state") == [("after", 1, "done")] + [("better", n, "done") for n in (1, 2, 3)]
    task = play({"never": {"agent": "loud", "message": "y", "repeat": {"until": "false", "max": 2}}})
    assert (task.state, DONE["loud:y"]) == ("completed", 2)


def test_a_failed_step_fails_the_plan(play):
    steps = {
        "waits": {"agent": "patient", "message": "x"},
        "breaks": {"agent": "brittle", "message": "5", "retries": 1, "title": "The glass"},
        "never": {"agent": "loud", "message": "{{ steps.breaks.text }}"},
    }
    task = play(steps)
    assert (task.state, words(task)) == ("failed", "The step “The glass” failed: The glass is broken.")
    assert not Task.objects.unfinished().filter(parent=task.pk).exists()
    assert rows(task, "key", "state") == [("breaks", "failed"), ("never", "canceled"), ("waits", "canceled")]
    assert DONE["brittle:5"] == 2


def test_a_failure_is_skipped_or_another_agent_helps(play):
    steps = {
        "skipped": {"agent": "brittle", "message": "1", "on_failure": "skip"},
        "other": {"agent": "brittle", "message": "9", "on_failure": {"agent": "loud"}},
    }
    task = play(steps)
    assert (task.state, DONE["loud:9"]) == ("completed", 1)
    assert rows(task, "key", "state", "agent") == [("other", "done", "loud"), ("skipped", "skipped", "brittle")]


def test_what_a_step_delivers_is_checked(play):
    schema = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 10}}}
    steps = {"count": {"agent": "counting", "message": "{{ inputs.text }}", "output": {"schema": schema}}}
    assert play(steps, "long enough to pass").state == "completed"
    task = play(steps, "short")
    assert task.state == "failed"
    assert "5 is less than the minimum of 10" in words(task)


def test_a_step_has_only_so_much_time(play):
    task = play({"slow": {"agent": "patient", "message": "x", "time_limit": 600}})
    step = Step.objects.get()
    assert 0 < (step.due_at - timezone.now()).total_seconds() <= 600
    Step.objects.update(due_at=timezone.now())
    task = play.on(task.pk)
    assert task.state == "failed"
    assert words(task) == "The step “slow” failed: It took longer than its limit of 600 seconds."
    assert Task.objects.get(parent=task.pk).state == "canceled"


def test_a_plan_tells_how_far_it_is(play):
    steps = {
        "first": {"agent": "loud", "message": "x"},
        "second": {"agent": "patient", "message": "{{ steps.first.text }}", "title": "The wait"},
    }
    task = play(steps)
    PlanRun.objects.update(told_at=None)  # messages about progress are sent once a second
    assert words(play.on(task.pk)) == "1 of 2 steps done: The wait"
    assert words(play.release(task)) == "2 steps done."


LOUDLY = [{"id": "loud", "name": "Loud", "description": "Say text in capitals", "tags": ["loud", "capitals"]}]
FOUND = {"one": {"find": "loud: say text in capitals", "message": "hello"}}
NOBODY = "The step “one” failed: No agent that the owner of this run may use fits “loud: say text in capitals”"


def alone(*slugs: str) -> None:
    Agent.objects.exclude(slug__in=slugs).update(skills=[], is_enabled=False)


def test_the_best_agent_does_a_step_without_circles(play):
    agent = play.plan(FOUND, slug="looking", skills=LOUDLY)
    play.plan({"back": {"agent": "looking", "message": "x"}}, slug="near", skills=LOUDLY)
    play.plan({"back": {"agent": "near", "message": "x"}}, slug="far", skills=LOUDLY)
    alone("looking", "near", "far")
    task = play.send(agent)
    assert (task.state, words(task)) == ("failed", f"{NOBODY} but plans that would call this one again.")
    Agent.objects.filter(slug="loud").update(skills=LOUDLY, is_enabled=True)
    task = play.send(agent)
    assert (task.state, DONE["loud:hello"]) == ("completed", 1), words(task)


def test_the_router_and_closed_agents_do_no_step(play):
    register_hosted("router", HANDLER)
    Agent.objects.filter(slug="router").update(skills=LOUDLY)
    named = play.plan({"one": {"agent": "loud", "message": "x"}})
    Agent.objects.filter(slug="loud").update(access=Agent.Access.GROUPS)
    task = play.send(named)
    assert task.state == "failed"
    assert "steps.one.agent: There is no agent `loud`, or you may not use it." in words(task)
    found = play.plan(FOUND, slug="finding")
    alone("finding", "router")
    task = play.send(found)
    assert (task.state, words(task).startswith(NOBODY)) == ("failed", True)
    assert not Task.objects.exclude(parent=None).exists()


def test_plans_nest_and_their_depth_is_bounded(play):
    play.plan({"one": {"agent": "loud", "message": "{{ inputs.text }}"}}, slug="inner")
    steps = {
        "nested": {"agent": "inner", "message": "deep"},
        "after": {"agent": "loud", "message": "{{ steps.nested.artifacts[0].text }}!"},
    }
    assert (play(steps).state, DONE["loud:DEEP!"]) == ("completed", 1)
    with override_settings(DELEGATION_DEPTH=1):
        task = play(steps)
    assert (task.state, "1 levels deep" in words(task)) == ("failed", True)


def test_artifacts_of_the_same_name_are_told_apart(play):
    steps = {"one": {"agent": "loud", "message": "a"}, "two": {"agent": "loud", "message": "b"}}
    made = Artifact.objects.delivered().filter(task=play(steps))
    assert sorted(made.values_list("name", flat=True)) == ["one: loud", "two: loud"]
    made = Artifact.objects.delivered().get(task=play(steps, outputs=["two"]))
    assert (made.name, made.parts[0]["text"]) == ("loud", "B")
