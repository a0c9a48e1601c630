"""However often a run is ticked, each step has one task."""

import asyncio
import datetime
import uuid

import pytest
from django.utils import timezone

from apps.accounts.models import ApiKey
from apps.accounts.resources import NotNeeded
from apps.engine.queue import Lane
from apps.engine.send import accept_and_publish
from apps.plans import jobs
from apps.plans.models import PlanRun, Step
from apps.plans.running import engine, runs
from apps.record.errors import InvalidParams, Refusal
from apps.record.execution import Run
from apps.record.models import Artifact, Task
from parley import db
from tests.engine.delegating import done, ended, sent, until
from tests.plans.plan_agents import DONE, GATE
from tests.plans.playing import rows, the_record_holds, words

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("several look at a run at once, woken by a broker and held apart by the database's locks"),
]

TWO = {
    "first": {"agent": "loud", "message": "{{ inputs.text }}"},
    "second": {"agent": "counting", "message": "{{ steps.first.text }} said {{ steps.first.artifacts[0].text }}"},
}
FAN = {
    "part": {"agent": "parting", "message": "{{ inputs.text }}"},
    "wait": {"agent": "patient", "message": "{{ item }}", "for_each": "steps.part.data.words"},
    "join": {"agent": "counting", "message": "{{ steps.wait|length }}"},
}
PATIENT = {"one": {"agent": "patient", "message": "x"}}


# By a real worker


@pytest.mark.usefixtures("worker")
async def test_two_steps_run_one_after_the_other(ada, plan, said):
    task = await done(ada.principal, await db.run(plan, TWO), said("hello"))
    assert (task.state, words(task)) == ("completed", "2 steps done.")
    await until(lambda: PlanRun.objects.get().finished_at)

    def look():
        first, second = Step.objects.filter(run=task.pk).order_by("key").select_related("task__context")
        assert (first.state, second.state) == ("done", "done")
        assert second.task.references == [str(first.task_id)]
        assert {first.task.parent_id, second.task.parent_id} == {task.pk}
        assert first.task.context.parent_task == task.pk
        (artifact,) = Artifact.objects.delivered().filter(task=task)
        assert artifact.name == "count"
        assert artifact.parts[0]["data"] == {"count": len("HELLO said HELLO")}
        assert not Run.objects.unfinished().exists()
        the_record_holds()

    await db.run(look)
    assert DONE == {"loud:hello": 1, "counting": 1}


@pytest.mark.usefixtures("worker")
async def test_several_may_look_at_once(ada, plan, said):
    receipt = await sent(ada.principal, await db.run(plan, FAN), said("a b c d"))

    async def look():
        while not DONE["counting"]:
            await db.run(engine.advance, receipt.task)

    async with asyncio.timeout(60), asyncio.TaskGroup() as lookers:
        for _ in range(3):
            lookers.create_task(look())
        await until(lambda: DONE["patient"] == 4)
        GATE.set()
    assert (await ended(receipt)).state == "completed"
    assert DONE == {"parting": 1, "patient": 4, "counting": 1}
    assert await db.run(Task.objects.filter(parent=receipt.task).count) == 6
    await until(lambda: not Run.objects.unfinished().exists())
    await db.run(the_record_holds)


@pytest.mark.usefixtures("worker")
async def test_the_sweep_finds_what_wake_ups_lost(ada, plan, said, monkeypatch, settings):
    settings.SWEEP_SECONDS = 0
    monkeypatch.setattr("apps.plans.jobs.tick_soon", lambda run: None)
    receipt = await sent(ada.principal, await db.run(plan, TWO), said("hello"))
    async with asyncio.timeout(60):
        while not await db.run(lambda: Task.objects.get(pk=receipt.task).state == "completed"):
            await db.run(jobs.RUNS_TO_ADVANCE.sweep)
            await asyncio.sleep(0.05)
    assert DONE == {"loud:hello": 1, "counting": 1}


def test_a_plan_started_twice_runs_once(play):
    agent, message = play.plan(TWO), {"messageId": "once"}
    task = play.send(agent, **message)
    assert play.send(agent, **message) == task
    assert (task.state, PlanRun.objects.count(), DONE) == ("completed", 1, {"loud:hello": 1, "counting": 1})
    with pytest.raises(InvalidParams):
        play.send(agent, "something else", **message)


def test_an_unheard_steps_task_is_not_sent_twice(play):
    task = play({"one": PATIENT["one"] | {"time_limit": 60}})
    now, half = timezone.now(), datetime.timedelta(seconds=30)
    Step.objects.update(state="starting", due_at=now - half)
    engine.advance(task.pk)
    assert Task.objects.filter(parent=task.pk).count() == 1
    assert Step.objects.get().due_at > now + half, "it keeps its time limit"
    assert (play.release(task).state, DONE["patient"]) == ("completed", 1)


def test_steps_count_for_the_starting_key(play, ada, said):
    key = ApiKey.issue(ada, "one")[0]
    sent_task = play.on(accept_and_publish(key.principal, play.plan(TWO), said()).task)
    lanes = Run.objects.filter(task__parent=sent_task).values_list("lane", flat=True)
    assert {Lane.read(lane).key for lane in lanes} == {str(key)}


def test_a_paused_plan_begins_nothing(play):
    task = play(PATIENT | {"two": {"agent": "loud", "message": "{{ steps.one.text }}"}})
    runs.PAUSE.do(PlanRun.objects.get(), play.ada.principal)
    with pytest.raises(NotNeeded):
        runs.PAUSE.do(PlanRun.objects.get(), play.ada.principal)
    task = play.release(task)
    assert (task.state, rows(task, "state")) == ("working", ["done", "waiting"])
    runs.RESUME.do(PlanRun.objects.get(), play.ada.principal)
    assert (play.on(task.pk).state, DONE["loud:x"]) == ("completed", 1)


AGAIN = {
    "first": {"agent": "counting", "message": "{{ inputs.text }}"},
    "breaks": {"agent": "brittle", "message": "1", "depends_on": ["first"]},
    "last": {"agent": "loud", "message": "{{ steps.first.data.count }} {{ steps.breaks.text }}"},
}


def test_a_plan_runs_again_from_a_step(play):
    task = play(AGAIN)
    assert task.state == "failed"
    earlier, key = PlanRun.objects.get(), str(uuid.uuid4())
    again = play.again(task, "breaks", key=key)
    assert play.again(task, "breaks", key=key) == again
    assert (again.state, again.context_id, again.references) == ("completed", task.context_id, [str(task.pk)])
    assert DONE == {"counting": 1, "brittle:1": 2, "loud:5 whole": 1}
    run = PlanRun.objects.get(pk=again.pk)
    assert (run.continues_id, run.begun_at_step, run.inputs["text"]) == (earlier.pk, "breaks", "hello")
    assert Step.objects.get(run=run, key="first").reused == Step.objects.get(run=earlier, key="first")


def test_only_ones_own_ended_plan_runs_again(play, bob):
    task = play(PATIENT)
    with pytest.raises(Refusal, match="has not ended"):
        play.again(task, "one")
    play.release(task)
    with pytest.raises(Refusal, match="no step `two`"):
        play.again(task, "two")
    with pytest.raises(Refusal, match="does not exist"):
        play.again(task, "one", user=bob)
    meant = {runs.RERUN: {"continues": str(task.pk), "from": "one"}}
    theirs = play.send(task.agent, user=bob, metadata=meant)
    assert (theirs.state, words(theirs)) == ("failed", "There is no earlier run of this plan to continue.")
