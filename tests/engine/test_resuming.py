"""A waiting task continues once when its condition is met without a message."""

import asyncio
import uuid

import pytest

import db
from agentkit import AuthRequired, Completed, InputRequired
from apps.engine import accept, cancel, send
from apps.engine.accept import resume
from apps.engine.jobs import sweep
from apps.features.sessions import deletion
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Event, Message, Task
from tests.working import begin, carry_out, end, state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("those at once race in the database")]

QUESTIONS = [InputRequired("May I?", slot="leave", schema={"type": "string"}), AuthRequired("Your key?", slot="leave")]


@pytest.fixture
def published(monkeypatch):
    runs = []
    monkeypatch.setattr(accept, "publish", runs.append)
    monkeypatch.setattr("apps.engine.jobs.publish", runs.append)
    return runs


def waiting(ada, agent, said, question=QUESTIONS[1], **kept):
    sent = accept.accept(ada.principal, agent, said("first", contextId="talk"))
    end(begin(sent.run), question, **kept)
    return sent


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: type(question).__name__)
def test_the_next_turn_has_the_message_of_the_last_and_the_question_that_was_asked(
    ada, echo, said, published, question
):
    sent = waiting(ada, echo, said, question, memory={"kept": True})
    asked = Task.objects.get(pk=sent.task).slot
    assert resume(sent.task, because="the key was given")
    assert state_of(sent.task) == "working"
    run = Run.objects.select_related("message").get(pk=published[0])
    assert (run.turn, run.state, run.message.parts) == (2, Run.State.QUEUED, [{"text": "first"}])
    assert (run.slot, run.memory) == (asked, {"kept": True})
    assert Event.objects.filter(task=sent.task).last().payload == {"state": "working", "because": "the key was given"}
    held = begin(run.pk)
    assert held.resumed
    assert not end(held, Completed("done"))
    assert state_of(sent.task) == "completed"
    assert Message.objects.filter(task=sent.task, role=Message.Role.USER).count() == 1
    assert projection.differences(sent.context) == []


@pytest.mark.parametrize("word", ["leave", "credential"])
async def test_the_handler_takes_it_as_the_answer_to_its_question(ada, agent, said, published, word):
    asking = await agent("Asking")
    sent = await send.send(ada.principal, asking, said(word))
    await carry_out(await Run.objects.values_list("pk", flat=True).aget())
    assert await db.run(resume, sent.task, because="it was given")
    await carry_out(published[0])
    last = await Message.objects.alast()
    assert last.parts == [{"text": f"resumed leave with {word}, having asked for {word}"}]
    assert await db.run(projection.differences, sent.context) == []


async def test_eight_at_once_give_one_turn(ada, echo, said, published):
    sent = await db.run(waiting, ada, echo, said)
    went_on = await asyncio.gather(*(db.run(resume, sent.task, because=f"caller {n}") for n in range(8)))
    assert sorted(went_on) == [False] * 7 + [True]
    assert [run.pk async for run in Run.objects.filter(turn=2)] == published
    assert await Run.objects.filter(task=sent.task).acount() == 2
    assert await db.run(projection.differences, sent.context) == []


async def test_a_message_and_a_resuming_at_once_lose_nothing(ada, echo, said, published):
    for _ in range(4):
        sent = await db.run(waiting, ada, echo, said)
        answer = said("yes", taskId=str(sent.task))
        went_on, receipt = await asyncio.gather(
            db.run(resume, sent.task, because="it was given"),
            db.run(accept.accept, ada.principal, echo, answer),
        )
        run = published.pop() if went_on else receipt.run
        assert (receipt.run is None) == went_on, "the one that came second found a task that works"
        following = await db.run(lambda run=run: end(begin(run), Completed("done")))
        assert bool(following) == went_on, "a message that came second is a turn of its own"
        if following:
            await db.run(lambda run=following: end(begin(run), Completed("done")))
        assert await db.run(state_of, sent.task) == "completed"
        assert await db.run(projection.differences, sent.context) == []


def test_a_process_that_is_killed_before_it_could_publish_loses_nothing(
    ada, echo, said, published, monkeypatch, settings
):
    class Killed(BaseException):
        pass

    def die(run):
        raise Killed

    sent = waiting(ada, echo, said)
    monkeypatch.setattr(accept, "publish", die)
    with pytest.raises(Killed):
        resume(sent.task, because="it was given")
    assert state_of(sent.task) == "working"
    settings.SWEEP_SECONDS = -1
    assert sweep() == 1
    assert published == [Run.objects.get(turn=2).pk]


def test_a_task_that_does_not_wait_or_was_cleared_is_left_as_it_is(ada, echo, said, published):
    submitted = accept.accept(ada.principal, echo, said())
    assert not resume(submitted.task, because="no reason")
    held = begin(submitted.run)
    assert not resume(submitted.task, because="no reason")
    end(held, Completed("done"))
    assert not resume(submitted.task, because="no reason")
    assert state_of(submitted.task) == "completed"
    canceled = waiting(ada, echo, said)
    cancel.cancel_by_id(ada.principal, echo, str(canceled.task))
    assert not resume(canceled.task, because="no reason")
    assert not resume(uuid.uuid4(), because="no reason")
    cleared = waiting(ada, echo, said)
    deletion.delete_context(ada.principal, echo, "talk")
    assert not resume(cleared.task, because="no reason")
    assert published == []


def test_a_task_that_went_on_can_be_canceled_and_asked_for_more(ada, echo, said, published):
    sent = waiting(ada, echo, said)
    for turn in (2, 3):
        assert resume(sent.task, because="it was given")
        end(begin(published[-1]), QUESTIONS[0])
        assert Run.objects.get(pk=published[-1]).turn == turn
    assert resume(sent.task, because="it was given")
    cancel.cancel_by_id(ada.principal, echo, str(sent.task))
    assert not Run.objects.unfinished().exists()
    assert projection.differences(sent.context) == []
