"""Only its owner adds, edits, deletes and sends messages in a session's queue."""

from __future__ import annotations

import uuid

import pytest

from agentkit import Failed, InputRequired
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations.queue import messages
from apps.engine import accept
from parley import db
from tests.clients.calling import Caller
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)
FILE = {"raw": "YSxiCjEsMgo=", "filename": "table.csv", "mediaType": "text/csv"}


async def working(ada: User, agent: Agent, said):
    receipt = await db.run(accept.accept, ada.principal, agent, said("first"))
    return f"/sessions/{receipt.context}", await db.run(begin, receipt.run)


def words(answer) -> list[str]:
    return [one["content"] for one in answer.body["items"]]


async def test_messages_wait_are_reworded_and_deleted(ada_calls: Caller, ada: User, works: Agent, said) -> None:
    session, _ = await working(ada, works, said)
    assert (await ada_calls.get(f"{session}/queue")).body == {"items": [], "held": ""}
    await ada_calls.post(f"{session}/queue", {"text": "second"}, Idempotency_Key="two")
    added = await ada_calls.post(f"{session}/queue", {"text": "third", "parts": [FILE]}, Idempotency_Key="three")
    assert (added.status, words(added)) == (201, ["second", "third"])
    again = await ada_calls.post(f"{session}/queue", {"text": "second"}, Idempotency_Key="two")
    assert words(again) == ["second", "third"]
    second, third = (one["id"] for one in added.body["items"])
    changed = await ada_calls.patch(f"{session}/queue/{third}", {"text": "the third"})
    assert words(changed) == ["second", "the third"]
    assert changed.body["items"][1]["parts"] == [{"text": "the third"}, FILE]
    assert (await ada_calls.patch(f"{session}/queue/{second}", {"text": " "})).status == 422
    left = await ada_calls.delete(f"{session}/queue/{second}")
    assert (left.status, words(left)) == (200, ["the third"])
    assert (await ada_calls.delete(f"{session}/queue/{second}")).status == 404
    back = await ada_calls.post(f"{session}/queue/{second}/restore")
    assert (back.status, words(back)) == (200, ["second", "the third"])
    assert (await ada_calls.post(f"{session}/queue/{uuid.uuid4()}/restore")).status == 404
    assert (await ada_calls.post(f"{session}/queue", {"text": "other"}, Idempotency_Key="three")).status == 422


async def test_one_is_sent_now_to_whoever_works(ada_calls: Caller, ada: User, works: Agent, said) -> None:
    session, held = await working(ada, works, said)
    added = await ada_calls.post(f"{session}/queue", {"text": "hurry"}, Idempotency_Key="two")
    sent = await ada_calls.post(f"{session}/queue/{added.body['items'][0]['id']}/send")
    assert sent.status == 202, sent.content
    assert sent.body["task"]["id"] == str(held.task.pk)
    assert (sent.body["message"]["content"], sent.body["message"]["metadata"]["messageId"]) == ("hurry", "two")
    assert (await ada_calls.get(f"{session}/queue")).body["items"] == []


async def test_why_it_waits_is_said(ada_calls: Caller, ada: User, works: Agent, said) -> None:
    for outcome, why in ((Failed("no"), "failed"), (InputRequired("Which?"), "has a question")):
        session, held = await working(ada, works, said)
        await ada_calls.post(f"{session}/queue", {"text": "second"})
        await db.run(end, held, outcome)
        assert why in (await ada_calls.get(f"{session}/queue")).body["held"]


async def test_full_queue_and_wrong_media_type_are_refused(
    ada_calls: Caller, ada: User, echo: Agent, talks: Agent, said
) -> None:
    session, _ = await working(ada, echo, said)
    for number in range(messages.MAX_QUEUED):
        assert (await ada_calls.post(f"{session}/queue", {"text": str(number)})).status == 201
    refused = await ada_calls.post(f"{session}/queue", {"text": "too much"})
    assert (refused.status, refused.code) == (409, "conflict")
    assert "20 messages are already queued" in refused.body["detail"]
    assert (await ada_calls.post(f"{session}/queue", {})).status == 422
    begun = await ada_calls.post("/sessions", {"agent": "talks"})
    session = f"/sessions/{begun.body['session']['id']}"
    assert (await ada_calls.post(f"{session}/queue", {"parts": [FILE]})).code == "media_type_not_taken"
