"""Only its owner adds, edits, deletes and sends messages in a session's queue."""

import uuid

import pytest

from apps.engine import accept
from parley import db
from tests.working import begin

pytestmark = pytest.mark.django_db(transaction=True)
FILE = {"raw": "YSxiCjEsMgo=", "filename": "table.csv", "mediaType": "text/csv"}


async def working(ada, agent, said):
    receipt = await db.run(accept.accept, ada.principal, agent, said("first"))
    return f"/sessions/{receipt.context}", await db.run(begin, receipt.run)


def words(answer):
    return [one["content"] for one in answer.body["items"]]


async def test_messages_wait_are_reworded_and_deleted(ada_calls, ada, works, said):
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
