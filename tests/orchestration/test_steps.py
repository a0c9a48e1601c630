"""What a step may be told: conditions, lists, repetitions, retries, other ways, checks, and whoever fits best."""

import base64

import pytest
from django.test import override_settings

import bridge
from agentkit import text_part
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.conversations.models import Artifact, Task
from apps.orchestration.models import Step
from tests.orchestration.plan_agents import DONE, GATE
from tests.orchestration.test_plans_run import the_record_holds
from tests.runtime.delegating import done, ended, sent, until, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]


async def run(ada, plan, said, steps, text="hello", **more):
    agent = await bridge.run(lambda: plan(steps, **more))
    return await done(ada.principal, agent, said(text))


def rows(task, *fields):
    return list(Step.objects.filter(run=task.pk).order_by("key", "item", "round").values_list(*fields))


async def test_a_step_is_skipped_where_its_condition_does_not_hold(ada, plan, said):
    steps = {
        "long": {"agent": "loud", "message": "long", "when": "inputs.text|length > 10"},
        "short": {"agent": "loud", "message": "short", "when": "inputs.text|length < 10"},
        "after": {"agent": "loud", "message": "{{ steps.long.state }}, {{ steps.short.state }}"},
    }
    task = await run(ada, plan, said, steps)
    assert words(task) == "2 steps done, 1 skipped."
    assert await bridge.run(rows, task, "key", "state") == [("after", "done"), ("long", "skipped"), ("short", "done")]
    assert DONE["loud:skipped, done"] == 1


FAN = {
    "part": {"agent": "parting", "message": "{{ inputs.text }}"},
    "shout": {"agent": "loud", "message": "{{ index }} {{ item }}", "for_each": "steps.part.data.words"},
    "join": {"agent": "loud", "message": "{% for one in steps.shout %}{{ one.text }};{% endfor %}"},
}


async def test_a_list_becomes_a_step_for_each_element_and_is_joined_again(ada, plan, said):
    task = await run(ada, plan, said, FAN, "a b c")
    assert task.state == "completed"
    assert DONE["loud:0 A;1 B;2 C;"] == 1
    joined = await bridge.run(lambda: Step.objects.select_related("task").get(run=task.pk, key="join").task)
    assert len(joined.references) == 3
    await the_record_holds()


async def test_an_empty_list_makes_no_steps(ada, plan, said):
    steps = FAN | {
        "shout": FAN["shout"] | {"for_each": "steps.part.data.words[9:]"},
        "join": {"agent": "loud", "message": "none {{ steps.shout|length }}"},
    }
    task = await run(ada, plan, said, steps, "a")
    assert task.state == "completed"
    assert DONE["loud:none 0"] == 1


async def test_what_is_no_list_fails_the_step(ada, plan, said):
    task = await run(ada, plan, said, FAN | {"shout": FAN["shout"] | {"for_each": "steps.part.text"}}, "a")
    assert task.state == "failed"
    assert words(task).startswith("The step “shout” failed: `for_each` has to give a list")


async def test_artifacts_are_elements_too_and_files_go_along(ada, plan, said):
    steps = {
        "each": {"agent": "loud", "message": "{{ item.name }}", "for_each": "inputs.files", "attach": ["item"]},
        "all": {"agent": "loud", "message": "all", "attach": ["steps.each"]},
    }
    agent = await bridge.run(lambda: plan(steps))
    large = base64.b64encode(b"x" * 300_000).decode()
    files = [{"raw": large, "filename": "large.bin"}, {"raw": "YQ==", "filename": "small.bin"}]
    task = await done(ada.principal, agent, said(parts=[text_part("files"), *files]))
    assert task.state == "completed", task.status_message

    def look():
        (made,) = Artifact.objects.delivered().filter(task=task)
        assert sum("stored" in part for part in made.parts) == 1
        assert sum("raw" in part for part in made.parts) == 1

    await bridge.run(look)
    assert DONE["loud:large.bin"] == DONE["loud:small.bin"] == 1


async def test_only_as_many_run_at_once_as_the_plan_and_its_agents_allow(ada, plan, said):
    def at_once():
        return Step.objects.filter(state__in=("starting", "running")).count()

    steps = {"all": {"agent": "patient", "message": "{{ item }}", "for_each": "range(6)|list"}}
    for more, most in (({"limit": 2}, 2), ({"agent_limits": {"patient": 3}}, 3)):
        GATE.clear()
        DONE.clear()
        agent = await bridge.run(lambda: plan(steps, **more))  # noqa: B023
        receipt = await sent(ada.principal, agent, said())
        await until(lambda: DONE["patient"] == most)  # noqa: B023
        assert await bridge.run(at_once) == most
        GATE.set()
        assert (await ended(receipt)).state == "completed"


async def test_a_step_is_repeated_until_it_is_good(ada, plan, said):
    steps = {
        "better": {
            "agent": "loud",
            "message": "{{ last.text if last else '' }}x",
            "repeat": {"until": "last.text|length >= 3", "max": 5},
        },
        "after": {"agent": "loud", "message": "got {{ steps.better.text }}"},
    }
    task = await run(ada, plan, said, steps)
    assert task.state == "completed"
    assert await bridge.run(rows, task, "key", "round", "state") == [
        ("after", 1, "done"), ("better", 1, "done"), ("better", 2, "done"), ("better", 3, "done"),
    ]  # fmt: skip
    assert DONE["loud:got XXX"] == 1


async def test_a_repetition_ends_at_its_bound(ada, plan, said):
    steps = {"better": {"agent": "loud", "message": "x", "repeat": {"until": "false", "max": 2}}}
    task = await run(ada, plan, said, steps)
    assert (task.state, DONE["loud:x"]) == ("completed", 2)


async def test_a_step_is_tried_again(ada, plan, said):
    task = await run(ada, plan, said, {"one": {"agent": "brittle", "message": "2", "retries": 2}})
    assert (task.state, DONE["brittle:2"]) == ("completed", 3)
    assert await bridge.run(rows, task, "attempt", "state", "why") == [(3, "done", "")]


async def test_a_step_that_fails_for_good_fails_the_plan_and_what_runs_is_canceled(ada, plan, said):
    steps = {
        "waits": {"agent": "patient", "message": "x"},
        "breaks": {"agent": "brittle", "message": "5", "retries": 1, "title": "The glass"},
        "never": {"agent": "loud", "message": "{{ steps.breaks.text }}"},
    }
    task = await run(ada, plan, said, steps)
    assert (task.state, words(task)) == ("failed", "The step “The glass” failed: The glass is broken.")
    await until(lambda: not Task.objects.unfinished().filter(parent=task.pk).exists())
    await until(
        lambda: rows(task, "key", "state") == [("breaks", "failed"), ("never", "canceled"), ("waits", "canceled")]
    )
    assert DONE["brittle:5"] == 2
    await the_record_holds()


async def test_a_failure_may_be_left_out_or_another_agent_takes_over(ada, plan, said):
    steps = {
        "skipped": {"agent": "brittle", "message": "1", "on_failure": "skip"},
        "other": {"agent": "brittle", "message": "9", "on_failure": {"agent": "loud"}},
    }
    task = await run(ada, plan, said, steps)
    assert task.state == "completed"
    assert await bridge.run(rows, task, "key", "state", "agent") == [
        ("other", "done", "loud"), ("skipped", "skipped", "brittle"),
    ]  # fmt: skip
    assert DONE["loud:9"] == 1


async def test_what_a_step_delivers_is_checked(ada, plan, said):
    schema = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 10}}}
    steps = {"count": {"agent": "counting", "message": "{{ inputs.text }}", "output": {"schema": schema}}}
    assert (await run(ada, plan, said, steps, "long enough to pass")).state == "completed"
    task = await run(ada, plan, said, steps, "short")
    assert task.state == "failed"
    assert "5 is less than the minimum of 10" in words(task)


async def test_a_step_has_only_so_much_time(ada, plan, said):
    steps = {"slow": {"agent": "patient", "message": "x", "time_limit": 0.2}}
    task = await run(ada, plan, said, steps)
    assert task.state == "failed"
    assert words(task) == "The step “slow” failed: It took longer than its limit of 0.2 seconds."
    assert await bridge.run(lambda: Task.objects.get(parent=task.pk).state) == "canceled"


async def test_whoever_fits_best_does_a_step(ada, plan, said):
    steps = {"one": {"find": "loud: say text in capitals", "message": "hello"}}
    agent = await bridge.run(lambda: plan(steps))
    await bridge.run(
        lambda: Agent.objects.filter(slug="loud").update(
            skills=[{"id": "loud", "name": "Loud", "description": "Say text in capitals", "tags": ["loud"]}]
        )
    )
    task = await done(ada.principal, agent, said())
    assert (task.state, DONE["loud:hello"]) == ("completed", 1), task.status_message


LOUDLY = [{"id": "loud", "name": "Loud", "description": "Say text in capitals", "tags": ["loud", "capitals"]}]
FOUND = {"one": {"find": "loud: say text in capitals", "message": "hello"}}


async def test_a_plan_that_would_call_the_one_that_looks_is_not_found(ada, plan, said):
    def around():
        agent = plan(FOUND, slug="looking", skills=LOUDLY)  # it fits itself, too
        plan({"back": {"agent": "looking", "message": "x"}}, slug="near", skills=LOUDLY)
        plan({"back": {"agent": "near", "message": "x"}}, slug="far", skills=LOUDLY)
        Agent.objects.exclude(slug__in=("looking", "near", "far")).update(skills=[], is_enabled=False)
        return agent

    agent = await bridge.run(around)
    task = await done(ada.principal, agent, said())
    assert task.state == "failed"
    assert words(task) == (
        "The step “one” failed: No agent that the owner of this plan's task may use fits “loud: say text in capitals” "
        "but plans that would call this one again."
    )
    await bridge.run(lambda: Agent.objects.filter(slug="loud").update(skills=LOUDLY, is_enabled=True))
    task = await done(ada.principal, agent, said())
    assert (task.state, DONE["loud:hello"]) == ("completed", 1), words(task)


async def test_plans_that_look_for_each_other_do_not_go_round(ada, plan, said):
    def around():
        agent = plan(FOUND, slug="here", skills=LOUDLY)
        plan(FOUND, slug="there", skills=LOUDLY)
        Agent.objects.exclude(slug__in=("here", "there")).update(skills=[], is_enabled=False)
        return agent

    task = await done(ada.principal, await bridge.run(around), said())
    assert task.state == "failed"
    assert words(task).count("would call this one again") == 1
    plans = await bridge.run(lambda: list(Task.objects.values_list("agent__slug", flat=True).order_by("created_at")))
    assert plans == ["here", "there"]


async def test_the_router_does_no_step_that_looks_for_somebody(ada, plan, said):
    from apps.runtime.router import HANDLER

    def around():
        register_hosted("router", HANDLER)
        agent = plan(FOUND)
        Agent.objects.filter(slug="router").update(skills=LOUDLY)
        Agent.objects.exclude(slug__in=("plan", "router")).update(skills=[], is_enabled=False)
        return agent

    task = await done(ada.principal, await bridge.run(around), said())
    assert task.state == "failed"
    assert "No agent that the owner of this plan's task may use fits" in words(task)


async def test_a_template_that_reaches_for_what_is_not_there_fails_its_step(ada, plan, said):
    steps = {
        "first": {"agent": "loud", "message": "x"},
        "second": {"agent": "loud", "message": "{{ steps.first.data.name }}"},
    }
    task = await run(ada, plan, said, steps)
    assert task.state == "failed"
    assert words(task).startswith("The step “second” failed:")
    assert "`name`" in words(task)


async def test_an_agent_that_the_owner_may_not_use_is_not_used(ada, plan, said):
    steps = {"one": {"agent": "loud", "message": "x"}}
    agent = await bridge.run(lambda: plan(steps))
    await bridge.run(lambda: Agent.objects.filter(slug="loud").update(access=Agent.Access.GROUPS))
    task = await done(ada.principal, agent, said())
    assert task.state == "failed"
    assert "steps.one.agent: There is no agent `loud` that can be used." in words(task)
    assert not await bridge.run(Task.objects.filter(parent=task.pk).exists)


async def test_plans_nest_and_their_depth_is_bounded(ada, plan, said):
    inner = {"one": {"agent": "loud", "message": "{{ inputs.text }}"}}
    await bridge.run(lambda: plan(inner, slug="inner"))
    steps = {
        "nested": {"agent": "inner", "message": "deep"},
        "after": {"agent": "loud", "message": "{{ steps.nested.artifacts[0].text }}!"},
    }
    task = await run(ada, plan, said, steps)
    assert (task.state, DONE["loud:DEEP!"]) == ("completed", 1)
    await the_record_holds()
    with override_settings(DELEGATION_DEPTH=1):
        task = await run(ada, plan, said, steps)
    assert task.state == "failed"
    assert "1 levels deep" in words(task)


async def test_artifacts_of_the_same_name_are_told_apart(ada, plan, said):
    steps = {"one": {"agent": "loud", "message": "a"}, "two": {"agent": "loud", "message": "b"}}
    task = await run(ada, plan, said, steps)
    names = await bridge.run(
        lambda: sorted(Artifact.objects.delivered().filter(task=task).values_list("name", flat=True))
    )
    assert names == ["one: loud", "two: loud"]
    task = await run(ada, plan, said, steps, outputs=["two"])
    made = await bridge.run(lambda: Artifact.objects.delivered().get(task=task))
    assert (made.name, made.parts[0]["text"]) == ("loud", "B")
