"""A known sender's repeated messageId gets the same answer and runs once."""

import asyncio
import threading

import pytest
from django.test import override_settings

from apps.accounts.principals import ANONYMOUS
from apps.agents.registration import register_hosted
from apps.engine import accept
from apps.engine import send as engine_send
from apps.engine.send import _record_answer, send
from apps.record import projection
from apps.record.errors import InvalidParams
from apps.record.execution import Accepted, Run
from apps.record.models import Context, Message, Task
from parley import db as database
from tests.engine.agents import Counting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("of those who send at once one is first")]


@pytest.fixture
def counting(db):
    Counting.asked = 0
    return register_hosted("counting", "tests.engine.agents:Counting", access="public")


def counts():
    return {model.__name__: model.objects.count() for model in (Context, Task, Message, Run, Accepted)}


def test_repeated_message_leads_to_its_task(ada, echo, said):
    message = said(parts=[{"data": {"id": 2**60}}], messageId="m")
    first = accept.accept(ada.principal, echo, message)
    before = counts()
    again = accept.accept(ada.principal, echo, message)
    assert (again.task, again.context, again.index) == (first.task, first.context, first.index)
    assert (first.repeated, again.repeated, again.run) == (False, True, None)
    for parts in ([{"text": "two"}], [{"data": {"id": 2**60 + 1}}]):
        with pytest.raises(InvalidParams) as refused:
            accept.accept(ada.principal, echo, said(parts=parts, messageId="m"))
        assert refused.value.field == "messageId"
    assert counts() == before


def test_message_ids_are_of_one_sender_and_agent(ada, bob, echo, countdown, said):
    message = said()
    sent = [(ada, echo), (bob, echo), (ada, countdown)]
    assert len({accept.accept(user.principal, agent, message).task for user, agent in sent}) == 3
    before = Accepted.objects.count()
    assert accept.accept(ANONYMOUS, echo, message).task != accept.accept(ANONYMOUS, echo, message).task
    assert Accepted.objects.count() == before


async def test_same_message_at_once_is_one_task(ada, echo, said):
    message = said(contextId="shared")
    receipts = await asyncio.gather(*(database.run(accept.accept, ada.principal, echo, message) for _ in range(8)))
    assert len({receipt.task for receipt in receipts}) == 1
    assert sum(not receipt.repeated for receipt in receipts) == 1
    assert await database.run(counts) == {"Context": 1, "Task": 1, "Message": 1, "Run": 1, "Accepted": 1}
    others = [said(contextId="also shared") for _ in range(8)]
    receipts = await asyncio.gather(*(database.run(accept.accept, ada.principal, echo, one) for one in others))
    assert (len({one.task for one in receipts}), len({one.context for one in receipts})) == (8, 1)
    assert await database.run(projection.differences, receipts[0].context) == []


async def test_answers_are_repeated_too(ada, counting, said):
    message = said()
    answers = await asyncio.gather(*(send(ada.principal, counting, message) for _ in range(5)))
    assert len({str(sent.answer) for sent in answers}) == Counting.asked == 1
    with pytest.raises(InvalidParams):
        await send(ada.principal, counting, said("other", messageId=message["messageId"]))
    failing = said("TimeoutError")
    first, again = [(await send(ada.principal, counting, failing)).answer for _ in range(2)]
    assert first == again
    assert first["metadata"]["error"] == {"code": "agent_error"}, "the agent's own error is no deadline of ours"
    assert Counting.asked == 2


async def test_answers_at_once_share_a_context(ada, counting, said):
    sent = await asyncio.gather(*(send(ada.principal, counting, said(contextId="shared")) for _ in range(6)))
    assert len({one.context for one in sent}) == 1
    assert await database.run(Message.objects.count) == 12
    assert await database.run(projection.differences, sent[0].context) == []
    same = said()
    answers = [(await send(ANONYMOUS, counting, same)).answer["parts"][0]["text"] for _ in range(2)]
    assert answers == ["answer 7", "answer 8"], "nobody known gets a new one"


@override_settings(ANSWER_SECONDS=0.1)
async def test_deadline_is_said_in_the_answer(ada, counting, said):
    answer = (await send(ada.principal, counting, said("slow"))).answer
    assert answer["metadata"]["error"] == {"code": "time_limit"}
    assert "0.1 seconds" in answer["parts"][0]["text"]
    assert await database.run(Message.objects.count) == 2


async def test_answer_outlives_a_caller_that_left(ada, counting, said, monkeypatch):
    begun, go_on, record = threading.Event(), threading.Event(), _record_answer

    def slowly(*args):
        begun.set()
        go_on.wait(10)
        return record(*args)

    monkeypatch.setattr(engine_send, "_record_answer", slowly)
    message = said()
    asking = asyncio.create_task(send(ada.principal, counting, message))
    await asyncio.to_thread(begun.wait, 10)
    asking.cancel()
    await asyncio.wait({asking}, timeout=0.2)
    go_on.set()
    await asyncio.wait({asking})
    again = await send(ada.principal, counting, message)
    assert again.answer["parts"] == [{"text": "answer 1"}]
    assert await database.run(Message.objects.count) == 2
