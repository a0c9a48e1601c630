"""Operators pause, drain and resume agents, and give runs back to the queue."""

import asyncio

import pytest

import db
from agentkit import Completed, InputRequired
from apps.agents import cards
from apps.agents.models import Agent
from apps.engine import accept, activity, claim, jobs, send
from apps.engine.claim import give_back
from apps.installation.models import Activity, Operation
from apps.record.errors import NotAccepting, UnsupportedOperation
from apps.record.execution import Run
from apps.record.models import Message, Task
from apps.record.runs import LeaseLost
from tests.working import begin, end, let_the_lease_run_out, state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("a claim reads both states in one query")]

PAUSED, DRAINING, ACTIVE = Activity.PAUSED, Activity.DRAINING, Activity.ACTIVE


@pytest.fixture
def published(monkeypatch):
    """The runs whose messages were sent."""
    sent: list = []
    for module in (activity, accept, claim, jobs, send):
        monkeypatch.setattr(module, "publish", sent.append)
    return sent


@pytest.fixture(params=["the agent", "all agents"])
def set_to(request, echo, db):
    """Set the activity of one agent, or of all."""
    if request.param == "the agent":
        return lambda wanted: activity.set_activity(echo, wanted)
    return lambda wanted: activity.set_activity_of_all(wanted, None)


def test_a_paused_agent_accepts_messages_and_starts_when_it_is_resumed(ada, echo, said, set_to, published):
    assert set_to(PAUSED)
    run = accept.accept(ada.principal, echo, said()).run
    assert claim.claim(run, "a worker") is None
    assert Run.objects.get().state == "queued"
    assert published == []
    assert set_to(ACTIVE)
    assert jobs.publish_waiting() == 1
    assert published == [run]
    assert jobs.publish_waiting() == 0, "a second job finds nothing"
    assert begin(run)
    assert not set_to(ACTIVE)


def test_two_who_pause_all_agents_at_the_same_time_do_it_once(ada):
    """The second one read the state before the first one wrote it."""
    real = Operation.objects.get_or_create

    def meanwhile(**values):
        found = real(**values)
        Operation.objects.update(activity=PAUSED, changed_by=ada)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Operation.objects, "get_or_create", meanwhile)
        assert not activity.set_activity_of_all(PAUSED, None)
    assert Operation.objects.get().changed_by == ada


def test_a_turn_that_runs_goes_on_but_is_not_repeated_while_its_agent_is_paused(ada, echo, said, set_to):
    working = begin(accept.accept(ada.principal, echo, said()).run)
    lost = begin(accept.accept(ada.principal, echo, said()).run)
    set_to(PAUSED)
    end(working, Completed("done"))
    assert state_of(working.task.pk) == "completed"
    let_the_lease_run_out(lost.lease)
    assert claim.claim(lost.lease.run_id, "another") is None
    assert state_of(lost.task.pk) == "working"


def test_the_sweep_leaves_out_what_is_paused(ada, echo, countdown, said, published):
    waiting = accept.accept(ada.principal, echo, said()).run
    lost = accept.accept(ada.principal, countdown, said()).run
    Run.objects.update(queued_at="2026-01-01T00:00Z")
    activity.set_activity(echo, PAUSED)
    jobs.sweep()
    assert published == [lost]
    activity.set_activity_of_all(PAUSED, None)
    Run.objects.update(published_at=None)
    jobs.sweep()
    assert published == [lost]
    activity.set_activity_of_all(ACTIVE, None)
    jobs.publish_waiting()
    assert waiting not in published, "its agent is still paused"


def test_a_drained_agent_refuses_new_tasks_and_ends_what_it_has(ada, echo, said, set_to, published):
    queued = accept.accept(ada.principal, echo, said()).run
    asking = accept.accept(ada.principal, echo, said())
    end(begin(asking.run), InputRequired("Which?"))
    message = said("known")
    before = accept.accept(ada.principal, echo, message)
    set_to(DRAINING)
    with pytest.raises(NotAccepting):
        accept.accept(ada.principal, echo, said())
    assert Task.objects.count() == 3
    assert accept.accept(ada.principal, echo, message).task == before.task, "sent again, it is not new"
    assert begin(queued)
    answer = accept.accept(ada.principal, echo, said("this one", taskId=str(asking.task)))
    assert begin(answer.run)
    set_to(ACTIVE)
    assert accept.accept(ada.principal, echo, said()).run


def test_while_all_drain_an_agent_may_still_call_another(ada, echo, countdown, said):
    caller = accept.accept(ada.principal, echo, said()).task
    activity.set_activity_of_all(DRAINING, None)
    assert accept.accept(ada.principal, countdown, said(), parent=caller, sender=f"task:{caller}").run
    activity.set_activity(countdown, DRAINING)
    with pytest.raises(NotAccepting):
        accept.accept(ada.principal, countdown, said(), parent=caller, sender=f"task:{caller}")


async def test_an_agent_that_answers_with_messages_is_not_asked_while_it_is_paused(ada, agent, said):
    quick = await agent("Counting")
    known = said("known")
    first = await send.send(ada.principal, quick, known)
    for wanted in (PAUSED, DRAINING):
        await db.run(activity.set_activity, quick, wanted)
        with pytest.raises(NotAccepting):
            await send.send(ada.principal, quick, said())
        assert (await send.send(ada.principal, quick, known)).index == first.index
    assert await Message.objects.acount() == 2


async def test_a_worker_starts_the_queue_of_a_resumed_agent_at_once(worker, ada, echo, said):
    await db.run(activity.set_activity, echo, PAUSED)
    sent = await send.send(ada.principal, echo, said())
    await db.run(activity.set_activity, echo, ACTIVE)
    async with asyncio.timeout(10):
        assert await send.wait_until_settled(sent.context, sent.task, 0, lambda task: task.state) == "completed"


def test_its_card_says_that_an_agent_is_paused(echo, set_to):
    assert cards.health_extension(echo)["params"] == {"status": "ok"}
    set_to(PAUSED)
    assert cards.health_extension(Agent.objects.get())["params"]["status"] == "unavailable"
    assert "paused" in cards.health_extension(Agent.objects.get())["params"]["reason"]


def test_a_stuck_run_is_given_to_another_worker_and_the_first_one_can_write_nothing_more(ada, echo, said, published):
    Agent.objects.update(retry_safe=True)
    stuck = begin(accept.accept(ada.principal, echo, said()).run, "stuck:1")
    assert give_back(stuck.lease.run_id) == "stuck:1"
    assert published[-1] == stuck.lease.run_id
    with pytest.raises(LeaseLost):
        end(stuck, Completed("late"))
    again = begin(stuck.lease.run_id, "another:1")
    assert (again.attempt, again.lease.fence) == (1, stuck.lease.fence + 2)
    end(again, Completed("done"))
    assert state_of(stuck.task.pk) == "completed"


def test_a_run_that_nobody_has_or_that_must_not_be_repeated_is_not_given_back(ada, echo, said, published):
    Agent.objects.update(retry_safe=False)
    run = accept.accept(ada.principal, echo, said()).run
    with pytest.raises(UnsupportedOperation):
        give_back(run)
    begin(run)
    with pytest.raises(UnsupportedOperation):
        give_back(run)
    assert Run.objects.get().state == "running"
