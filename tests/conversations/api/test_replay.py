"""Any session at any index is byte for byte what it was then."""

import uuid

import pytest

from apps.api.framework.policies import encode_json
from apps.conversations.api.sessions import SessionSelection, whole_session
from apps.conversations.forks import forking
from apps.record.models import Context
from parley import db
from parley.registry import added
from tests.conversations.api.test_messages import begun

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("JSON and times come back from each database in its own way, and are the same to the byte"),
]

seen = {}


def look(context, events):
    """A ledger listener that keeps the session after each transaction."""
    now = Context.objects.get(pk=context.pk)
    seen[now.pk, now.last_event] = encode_json(whole_session(now, SessionSelection()))


@pytest.fixture
def watching(monkeypatch):
    seen.clear()
    monkeypatch.setitem(added, "ledger_listeners", (*added["ledger_listeners"], look))


async def _conversation(caller):
    session = await begun(caller, "works")
    await db.run(Context.objects.filter(pk=session).update, is_watched=True)
    path = f"/sessions/{session}"
    await caller.post(f"{path}/messages", {"text": "apples", "wait": True})
    await caller.patch(path, {"title": "Fruit"})
    await caller.post(f"{path}/messages", {"text": "fail", "wait": True})
    asked = await caller.post(f"{path}/messages", {"text": "ask me", "wait": True})
    await caller.post(f"{path}/archive")
    answer = {"text": "red", "task": asked.body["task"]["id"], "wait": True}
    await caller.post(f"{path}/messages", answer)
    await caller.patch(path, {"agent": "talks"})
    await caller.post(f"{path}/messages", {"text": "you"})
    return session


async def test_session_is_unchanged_at_every_index(ada_calls, works, talks, worker, watching, ada):
    session = await _conversation(ada_calls)
    newest = (await ada_calls.get(f"/sessions/{session}")).body["session"]["revision"]
    looked = {index: content for (key, index), content in seen.items() if str(key) == session}
    assert max(looked) == newest
    assert len(looked) > 15
    for index in range(1, newest + 1):
        then = await ada_calls.get(f"/sessions/{session}?at={index}")
        assert (then.body["session"]["revision"], then.body["events"][-1]["index"]) == (index, index)
        assert looked.get(index, then.content) == then.content, index
    at, before = newest - 3, looked[newest - 3]
    message = (await ada_calls.get(f"/sessions/{session}/messages")).body["items"][0]
    principal = await db.run(lambda: ada.principal)
    edited = {"reason": "edit", "edited_message": message["id"]}
    fork = await db.run(forking.fork, principal, uuid.UUID(session), message["index"] - 1, **edited)
    await ada_calls.post(f"/sessions/{session}/messages", {"text": "more"})
    now = (await ada_calls.get(f"/sessions/{session}")).body["messages"][0]
    assert now["metadata"]["isEdited"]
    assert now["metadata"]["editHistory"][0]["sessionId"] == str(fork.pk)
    assert (await ada_calls.get(f"/sessions/{session}?at={at}")).content == before
    # A fork shows its past as its own.
    whole = (await ada_calls.get(f"/sessions/{session}")).body
    done = next(event["index"] for event in whole["events"] if event["type"] == "agent_failed")
    fork = await db.run(forking.fork, principal, uuid.UUID(session), done, reason="fork")
    shown = (await ada_calls.get(f"/sessions/{fork.pk}")).body
    assert {one["sessionId"] for part in ("messages", "tasks", "artifacts", "events") for one in shown[part]} == {
        str(fork.pk)
    }
    assert [one["id"] for one in shown["messages"]] == [one["id"] for one in whole["messages"] if one["index"] <= done]
    assert shown["session"]["metadata"]["messageCount"] == len(shown["messages"])
    assert (shown["session"]["parentId"], shown["session"]["metadata"]["forkedAt"]) == (session, done)
    assert [one["state"] for one in shown["tasks"]] == ["completed", "canceled"]
    assert [one["id"] for one in shown["artifacts"]] == shown["tasks"][0]["artifacts"]
    newest = shown["session"]["revision"]
    assert (await ada_calls.get(f"/sessions/{fork.pk}?at={newest}")).body == shown
    assert shown["session"] in (await ada_calls.get(f"/sessions?parent={session}")).body["items"]


async def test_an_index_out_of_range_is_refused(ada_calls, talks):
    session = await begun(ada_calls, "talks")
    for at in ("0", "2", "one", "99999999999999999999"):
        refused = await ada_calls.get(f"/sessions/{session}?at={at}")
        assert (refused.status, refused.fields) == (422, ["at"]), at
    assert (await ada_calls.get(f"/sessions/{session}?at=1")).status == 200


async def test_sections_and_stretches_of_events_are_chosen(ada_calls, talks):
    session = await begun(ada_calls, "talks")
    await ada_calls.post(f"/sessions/{session}/messages", {"text": "you"})
    some = (await ada_calls.get(f"/sessions/{session}?include=tasks")).body
    assert set(some) == {"session", "tasks"}
    assert some["session"]["metadata"]["messageCount"] == 2
    part = (await ada_calls.get(f"/sessions/{session}?include=events&events_since=1&events_limit=1")).body
    assert ([one["index"] for one in part["events"]], part["nextEvents"]) == ([2], 2)
    rest = (await ada_calls.get(f"/sessions/{session}?include=events&events_since=2")).body
    assert ([one["index"] for one in rest["events"]], rest["nextEvents"]) == ([3], None)
    assert (await ada_calls.get(f"/sessions/{session}?events_since=99")).body["events"] == []
    for query, field in (("include=everything", "include[0]"), ("events_limit=0", "events_limit")):
        refused = await ada_calls.get(f"/sessions/{session}?{query}")
        assert (refused.status, refused.fields) == (422, [field])
