"""The engine is rows: whoever looks, however often and however many at once, each step has one task."""

import asyncio
import uuid

import pytest
from django.utils import timezone

import bridge
from apps.conversations.errors import InvalidParams, Refusal
from apps.conversations.models import Task
from apps.orchestration import controls, engine, opening, sweeping
from apps.orchestration.models import PlanRun, Step
from tests.orchestration.plan_agents import DONE, GATE
from tests.orchestration.test_plans_run import TWO, the_record_holds
from tests.runtime.delegating import done, ended, sent, until, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]

FAN = {
    "part": {"agent": "parting", "message": "{{ inputs.text }}"},
    "wait": {"agent": "patient", "message": "{{ item }}", "for_each": "steps.part.data.words"},
    "join": {"agent": "counting", "message": "{{ steps.wait|length }}"},
}


async def test_several_may_look_at_once(ada, plan, said):
    agent = await bridge.run(lambda: plan(FAN))
    receipt = await sent(ada.principal, agent, said("a b c d"))

    async def look():
        while not DONE["counting"]:
            await bridge.run(engine.advance, receipt.task)

    async with asyncio.timeout(30), asyncio.TaskGroup() as lookers:
        for _ in range(3):
            lookers.create_task(look())
        await until(lambda: DONE["patient"] == 4)
        GATE.set()
    assert (await ended(receipt)).state == "completed"
    assert DONE == {"parting": 1, "patient": 4, "counting": 1}
    assert await bridge.run(Task.objects.filter(parent=receipt.task).count) == 6
    await the_record_holds()


async def test_the_sweep_finds_what_wake_ups_lost(ada, plan, said, monkeypatch, settings):
    settings.SWEEP_SECONDS = 0
    monkeypatch.setattr("apps.orchestration.looking.look_soon", lambda run: None)
    agent = await bridge.run(lambda: plan(TWO))
    receipt = await sent(ada.principal, agent, said("hello"))
    async with asyncio.timeout(30):
        while not await bridge.run(lambda: Task.objects.get(pk=receipt.task).state == "completed"):
            await bridge.run(sweeping.sweep)
            await asyncio.sleep(0.05)
    assert DONE == {"loud:hello": 1, "counting": 1}


async def test_nothing_is_swept_that_only_waits(ada, plan, said, settings):
    settings.SWEEP_SECONDS = 0
    agent = await bridge.run(lambda: plan({"ask": {"agent": "curious", "message": "it"}}))
    task = await done(ada.principal, agent, said())
    assert task.state == "input-required"
    assert await bridge.run(sweeping.sweep) == 0


async def test_a_plan_that_is_started_twice_with_the_same_id_runs_once(ada, plan, said):
    agent = await bridge.run(lambda: plan(TWO))
    message = said("hello")
    first = await sent(ada.principal, agent, message)
    again = await sent(ada.principal, agent, message)
    assert (again.task, again.repeated) == (first.task, True)
    assert (await ended(first)).state == "completed"
    assert await bridge.run(PlanRun.objects.count) == 1
    assert DONE == {"loud:hello": 1, "counting": 1}
    with pytest.raises(InvalidParams):
        await sent(ada.principal, agent, {**message, "parts": [{"text": "something else"}]})


async def test_a_step_whose_task_nobody_has_heard_of_is_not_sent_twice(ada, plan, said):
    agent = await bridge.run(lambda: plan({"one": {"agent": "patient", "message": "x"}}))
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: DONE["patient"])
    unheard = {"state": "starting", "due_at": timezone.now()}
    await bridge.run(lambda: Step.objects.update(**unheard))
    await bridge.run(engine.advance, receipt.task)
    assert await bridge.run(Task.objects.filter(parent=receipt.task).count) == 1
    GATE.set()
    assert (await ended(receipt)).state == "completed"
    assert DONE["patient"] == 1


async def test_a_paused_plan_begins_nothing_until_it_goes_on(ada, plan, said):
    steps = {"one": {"agent": "patient", "message": "x"}, "two": {"agent": "loud", "message": "{{ steps.one.text }}"}}
    agent = await bridge.run(lambda: plan(steps))
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: DONE["patient"])
    run = await bridge.run(PlanRun.objects.get)
    assert await bridge.run(controls.pause, run)
    assert not await bridge.run(controls.pause, run)
    GATE.set()
    await until(lambda: Step.objects.get(key="one").state == "done")
    await bridge.run(engine.advance, run.pk)
    assert await bridge.run(lambda: Step.objects.get(key="two").state) == "waiting"
    assert await bridge.run(controls.resume, run)
    assert (await ended(receipt)).state == "completed"
    assert not await bridge.run(controls.resume, run)
    assert DONE["loud:x"] == 1


AGAIN = {
    "first": {"agent": "counting", "message": "{{ inputs.text }}"},
    "breaks": {"agent": "brittle", "message": "1", "depends_on": ["first"]},
    "last": {"agent": "loud", "message": "{{ steps.first.data.count }} {{ steps.breaks.text }}"},
}


async def test_a_plan_is_run_again_from_a_step_and_keeps_what_came_before(ada, plan, said):
    agent = await bridge.run(lambda: plan(AGAIN))
    task = await done(ada.principal, agent, said("hello"))
    assert task.state == "failed"
    earlier = await bridge.run(lambda: PlanRun.objects.get(pk=task.pk))
    key = str(uuid.uuid4())
    receipt = await controls.run_again(ada.principal, earlier, "breaks", key=key)
    assert (await controls.run_again(ada.principal, earlier, "breaks", key=key)).task == receipt.task
    again = await ended(receipt)
    assert (again.state, again.context_id) == ("completed", task.context_id)
    assert DONE == {"counting": 1, "brittle:1": 2, "loud:5 whole": 1}

    def look():
        run = PlanRun.objects.get(pk=again.pk)
        assert (run.continues_id, run.begun_at_step, run.inputs["text"]) == (earlier.pk, "breaks", "hello")
        kept = Step.objects.get(run=run, key="first")
        assert kept.reused == Step.objects.get(run=earlier, key="first")
        assert again.references == [str(task.pk)]

    await bridge.run(look)
    await the_record_holds()


async def test_only_what_is_over_and_ones_own_is_run_again_and_from_a_step_that_there_is(ada, bob, plan, said):
    agent = await bridge.run(lambda: plan({"one": {"agent": "patient", "message": "x"}}))
    receipt = await sent(ada.principal, agent, said())
    run = await until(PlanRun.objects.first)
    with pytest.raises(Refusal, match="not over"):
        await controls.run_again(ada.principal, run, "one")
    GATE.set()
    await ended(receipt)
    with pytest.raises(Refusal, match="no step `two`"):
        await controls.run_again(ada.principal, run, "two")
    with pytest.raises(Refusal, match="no such run"):
        await controls.run_again(bob.principal, run, "one")
    task = await done(bob.principal, agent, said(metadata={opening.AGAIN: {"continues": str(run.pk), "from": "one"}}))
    assert (task.state, words(task)) == ("failed", "There is no earlier run of this plan to go on from.")
