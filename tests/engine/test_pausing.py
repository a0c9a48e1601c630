"""Operators pause, drain and resume agents; tasks wait for those that they depend on."""

import pytest
from django.db.models import Q

from agentkit import Completed, Failed, InputRequired
from apps.agents import cards
from apps.agents.models import Agent
from apps.engine import accept, activity, cancel, claim, dependencies, jobs, send
from apps.engine.claim import give_back
from apps.engine.send import accept_and_publish
from apps.installation.models import Activity
from apps.record import projection
from apps.record.errors import InvalidParams, NotAccepting, UnsupportedOperation
from apps.record.execution import Dependency, Run
from apps.record.models import Message, Task
from apps.record.runs import LeaseLost
from parley import db
from tests.working import begin, end, let_the_lease_run_out, state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("a claim reads both states in one query")]

PAUSED, DRAINING, ACTIVE = Activity.PAUSED, Activity.DRAINING, Activity.ACTIVE


@pytest.fixture(params=["the agent", "all agents"])
def set_to(request, echo, db):
    """Set the activity of one agent, or of all."""
    if request.param == "the agent":
        return lambda wanted: activity.set_activity(echo, wanted)
    return lambda wanted: activity.set_activity_of_all(wanted, None)


def test_paused_agent_starts_when_resumed(ada, echo, said, set_to, published):
    working = begin(accept.accept(ada.principal, echo, said()).run)
    lost = begin(accept.accept(ada.principal, echo, said()).run)
    assert cards.health_extension(echo)["params"] == {"status": "ok"}
    assert set_to(PAUSED)
    card = cards.health_extension(Agent.objects.get())["params"]
    assert (card["status"], "paused" in card["reason"]) == ("unavailable", True)
    end(working, Completed("done"))
    assert state_of(working.task.pk) == "completed", "what runs goes on"
    let_the_lease_run_out(lost.lease)
    assert claim.claim(lost.lease.run_id, "another") is None
    assert state_of(lost.task.pk) == "working", "what is lost is not repeated yet"
    run = accept.accept(ada.principal, echo, said()).run
    assert claim.claim(run, "a worker") is None
    assert (Run.objects.get(pk=run).state, published) == ("queued", [])
    assert set_to(ACTIVE)
    assert jobs.publish_waiting() == len(published) >= 1
    assert run in published
    assert jobs.publish_waiting() == 0, "a second job finds nothing"
    assert begin(run)
    assert not set_to(ACTIVE)


def test_drained_agent_refuses_only_new_tasks(ada, echo, said, set_to, published):
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


async def test_paused_agent_gives_no_direct_answers(ada, agent, said):
    quick = await agent("Counting")
    known = said("known")
    first = await send.send(ada.principal, quick, known)
    for wanted in (PAUSED, DRAINING):
        await db.run(activity.set_activity, quick, wanted)
        with pytest.raises(NotAccepting):
            await send.send(ada.principal, quick, said())
        assert (await send.send(ada.principal, quick, known)).index == first.index
    assert await Message.objects.acount() == 2


def test_stuck_run_is_given_back_if_repeatable(ada, echo, said, published):
    waiting = accept.accept(ada.principal, echo, said()).run
    stuck = begin(accept.accept(ada.principal, echo, said()).run, "stuck:1")
    for retry_safe, run in ((True, waiting), (False, stuck.lease.run_id)):
        Agent.objects.update(retry_safe=retry_safe)
        with pytest.raises(UnsupportedOperation):
            give_back(run)
    Agent.objects.update(retry_safe=True)
    assert give_back(stuck.lease.run_id) == "stuck:1"
    assert published[-1] == stuck.lease.run_id
    with pytest.raises(LeaseLost):
        end(stuck, Completed("late"))
    again = begin(stuck.lease.run_id, "another:1")
    assert (again.attempt, again.lease.fence) == (1, stuck.lease.fence + 2)
    end(again, Completed("done"))
    assert state_of(stuck.task.pk) == "completed"


# Dependencies


@pytest.fixture
def depending(ada, echo, said):
    def send(*depends, **fields):
        metadata = {"metadata": {"dependsOn": [str(one.task) for one in depends]}} if depends else {}
        return accept_and_publish(ada.principal, echo, said(**metadata), **fields)

    return send


def run_of(receipt):
    return Run.objects.get(task=receipt.task)


def test_dependent_task_starts_after_its_tasks(depending):
    first, second = depending(), depending()
    third = depending(first, second)
    assert (state_of(third.task), run_of(third).state, third.run) == ("submitted", "waiting", None)
    end(begin(first.run), Completed("one"))
    dependencies.settle(Q())
    assert run_of(third).state == "waiting", "the second works"
    end(begin(second.run), Completed("two"))
    dependencies.settle(Q())
    run = run_of(third)
    assert run.state == "queued"
    assert [one.messages[-1].text for one in begin(run.pk).references] == ["one", "two"]
    assert projection.differences(third.context) == []


def test_dependent_task_fails_with_its_task(depending):
    first = depending()
    second = depending(first)
    third = depending(second)
    end(begin(first.run), Failed("no"))
    for _ in range(2):
        dependencies.settle(Q())
    assert [state_of(one.task) for one in (second, third)] == ["failed", "failed"]
    said = Task.objects.get(pk=second.task).status_message["parts"][0]["text"]
    assert said == "The task of Echo that this one depends on was not completed: it is failed."
    assert not Dependency.objects.exists()
    assert state_of(depending(first).task) == "failed", "it had failed before"
    caller = depending()
    with pytest.raises(InvalidParams, match="cannot depend on one that called it"):
        depending(caller, parent=caller.task)


@pytest.mark.parametrize("how", ["deleted", "canceled"])
def test_deleted_or_canceled_tasks_start_nothing(ada, echo, depending, how):
    first = depending()
    second = depending(first)
    if how == "deleted":
        Task.objects.filter(pk=first.task).delete()
    else:
        cancel.cancel_by_id(ada.principal, echo, str(second.task))
        end(begin(first.run), Completed("one"))
    dependencies.sweep()
    assert state_of(second.task) == ("failed" if how == "deleted" else "canceled")
    assert run_of(second).state not in ("waiting", "queued")
    assert not Dependency.objects.exists()


def test_what_has_no_effect_is_a_hint(ada, bob, echo, said):
    own, theirs, other = [accept.accept(person.principal, echo, said()) for person in (ada, bob, bob)]
    named = {"referenceTaskIds": [str(own.task), str(theirs.task), "none"]}
    depends = {"metadata": {"dependsOn": [str(other.task)], "skillId": "fly"}}
    sent = accept.accept(ada.principal, echo, said(**named, **depends))
    assert sent.run is not None
    task = Task.objects.get(pk=sent.task)
    assert task.references == [str(own.task)]
    for unseen in (theirs.task, other.task, "none"):
        assert f"There is no task {unseen} that you may see. It has no effect." in task.metadata["hints"]
    assert "Echo has no skill fly. It has " in str(task.metadata["hints"])
    assert accept.hints_for(echo, said(referenceTaskIds=[str(own.task)]), [str(own.task)]) == []
