"""Sessions are begun, listed, shown, changed, archived and deleted by their owner only."""

import datetime
import uuid

import pytest

from apps.accounts import workspaces
from apps.accounts.models import ApiKey
from apps.conversations.sessions import commands, deletion
from apps.conversations.sessions.models import SessionMark
from apps.record import projection
from apps.record.models import Context, Event
from apps.record.reading import sync
from apps.routing.router import register_house_agents
from parley import db
from tests.clients.calling import Caller
from tests.clients.delivering import rename
from tests.members import member

pytestmark = pytest.mark.django_db(transaction=True)

NOWHERE = str(uuid.uuid4())


async def begun(caller, **fields):
    answer = await caller.post("/sessions", {"agent": "works", **fields})
    assert answer.status == 201, answer.content
    return answer.body["session"]


async def test_session_without_message_has_one_event(ada_calls, works, settings):
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


async def test_session_has_the_default_agent(ada_calls):
    await db.run(register_house_agents)
    answer = await ada_calls.post("/sessions", {"title": "Plans"})
    assert answer.body["session"]["metadata"]["agent"] == "assistant"


WRONG = [
    ({"agent": "nobody"}, "agent"),
    ({"title": "a\tb"}, "title"),
    ({"contextId": "a" * 201}, "contextId"),
    ({"options": {"colour": "\x00"}}, "options"),
    ({"message": {}}, "text"),
    ({"message": {"parts": []}}, "message.parts"),
    ({"message": {"parts": [{"text": "a", "data": 1}]}}, "message.parts[0]"),
    ({"message": {"parts": [{"raw": "?"}]}}, "message.parts[0].raw"),
    ({"message": {"parts": [{"url": "http://127.0.0.1/"}]}}, "message.parts[0].url"),
    ({"message": "hello"}, "message"),
    ({"owner": 1}, "owner"),
]


async def test_wrong_sessions_are_refused_by_field(ada_calls, works):
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
    for key in ("", "ä", "a" * 201):
        assert (await ada_calls.post("/sessions", {"agent": "works"}, Idempotency_Key=key)).status == 422


async def test_sessions_are_listed_newest_first(ada_calls, bob_calls, works):
    sessions = [await begun(ada_calls, title=str(number)) for number in range(5)]
    await begun(bob_calls)
    seen, cursor = [], ""
    for _ in range(3):
        page = (await ada_calls.get(f"/sessions?limit=2&cursor={cursor}")).body
        seen, cursor = [*seen, *page["items"]], page["nextCursor"]
    assert (seen, cursor) == (sessions[::-1], "")


async def test_lists_are_narrowed_down(ada_calls, works, talks):
    here = await begun(ada_calls)
    there = await begun(ada_calls, agent="talks")
    assert (await ada_calls.get("/sessions?agent=talks")).body["items"] == [there]
    assert (await ada_calls.get(f"/sessions?parent={here['id']}")).body["items"] == []
    for query, field in (("limit=101", "limit"), ("archived=maybe", "archived"), ("x=1", "x"), ("cursor=x", "cursor")):
        refused = await ada_calls.get(f"/sessions?{query}")
        assert (refused.status, refused.fields) == (422, [field])


async def test_session_gets_another_title_and_agent(ada_calls, works, talks):
    session = await begun(ada_calls)
    changed = await ada_calls.patch(f"/sessions/{session['id']}", {"title": "New", "agent": "talks"})
    assert (changed.status, changed.body["title"], changed.body["metadata"]["agent"]) == (200, "New", "talks")
    assert changed.body["revision"] == 3
    same = await ada_calls.patch(f"/sessions/{session['id']}", {"title": "New", "agent": "talks"})
    assert same.body == changed.body
    for body, field in (({"title": "  "}, "title"), ({"agent": "nobody"}, "agent"), ({"id": NOWHERE}, "id")):
        refused = await ada_calls.patch(f"/sessions/{session['id']}", body)
        assert (refused.status, refused.fields) == (422, [field])
    assert not await _differences(session)


async def test_archived_sessions_are_listed_on_request(ada_calls, works):
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


async def test_message_titles_a_session_and_unarchives_it(ada_calls, talks):
    session = await begun(ada_calls, agent="talks")
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


# A person's own marks.


@pytest.fixture
async def marked(ada_calls, works):
    return (await ada_calls.post("/sessions", {"agent": "works", "title": "Plans"})).body["session"]["id"]


async def test_a_session_is_pinned_and_seen_only_grows(ada_calls, marked):
    async def mark(**values):
        return (await ada_calls.put(f"/sessions/{marked}/mark", values)).body

    assert await mark(pinned=True) == {"pinned": True, "seen": 0}
    since = (await SessionMark.objects.aget()).pinned_at
    await mark(pinned=True)
    assert (await SessionMark.objects.aget()).pinned_at == since
    assert [(await mark(seen=seen))["seen"] for seen in (1, 0, 2**63 - 1)] == [1, 1, 1], "up to the newest event"
    assert await mark(pinned=False) == {"pinned": False, "seen": 1}
    assert await Event.objects.acount() == 1, "a mark is no event"


# The workspace of one request.


HEADER = "X-Parley-Workspace"


@pytest.fixture
def team(ada, works):
    made = workspaces.create_workspace(ada.principal, "Team")
    commands.create_session(ada.principal, works, title="At home")
    commands.create_session(ada.principal_in(made.pk), works, title="With the team")
    return made


async def titles(caller, headers=None):
    return [one["title"] for one in (await caller.ask("GET", "/sessions", headers=headers or {})).body["items"]]


async def test_header_counts_for_one_request(ada, team, ada_browses):
    assert await titles(ada_browses) == ["At home"]
    assert await titles(ada_browses, {HEADER.lower(): str(team.pk)}) == ["With the team"]
    assert await titles(ada_browses) == ["At home"]


async def test_header_names_own_workspace_only(ada, team, bob, ada_calls, ada_browses):
    theirs = bob.personal_workspace.pk
    for caller, named in ((ada_browses, theirs), (ada_browses, "x"), (ada_browses, 2**70), (ada_calls, team.pk)):
        answer = await caller.ask("GET", "/sessions", headers={HEADER.lower(): str(named)})
        assert (answer.status, answer.code) == (403, "forbidden"), named
    home = {HEADER.lower(): str(await db.run(lambda: ada.personal_workspace.pk))}
    assert await titles(ada_calls, home) == ["At home"]


# Sessions that are shared with the workspace.


@pytest.fixture
def colleague(ada, bob):
    member(bob, ada)
    return Caller(ApiKey.issue(bob, "test", workspace_id=ada.personal_workspace.pk)[1])


async def share(caller, session, sharing="workspace"):
    answer = await caller.patch(f"/sessions/{session}", {"sharing": sharing})
    assert answer.status == 200, answer.content
    return answer.body


async def test_lists_have_others_sessions_only_if_asked(ada_calls, colleague, works):
    session = (await begun(ada_calls))["id"]
    await share(ada_calls, session)
    assert (await colleague.get("/sessions")).body["items"] == []
    assert [one["id"] for one in (await colleague.get("/sessions?whose=shared")).body["items"]] == [session]
    assert (await ada_calls.get("/sessions?whose=shared")).body["items"] == []


async def test_messages_say_who_wrote_them(ada_calls, colleague, ada, bob, talks):
    session = (await begun(ada_calls, agent="talks", message={"text": "hers"}))["id"]
    alone = (await ada_calls.get(f"/sessions/{session}/messages")).body["items"]
    assert {one["author"] for one in alone} == {None}
    await share(ada_calls, session)
    sent = await colleague.post(f"/sessions/{session}/messages", {"text": "his"}, key="one")
    assert sent.body["message"]["author"] == {"id": bob.pk, "name": "Bob"}
    said = (await ada_calls.get(f"/sessions/{session}/messages?limit=100")).body["items"]
    authors = {one["content"]: one["author"] for one in said if one["role"] == "user"}
    assert authors == {"hers": {"id": ada.pk, "name": "Ada"}, "his": {"id": bob.pk, "name": "Bob"}}
    assert {one["author"] for one in said if one["role"] == "agent"} <= {None}
    assert not await db.run(projection.differences, (await db.run(Context.objects.get, pk=session)).pk)


# A client with all data asks for changes and gets only these.


async def test_token_of_a_list_gives_later_changes(ada_calls, ada, echo, begun):
    renamed, quiet = [await db.run(begun) for _ in range(2)]
    gone = await db.run(lambda: begun(contextId="gone"))
    listed = (await ada_calls.get("/sessions")).body
    await db.run(rename, renamed)
    await db.run(deletion.delete_context, ada.principal, echo, "gone")
    new = await db.run(begun)
    changes = (await ada_calls.get(f"/sessions?since={listed['token']}")).body
    assert [(one["id"], one["revision"]) for one in changes["items"]] == [(str(renamed), 2), (str(new), 1)]
    assert (changes["created"], changes["deleted"]) == ([str(new)], [str(gone)])
    assert (changes["more"], changes["reset"], changes["nextCursor"]) == (False, False, "")
    assert str(quiet) in {one["id"] for one in listed["items"]}
    again = (await ada_calls.get(f"/sessions?since={changes['token']}")).body
    assert (again["items"], again["deleted"]) == ([], [])


async def test_many_changes_come_in_turns(ada_calls, begun):
    token = (await ada_calls.get("/sessions")).body["token"]
    sessions = [str(await db.run(begun)) for _ in range(5)]
    heard, more = [], True
    while more:
        changes = (await ada_calls.get(f"/sessions?limit=2&since={token}")).body
        heard, token, more = heard + [one["id"] for one in changes["items"]], changes["token"], changes["more"]
    assert heard == sessions


async def test_who_was_away_for_too_long_begins_again(ada_calls, ada, settings):
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=settings.SYNC_DAYS + 1)
    token = sync.position_token(ada.principal, sync.Position(then, {}))
    changes = (await ada_calls.get(f"/sessions?since={token}")).body
    assert (changes["reset"], changes["token"], changes["items"]) == (True, "", [])
