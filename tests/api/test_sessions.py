"""Sessions are begun, listed, shown, changed, archived and deleted by their owner only."""

import uuid

import pytest

import db
from apps.features.routing.router import register_house_agents
from apps.record import projection
from apps.record.models import Context

pytestmark = pytest.mark.django_db(transaction=True)

NOWHERE = str(uuid.uuid4())


async def begun(caller, **fields):
    answer = await caller.post("/sessions", {"agent": "works", **fields})
    assert answer.status == 201, answer.content
    return answer.body["session"]


async def test_a_session_is_begun_without_a_message_and_has_one_event(ada_calls, works, settings):
    session = await begun(ada_calls, title="Plans", contextId="mine", options={})
    named = {"agent": "works", "contextId": "mine", "agentUrl": f"{settings.PUBLIC_BASE_URL}/a2a/works"}
    empty = {"messageCount": 0, "options": {}, "forkedAt": None, "forkReason": ""}
    assert session["metadata"] == named | empty
    assert (session["title"], session["revision"], session["archivedAt"]) == ("Plans", 1, None)
    whole = (await ada_calls.get(f"/sessions/{session['id']}")).body
    assert whole["session"] == session
    assert [event["type"] for event in whole["events"]] == ["session_renamed"]
    assert whole["events"][0]["payload"]["opens"] == {"contextId": "mine", "agent": "works", "title": "Plans"}
    assert not await _differences(session)


async def test_without_an_agent_the_default_one_has_the_session(ada_calls):
    await db.run(register_house_agents)
    answer = await ada_calls.post("/sessions", {"title": "Plans"})
    assert answer.body["session"]["metadata"]["agent"] == "assistant"


WRONG = [
    ({"agent": "nobody"}, "agent"),
    ({"agent": ""}, "agent"),
    ({"title": "a" * 201}, "title"),
    ({"title": None}, "title"),
    ({"title": "a\tb"}, "title"),
    ({"contextId": "a" * 201}, "contextId"),
    ({"options": []}, "options"),
    ({"options": {"colour": "\x00"}}, "options"),
    ({"message": {}}, "text"),
    ({"message": {"parts": []}}, "message.parts"),
    ({"message": {"parts": [{"text": "a", "data": 1}]}}, "message.parts[0]"),
    ({"message": {"parts": [{"raw": "?"}]}}, "message.parts[0].raw"),
    ({"message": {"parts": [{"url": "http://127.0.0.1/"}]}}, "message.parts[0].url"),
    ({"message": "hello"}, "message"),
    ({"owner": 1}, "owner"),
]


async def test_what_cannot_be_begun_is_refused_by_its_field(ada_calls, works):
    for fields, named in WRONG:
        answer = await ada_calls.post("/sessions", {"agent": "works", **fields})
        assert (answer.status, answer.code, answer.fields) == (422, "invalid", [named]), fields
    assert not await Context.objects.aexists()


async def test_a_context_id_is_used_once(ada_calls, bob_calls, works):
    await begun(ada_calls, contextId="mine")
    again = await ada_calls.post("/sessions", {"agent": "works", "contextId": "mine"})
    assert (again.status, again.fields) == (422, ["contextId"])
    assert (await bob_calls.post("/sessions", {"agent": "works", "contextId": "mine"})).status == 201


async def test_the_same_key_begins_one_session(ada_calls, bob_calls, works):
    first = await ada_calls.post("/sessions", {"agent": "works", "title": "A"}, Idempotency_Key="one")
    again = await ada_calls.post("/sessions", {"agent": "works", "title": "A"}, Idempotency_Key="one")
    assert (first.status, again.status) == (201, 200)
    assert again.body == {**first.body, "repeated": True}
    other = await ada_calls.post("/sessions", {"agent": "works", "title": "B"}, Idempotency_Key="one")
    assert (other.status, other.fields) == (422, ["Idempotency-Key"])
    bobs = await bob_calls.post("/sessions", {"agent": "works", "title": "A"}, Idempotency_Key="one")
    assert bobs.body["session"]["id"] != first.body["session"]["id"]
    for key in ("", "ä", "a" * 201, "a\tb"):
        assert (await ada_calls.post("/sessions", {"agent": "works"}, Idempotency_Key=key)).status == 422


async def test_sessions_are_listed_page_by_page_the_newest_first(ada_calls, bob_calls, works):
    sessions = [await begun(ada_calls, title=str(number)) for number in range(5)]
    await begun(bob_calls)
    seen, cursor = [], ""
    for _ in range(3):
        page = (await ada_calls.get(f"/sessions?limit=2&cursor={cursor}")).body
        seen, cursor = [*seen, *page["items"]], page["nextCursor"]
    assert (seen, cursor) == (sessions[::-1], "")


async def test_a_cursor_is_of_use_to_its_caller_and_its_list_alone(ada_calls, bob_calls, works):
    for _ in range(2):
        await begun(ada_calls)
        await begun(bob_calls)
    cursor = (await ada_calls.get("/sessions?limit=1")).body["nextCursor"]
    assert (await ada_calls.get(f"/sessions?limit=1&cursor={cursor}")).status == 200
    for caller, query in (
        (bob_calls, f"cursor={cursor}"),
        (ada_calls, f"cursor={cursor}&agent=works"),
        (ada_calls, f"cursor={cursor}&archived=all"),
        (ada_calls, f"cursor={cursor}x"),
        (ada_calls, "cursor=made-up"),
    ):
        refused = await caller.get(f"/sessions?limit=1&{query}")
        assert (refused.status, refused.code, refused.fields) == (422, "invalid", ["cursor"])


async def test_lists_are_narrowed_down(ada_calls, works, talks):
    here = await begun(ada_calls)
    there = await begun(ada_calls, agent="talks")
    assert (await ada_calls.get("/sessions?agent=talks")).body["items"] == [there]
    assert (await ada_calls.get(f"/sessions?parent={here['id']}")).body["items"] == []
    for query, field in (("limit=0", "limit"), ("limit=101", "limit"), ("archived=maybe", "archived"), ("x=1", "x")):
        refused = await ada_calls.get(f"/sessions?{query}")
        assert (refused.status, refused.fields) == (422, [field])


async def test_a_session_is_renamed_and_goes_on_with_another_agent(ada_calls, works, talks):
    session = await begun(ada_calls)
    changed = await ada_calls.patch(f"/sessions/{session['id']}", {"title": "New", "agent": "talks"})
    assert (changed.status, changed.body["title"], changed.body["metadata"]["agent"]) == (200, "New", "talks")
    assert changed.body["revision"] == 3
    same = await ada_calls.patch(f"/sessions/{session['id']}", {"title": "New", "agent": "talks"})
    assert same.body == changed.body
    for body, field in (
        ({"title": ""}, "title"),
        ({"title": "  "}, "title"),
        ({"agent": "nobody"}, "agent"),
        ({"id": NOWHERE}, "id"),
    ):
        refused = await ada_calls.patch(f"/sessions/{session['id']}", body)
        assert (refused.status, refused.fields) == (422, [field])
    assert not await _differences(session)


async def test_a_session_that_was_put_away_is_listed_where_that_is_asked_for(ada_calls, works):
    kept, away = await begun(ada_calls), await begun(ada_calls)
    archived = (await ada_calls.post(f"/sessions/{away['id']}/archive")).body
    assert archived["archivedAt"] == archived["updatedAt"]
    assert (await ada_calls.post(f"/sessions/{away['id']}/archive")).body == archived
    assert [one["id"] for one in (await ada_calls.get("/sessions")).body["items"]] == [kept["id"]]
    assert (await ada_calls.get("/sessions?archived=only")).body["items"] == [archived]
    assert len((await ada_calls.get("/sessions?archived=all")).body["items"]) == 2
    back = (await ada_calls.post(f"/sessions/{away['id']}/unarchive")).body
    assert (back["archivedAt"], back["revision"]) == (None, 3)
    assert not await _differences(away)


@pytest.mark.parametrize("agent", ["talks", "works"])
async def test_a_message_names_a_session_and_brings_it_back(ada_calls, talks, works, agent):
    session = await begun(ada_calls, agent=agent)
    await ada_calls.post(f"/sessions/{session['id']}/archive")
    sent = await ada_calls.post(f"/sessions/{session['id']}/messages", {"text": "you"})
    assert (sent.body["session"]["title"], sent.body["session"]["archivedAt"]) == ("you", None)
    more = await ada_calls.post(f"/sessions/{session['id']}/messages", {"text": "again"})
    assert more.body["session"]["title"] == "you"
    assert not await _differences(session)


async def test_a_deleted_session_is_gone(ada_calls, works):
    session = await begun(ada_calls, contextId="mine", title="Secret")
    path = f"/sessions/{session['id']}"
    deleted = await ada_calls.delete(path)
    assert (deleted.status, deleted.content) == (204, b"")
    for again in (await ada_calls.delete(path), await ada_calls.get(path), await ada_calls.patch(path, {"title": "a"})):
        assert (again.status, again.code) == (404, "not_found")
    assert (await ada_calls.get("/sessions?archived=all")).body["items"] == []
    assert (await begun(ada_calls, contextId="mine"))["id"] != session["id"]


async def _differences(session):
    return await db.run(projection.differences, uuid.UUID(session["id"]))
