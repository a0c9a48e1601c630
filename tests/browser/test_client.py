"""The client modules, in the browser they are written for: they lose nothing, double nothing, and can forget all."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.doing import until
from tests.faults.calling import Caller
from tests.stack import Stack

REDUCE = """async (events) => {
  const { begin, reduce } = await import("/static/js/client/reducer.js");
  return events.reduce(reduce, begin("s"));
}"""

FOLLOW = """async (since) => {
  const { Follower } = await import("/static/js/client/follow.js");
  window.told = [];
  window.states = [];
  window.follower = new Follower({
    since,
    heard: (events) => told.push(...events.map(({ sessionId, index }) => [sessionId, index])),
    changed: (name) => states.push(name),
  });
}"""

SYNC = """async (name) => {
  const { Store, sync } = await import("/static/js/client/sync.js");
  const { sessions, token } = await sync(new Store(name));
  return [[...sessions.values()].map(({ id, title }) => [id, title]), token];
}"""

HEARD = "([number, session]) => told.filter(([id]) => id === session).length >= number"
NO_SOCKETS = """window.WebSocket = class {
  constructor() { setTimeout(() => this.onclose({ code: 1006 })); }
  close() {}
}"""

AT = "2030-01-01T10:00:00.000Z"


def event(index: int, kind: str, **payload: Any) -> dict[str, Any]:
    about = {"id": f"s:{index}", "sessionId": "s", "index": index, "timestamp": AT, "taskId": "t", "runId": None}
    return {**about, "type": kind, "payload": payload}


def message(message_id: str, text: str) -> dict[str, Any]:
    return {"messageId": message_id, "parts": [{"text": text}]}


def opening(index: int = 1, message_id: str = "m1") -> dict[str, Any]:
    opens = {"title": "Plate 7", "agent": "report", "contextId": "c"}
    return event(index, "user_message", message=message(message_id, "Go"), opens=opens, task={"agent": "report"})


@pytest.fixture
def reduced(page: Page):
    page.goto("/agents")
    return lambda *events: page.evaluate(REDUCE, list(events))


def test_a_session_is_what_its_events_say(reduced) -> None:
    state = reduced(
        opening(), event(2, "agent_status", state="working"),
        event(3, "agent_status", state="completed", message=message("m2", "Done.")),
        event(4, "session_renamed", title="Plate 8"),
    )  # fmt: skip
    assert (state["title"], state["agent"], state["last"]) == ("Plate 8", "report", 4)
    assert (state["tasks"], state["newest"]) == ({"t": "completed"}, "t")
    assert [(one["role"], one["text"]) for one in state["messages"]] == [("user", "Go"), ("agent", "Done.")]


def test_an_event_that_comes_again_changes_nothing(reduced) -> None:
    events = [opening(), event(2, "agent_status", state="working"), event(3, "session_renamed", title="new")]
    assert reduced(*events, *events) == reduced(*events)


def test_an_optimistic_message_becomes_the_recorded_one_by_its_key(reduced) -> None:
    pending = {"type": "local:sending", "messageId": "m1", "text": "Go"}
    assert reduced(pending)["messages"] == [{"messageId": "m1", "role": "user", "text": "Go", "pending": True}]
    assert reduced(pending, opening())["messages"] == reduced(opening())["messages"]
    assert reduced(opening(), pending)["messages"] == reduced(opening())["messages"]
    assert reduced(pending, {"type": "local:refused", "messageId": "m1"})["messages"] == []
    other = {"type": "local:sending", "messageId": "m9", "text": "Next"}
    assert [one["messageId"] for one in reduced(other, opening())["messages"]] == ["m1", "m9"]


def test_what_a_fork_leaves_behind_counts_as_canceled_and_a_deleted_session_has_nothing(reduced) -> None:
    assert reduced(opening(), event(2, "fork", left=["t"]))["tasks"] == {"t": "canceled"}
    gone = reduced(opening(), event(2, "session_deleted"))
    assert (gone["gone"], gone["title"], gone["messages"]) == (True, "", [])


def events_of(parley: Stack, session: str) -> list[list[Any]]:
    headers = {"Authorization": f"Bearer {parley.demo_key}"}
    answer = httpx.get(f"{parley.url}/api/v1/sessions/{session}", headers=headers).json()
    return [[session, one["index"]] for one in answer["events"]]


def told(page: Page, session: str) -> list[list[Any]]:
    return page.evaluate("(session) => told.filter(([id]) => id === session)", session)


def begin_following(page: Page, way: str) -> None:
    """Follow over a socket, or over a stream, and not over the other."""
    if way == "stream":
        page.add_init_script(NO_SOCKETS)
    page.goto("/agents")
    page.route("**/api/v1/events*", lambda route: route.continue_() if way == "stream" else route.abort())
    page.evaluate(FOLLOW, "")


@pytest.mark.parametrize("way", ["socket", "stream"])
def test_a_line_that_is_lost_goes_on_where_it_was(page: Page, parley: Stack, way: str) -> None:
    begin_following(page, way)
    until(page, "() => states.at(-1) === 'live'")
    countdown = Caller(parley, "countdown")
    tasks = []
    for _ in range(4):
        tasks.append(countdown.send("40"))
        until(page, "(before) => told.length > before + 3", arg=page.evaluate("told.length"))
        page.evaluate("follower.lose()")
        assert page.evaluate("states.at(-1)") == "lost"
        page.evaluate("follower.hurry()")
    for task in tasks:
        countdown.ended(task, 60)
        logged = events_of(parley, task["contextId"])
        until(page, HEARD, arg=[len(logged), task["contextId"]])
        assert told(page, task["contextId"]) == logged


def test_where_sockets_do_not_open_a_stream_does(page: Page, parley: Stack) -> None:
    page.add_init_script(NO_SOCKETS)
    page.goto("/agents")
    page.evaluate(FOLLOW, "")
    until(page, "() => states.at(-1) === 'live'")
    task = Caller(parley, "echo").send("hello")
    until(page, "(id) => told.some(([one]) => one === id)", arg=task["contextId"])


def test_a_cache_is_brought_up_to_date_and_may_be_thrown_away(page: Page, parley: Stack) -> None:
    page.goto("/agents")
    task = Caller(parley, "echo").send("kept in the browser")
    name = f"cache-{uuid.uuid4()}"
    whole, token = page.evaluate(SYNC, name)
    assert [task["contextId"], "kept in the browser"] in whole
    later = Caller(parley, "echo").send("came later")
    with page.expect_response(lambda answer: "since=" in answer.url) as asked:
        synced, next_token = page.evaluate(SYNC, name)
    assert len(asked.value.body()) < 10_000
    assert sorted(synced) == sorted([*whole, [later["contextId"], "came later"]])
    assert token != next_token
    page.evaluate("(name) => new Promise((done) => (indexedDB.deleteDatabase(name).onsuccess = done))", f"{name}-2")
    again, _ = page.evaluate(SYNC, f"{name}-2")
    assert sorted(again) == sorted(synced)


def test_a_signed_out_page_says_so_and_stops(page: Page) -> None:
    page.context.clear_cookies()
    begin_following(page, "socket")
    until(page, "() => states.at(-1) === 'signed-out'")
    expect(page.locator("body")).to_be_visible()
