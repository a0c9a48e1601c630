"""Steps at the edge of what can be: what one person's data may not reach, and what must not stop a run for ever."""

import datetime

import pytest
from django.core.exceptions import ValidationError

import bridge
from apps.agents import versions
from apps.agents.models import Agent, AgentVersion
from apps.conversations.models import Artifact, Task
from apps.orchestration import board, controls, deciding, engine, looking, outputs, plans, sweeping
from apps.orchestration.models import PlanRun, Step
from tests.orchestration.plan_agents import DONE, GATE
from tests.orchestration.test_plans_run import the_record_holds
from tests.orchestration.test_questions import answered, data
from tests.runtime.delegating import done, ended, sent, until, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
LIST = {"type": "object", "properties": {"list": {"type": "array"}}}
EACH = {"each": {"agent": "loud", "message": "{{ item|tojson }}", "for_each": "inputs.list"}}


async def test_data_that_look_like_a_place_in_the_record_open_nothing(ada, bob, plan, said):
    secret = await bridge.run(lambda: plan({"one": {"agent": "loud", "message": "the secret"}}, slug="secret"))
    theirs = await done(bob.principal, secret, said())
    made = await bridge.run(lambda: Artifact.objects.delivered().get(task=theirs))
    step = await bridge.run(lambda: Step.objects.get(run=theirs.pk))
    places = [{"task": str(theirs.pk), "artifact": made.artifact_id}, {"step": str(step.pk)}, {"file": 9}, {"step": 1}]
    given = [*({"$": place} for place in places), {"$": 5}, {"a": [{"$": {"value": {}}}]}, {"$": 1, "b": {"$": 2}}]
    agent = await bridge.run(lambda: plan(EACH, inputs=LIST))
    task = await done(ada.principal, agent, said(**data({"list": given})))
    assert task.state == "completed", words(task)
    heard = await bridge.run(lambda: [step.message["parts"][0]["text"] for step in Step.objects.filter(run=task.pk)])
    assert len(heard) == len(given)
    assert all('"$"' in one for one in heard)
    assert not any("secret" in one.lower() for one in heard)
    await the_record_holds()


async def test_what_no_database_takes_never_gets_there(ada, plan, said):
    steps = {
        "text": {"agent": "loud", "message": r"{{ 'a\x00b\ud800' }}"},
        "each": {"agent": "loud", "message": "{{ item }}", "for_each": r"['c\x00d', {'\x00': '\ud800'}]"},
        "data": {"agent": "parting", "message": "x"},
        "why": {"agent": "loud", "message": r"{{ steps.data.data['\x00'] }}", "on_failure": "skip"},
        "number": {"agent": "loud", "message": "{{ item }}", "for_each": "[1e308 * 10]", "on_failure": "skip"},
    }
    task = await done(ada.principal, await bridge.run(lambda: plan(steps)), said())
    assert task.state == "completed", words(task)
    assert DONE["loud:a\ufffdb\ufffd"] == DONE["loud:c\ufffdd"] == DONE['loud:{"\ufffd": "\ufffd"}'] == 1
    why = dict(await bridge.run(lambda: list(Step.objects.filter(state="skipped").values_list("key", "why"))))
    assert "has no `\ufffd`" in why["why"]
    assert "JSON has no such numbers" in why["number"]


@pytest.mark.parametrize("given", [5, {"parleyRequest": {}, "dose": "lethal"}])
async def test_whoever_approves_sees_all_that_is_sent(ada, plan, said, given):
    steps = {
        "form": {"person": {"ask": "What?", "schema": {}}},
        "one": {"agent": "loud", "message": "x", "attach": ["steps.form"], "approve": "before"},
    }
    agent = await bridge.run(lambda: plan(steps))
    task = await done(ada.principal, agent, said())
    task = await answered(ada, agent, said, task, **data(given))
    assert (task.state, "May the step" in words(task)) == ("input-required", True), words(task)
    assert [part["data"] for part in task.status_message["parts"] if "data" in part] == [given]


async def test_a_step_that_fails_again_before_it_begins_is_decided_again(ada, plan, said):
    steps = {
        "first": {"agent": "loud", "message": "x"},
        "second": {"agent": "loud", "message": "{{ steps.first.data.name }}", "on_failure": "ask"},
    }
    agent = await bridge.run(lambda: plan(steps))
    task = await done(ada.principal, agent, said())
    for _ in range(3):
        assert (task.state, "How is the plan to go on?" in words(task)) == ("input-required", True)
        task = await answered(ada, agent, said, task, **data({"decision": "try again"}))
    task = await answered(ada, agent, said, task, **data({"decision": "go on without it"}))
    assert (task.state, words(task)) == ("completed", "1 step done, 1 skipped.")
    await the_record_holds()


async def test_what_was_not_approved_does_not_begin_because_it_is_tried_again(ada, plan, said):
    steps = {"one": {"agent": "loud", "message": "hello", "approve": "before", "on_failure": "ask"}}
    agent = await bridge.run(lambda: plan(steps))
    task = await done(ada.principal, agent, said())
    for _ in range(2):
        assert "May the step" in words(task)
        task = await answered(ada, agent, said, task, **data({"approved": False}))
        assert "It was not approved." in words(task)
        task = await answered(ada, agent, said, task, **data({"decision": "try again"}))
    assert not DONE
    task = await answered(ada, agent, said, task, **data({"approved": True}))
    assert (task.state, DONE["loud:hello"]) == ("completed", 1)


async def test_what_was_answered_by_an_agent_still_has_only_so_much_time(ada, plan, said):
    steps = {"slow": {"agent": "hesitant", "message": "x", "time_limit": 0.5}}
    agent = await bridge.run(lambda: plan(steps, answering="knowing"))
    task = await done(ada.principal, agent, said())
    assert (DONE["hesitant"], task.state) == (1, "failed")
    assert "longer than its limit of 0.5 seconds" in words(task)


@pytest.mark.parametrize("state", ["failed", "done"])
async def test_the_sweep_finds_a_plan_whose_end_nobody_recorded(ada, plan, said, settings, state):
    """Whoever saw the step end was killed before it recorded the end of the plan, which is paused."""
    settings.SWEEP_SECONDS = 0
    steps = {"slow": {"agent": "patient", "message": "x"}, "other": {"agent": "patient", "message": "y"}}
    agent = await bridge.run(lambda: plan(steps))
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: Step.objects.filter(state="running", task__state="working").count() == 2)
    await bridge.run(lambda: controls.pause(PlanRun.objects.get()))
    await until(lambda: "(paused)" in PlanRun.objects.get().told)
    assert await bridge.run(sweeping.sweep) == 0
    seen = Step.objects.filter(key="other") if state == "failed" else Step.objects.all()
    await bridge.run(lambda: seen.update(state=state, why="It broke."))
    assert await bridge.run(sweeping.sweep) == 1
    task = await ended(receipt)
    assert task.state == ("completed" if state == "done" else "failed")


async def test_results_are_kept_where_they_are_still_those_of_the_step(ada, plan, said):
    words_of = {"part": {"agent": "parting", "message": "a b"}}
    last = {"agent": "loud", "message": "{{ steps.shout|map(attribute='text')|join(',') }}"}
    one = {"shout": {"agent": "loud", "message": "one"}, "last": last | {"message": "{{ steps.shout.text }}"}}
    each = {"shout": {"agent": "loud", "message": "{{ item }}", "for_each": "steps.part.data.words"}, "last": last}
    agent = await bridge.run(lambda: plan(words_of | each))
    task = await done(ada.principal, agent, said())
    assert DONE["loud:A,B"] == 1
    await bridge.run(lambda: plan(words_of | one))
    task = await ended(await again(ada, task, "last"))
    assert (task.state, DONE["loud:ONE"], DONE["parting"]) == ("completed", 1, 1), words(task)
    await bridge.run(lambda: plan(words_of | each))
    task = await ended(await again(ada, task, "last"))
    assert (task.state, DONE["loud:A,B"], DONE["parting"]) == ("completed", 2, 1), words(task)
    await bridge.run(lambda: Task.objects.get(plan_steps__run=task.pk, plan_steps__key="part").context.delete())
    task = await ended(await again(ada, task, "last"))
    assert (task.state, DONE["loud:A,B"], DONE["parting"]) == ("completed", 3, 2), words(task)


async def again(ada, task, step):
    run = await bridge.run(lambda: PlanRun.objects.get(pk=task.pk))
    return await controls.run_again(ada.principal, run, step)


async def test_more_than_a_template_may_hold_fails_its_step(ada, plan, said, monkeypatch, settings):
    steps = {
        "all": {"agent": "loud", "message": "{{ item }}", "for_each": "['x' ~ inputs.text, 'y', 'z']"},
        "join": {"agent": "loud", "message": "{{ steps.all|length }}", "on_failure": "skip"},
        "sent": {"agent": "loud", "message": "x", "attach": ["inputs.files"], "on_failure": "skip"},
        "made": {"agent": "loud", "message": "made", "output": {"media_type": "text/plain"}, "on_failure": "skip"},
    }
    agent = await bridge.run(lambda: plan(steps))
    monkeypatch.setattr(outputs, "MOST_BYTES_OF_A_KEY", 3)
    settings.MAX_REQUEST_BYTES = 10
    file = {"raw": "YWJjZGVmZ2hpamtsbW5v", "filename": "a.bin"}
    task = await done(ada.principal, agent, said(parts=[{"text": "words"}, file]))
    assert task.state == "completed", words(task)
    why = dict(await bridge.run(lambda: list(Step.objects.filter(state="skipped").values_list("key", "why"))))
    assert why["join"] == "It cannot be worked out: What `all` delivered is larger than 3 bytes together."
    assert why["made"] == "What `made` delivered is larger than 3 bytes together."
    assert why["sent"] == "What goes along with its message is more than 5,000 parts, or 10 bytes."


async def test_one_look_takes_only_so_much_time_and_the_next_goes_on(ada, plan, said, monkeypatch):
    """Templates may take two seconds each: the lock is let go of in between."""
    monkeypatch.setattr(board, "SECONDS", 0)
    steps = {
        "each": {"agent": "patient", "message": "{{ item }}", "for_each": "range(5)|list"},
        "bad": {
            "agent": "loud",
            "message": "{{ inputs.text + item }}",
            "for_each": "range(5)|list",
            "on_failure": "skip",
        },
        "join": {"agent": "loud", "message": "{{ steps.each|length }} {{ steps.bad|length }}"},
    }
    agent = await bridge.run(lambda: plan(steps))
    receipt = await sent(ada.principal, agent, said())
    skipped = Step.objects.filter(key="bad", state="skipped")
    await until(lambda: DONE["patient"] == skipped.count() == 5)
    looks = await bridge.run(lambda: len(set(skipped.values_list("ended_at", flat=True))))
    assert looks > 2  # two may come within one tick of the clock
    GATE.set()
    task = await ended(receipt)
    assert (task.state, DONE["loud:5 5"]) == ("completed", 1), words(task)


async def test_a_run_that_cannot_be_looked_at_does_not_keep_others_waiting(ada, plan, said):
    agent = await bridge.run(lambda: plan({"one": {"agent": "patient", "message": "x"}}))
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: DONE["patient"])

    def look():
        Step.objects.update(key="nobody_knows_it", state="ended")
        PlanRun.objects.update(advanced_at=LONG_AGO)
        with pytest.raises(KeyError):
            engine.advance(receipt.task)
        assert PlanRun.objects.get().advanced_at > LONG_AGO  # the sweep comes to those first that waited longest

    await bridge.run(look)


async def test_a_run_whose_plan_cannot_be_read_any_more_ends_and_says_so(ada, plan, said, settings):
    settings.SWEEP_SECONDS = 0
    agent = await bridge.run(lambda: plan({"one": {"agent": "patient", "message": "x"}}))
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: DONE["patient"])
    await until(lambda: not looking._queued and not looking._looked_at)  # a look that goes well forgets failures

    def look_in_vain():
        AgentVersion.objects.filter(agent=agent).update(content={"steps": "no steps"})
        versions.version_at.cache_clear()
        plans.plan_at.cache_clear()
        for number in range(engine.MOST_FAILURES):
            assert Task.objects.get(pk=receipt.task).state == "working", number
            with pytest.raises(ValidationError):
                engine.advance(receipt.task)

    await bridge.run(look_in_vain)
    task = await ended(receipt)
    assert (task.state, words(task)) == ("failed", engine.GIVEN_UP)
    await until(lambda: PlanRun.objects.filter(finished_at__isnull=False).exists())
    assert await bridge.run(lambda: Step.objects.get().state) == "canceled"
    await until(lambda: Task.objects.filter(state="canceled", parent=receipt.task).exists())


async def test_a_look_that_took_its_time_is_gone_on_with_whoever_is_lost(ada, plan, said, monkeypatch):
    steps = {key: {"agent": "patient", "message": key} for key in ("one", "two", "three")}
    receipt = await sent(ada.principal, await bridge.run(lambda: plan(steps)), said())
    await until(lambda: DONE["patient"] == 3)

    def spend():
        Step.objects.filter(key="three").update(state="waiting", task=None)
        monkeypatch.setattr(board, "SECONDS", 0)
        decision = deciding.decide(receipt.task)
        assert decision.is_spent
        assert PlanRun.objects.get().advanced_at is None
        assert sweeping.sweep() == 1

    await bridge.run(spend)


async def test_a_step_whose_task_moved_unheard_is_set_right(ada, plan, said):
    steps = {"ask": {"agent": "curious", "message": "it"}, "wait": {"agent": "patient", "message": "x"}}
    receipt = await sent(ada.principal, await bridge.run(lambda: plan(steps)), said())
    await until(lambda: DONE["patient"] and Step.objects.filter(key="ask", state="asking").exists())

    def disturb_and_sweep():
        Step.objects.filter(key="ask").update(state="running", asked_at=None)
        Step.objects.filter(key="wait").update(state="asking")
        sweeping.sweep()
        states = dict(Step.objects.values_list("key", "state"))
        assert states == {"ask": "asking", "wait": "running"}
        assert Step.objects.get(key="ask").asked_at is not None
        asks = Step.objects.get(key="ask").task
        Step.objects.filter(key="wait").update(phase="answering", consulted=asks)  # as if it were being answered

    await bridge.run(disturb_and_sweep)
    GATE.set()
    await until(lambda: Task.objects.filter(plan_steps__key="wait", state="completed").exists())
    assert await bridge.run(lambda: Step.objects.get(key="wait").state) == "running"

    def set_right():
        Step.objects.filter(key="wait").update(phase="work", consulted=None)
        sweeping.sweep()

    await bridge.run(set_right)
    await until(lambda: Step.objects.get(key="wait").state == "done")
    await until(lambda: Task.objects.get(pk=receipt.task).state == "input-required")


async def test_nobody_else_is_asked_in_peoples_place(ada, plan, said):
    taken = {"one": {"agent": "loud", "message": "yes"}}
    with pytest.raises(ValidationError, match="platform's own"):
        await bridge.run(lambda: plan(taken, slug="person"))
    await bridge.run(lambda: Agent.objects.filter(slug="person").delete())
    spy = await bridge.run(lambda: plan(taken, slug="spy"))
    await bridge.run(lambda: Agent.objects.filter(pk=spy.pk).update(slug="person"))
    agent = await bridge.run(lambda: plan({"one": {"agent": "loud", "message": "hello", "approve": "before"}}))
    task = await done(ada.principal, agent, said())
    assert (task.state, sum(DONE.values())) == ("failed", 0)
    assert not await bridge.run(Task.objects.filter(agent=spy).exists)


def test_json_is_read_where_a_link_comes_first():
    parts = [{"url": "https://example.org/a"}, {"raw": "eyJhIjogMX0=", "mediaType": "application/json"}]
    assert outputs.result_of(parts, "a").data == {"a": 1}
