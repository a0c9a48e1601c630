"""Lost writes are repeated; unconfirmed commits are not."""

import pytest
from django.db import OperationalError

import db as database
from agentkit import Answer, Completed
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine import accept, claim, send
from apps.engine.recorder import EventBatch, event_of
from apps.engine.send import AgentAnswer, Claim, _claim_message, _record_answer_or_release
from apps.record import projection
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Message, Task
from db import sql
from tests.working import begin, chunk, end, say, state_of, types_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("writes are SQL of each database's own"),
]


@pytest.fixture
def tried_twice(monkeypatch):
    """Everything sent to the bridge is done, then done again."""
    run = database.run

    async def twice(function, *args, **kwargs):
        await run(function, *args, **kwargs)
        return await run(function, *args, **kwargs)

    monkeypatch.setattr(database, "run", twice)


@pytest.fixture
def public(db):
    return register_hosted("open-echo", "examples.agents.echo:Echo", access=Agent.Access.PUBLIC)


async def test_a_message_of_nobody_known_opens_one_task(public, said, tried_twice):
    sent = await send.send(ANONYMOUS, public, said())
    assert [task.pk async for task in Task.objects.all()] == [sent.task]
    assert await Message.objects.acount() == await Run.objects.acount() == 1


async def test_an_answer_of_nobody_known_becomes_one_turn(public, said, tried_twice):
    first = await send.send(ANONYMOUS, public, said())
    answer = await send.send(ANONYMOUS, public, said("more", taskId=str(first.task)))
    assert answer.task == first.task
    assert await Message.objects.acount() == 2


async def test_another_call_of_nobody_known_is_another_message(public, said):
    message = said()
    assert (await send.send(ANONYMOUS, public, message)).task != (await send.send(ANONYMOUS, public, message)).task


def test_a_claim_that_is_tried_again_holds_what_it_took(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said())
    first, again = [claim.claim(sent.run, "this very claim") for _ in range(2)]
    assert again.lease == first.lease
    assert again.attempt == 1
    assert types_of(sent.task) == ["user_message", "agent_status", "agent_start"]
    assert claim.claim(sent.run, "another") is None
    end(again, Completed("done"))
    assert state_of(sent.task) == "completed"
    assert claim.claim(sent.run, "this very claim") is None
    assert projection.differences(sent.context) == []


HI = Answer([{"text": "hi"}])


@pytest.fixture
def fail_once(monkeypatch):
    """Fails the next transaction's last statement, as if the server went away."""

    def prepare():
        write = sql.write

        def fail(inserts=(), updates=(), **how):
            if not inserts:  # the lease, which is extended first
                return write(inserts, updates, **how)
            monkeypatch.setattr(sql, "write", write)
            raise OperationalError("the server closed the connection")

        monkeypatch.setattr(sql, "write", fail)

    return prepare


def test_an_end_that_was_rolled_back_is_recorded_when_it_is_tried_again(ada, echo, said, fail_once):
    sent = accept.accept(ada.principal, echo, said())
    held = begin(sent.run)
    fail_once()
    with pytest.raises(OperationalError):
        end(held, Completed("done"))
    assert state_of(sent.task) == "working"
    end(held, Completed("done"))
    assert state_of(sent.task) == "completed"
    assert projection.differences(sent.context) == []


def test_lines_that_were_rolled_back_are_recorded_when_they_are_tried_again(ada, echo, said, fail_once):
    sent = accept.accept(ada.principal, echo, said())
    recording = EventBatch(begin(sent.run), [event_of(chunk("a", "x"))])
    fail_once()
    with pytest.raises(OperationalError):
        recording.write()
    recording.write()
    assert types_of(sent.task).count(EventType.ARTIFACT_UPDATE) == 1


def test_lines_whose_commit_was_not_heard_of_are_not_recorded_twice(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said())
    held = begin(sent.run)
    say(held, chunk("a", "x", last=False))
    recording = EventBatch(held, [event_of(chunk("a", "x", append=True, last=False))])
    recording.write()
    recording.write()
    say(held, chunk("a", "x", append=True))
    assert types_of(sent.task).count(EventType.ARTIFACT_UPDATE) == 3


def test_an_answer_whose_commit_was_not_heard_of_is_not_recorded_twice(ada, echo, said):
    message = said()
    assert _claim_message(ada.principal, echo, message) is Claim.OURS
    first, second = [_record_answer_or_release(ada.principal, echo, message, AgentAnswer(HI)) for _ in range(2)]
    assert (first.context, first.index, first.answer) == (second.context, second.index, second.answer)
    assert Message.objects.count() == 2


def test_an_answer_that_lost_its_claim_is_not_recorded(ada, echo, said):
    message = said()
    with pytest.raises(send.NoAnswer):
        _record_answer_or_release(ada.principal, echo, message, AgentAnswer(HI))
    assert not Message.objects.exists()
