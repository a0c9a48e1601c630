"""The client's modules in a browser: they lose and repeat nothing."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.browser.conftest import OpenBrowser
from tests.browser.doing import until, wait
from tests.browser.people import Person

CLIENT = """async (events) => {
  const { begin, reduce } = await import("/static/js/client/reducer.js");
  return events.reduce(reduce, begin("s"));
}"""
OF_A_SESSION = """async (entries) => {
  const { begin, reduce } = await import("/static/js/session/reducer.js");
  return entries.reduce(reduce, begin());
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
  return [[...sessions.values()].map(({ id, title }) => [id, title]).sort(), token];
}"""
STATE = "(state) => states.at(-1) === state"
HEARD = "([session, number]) => told.filter(([id]) => id === session).length >= number"
NO_SOCKETS = """window.WebSocket = class {
  constructor() { setTimeout(() => this.onclose({ code: 1006 })); }
  close() {}
}"""
AT = "2030-01-01T10:00:00.000Z"


def event(index: int, kind: str, **payload: Any) -> dict[str, Any]:
    about = {"id": f"s:{index}", "sessionId": "s", "index": index, "timestamp": AT, "taskId": "t", "runId": None}
    return {**about, "type": kind, "payload": payload}


def entry(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"index": index, "type": kind, "at": AT, "taskId": "t", **more}


def said(index: int, words: str) -> dict[str, Any]:
    return {"message": {"messageId": f"m{index}", "text": words, "html": f"<p>{words}</p>"}}


def test_the_clients_modules(page: Page, open_browser: OpenBrowser, ada: Person, complaints: list[str]) -> None:
    page.goto("/agents")

    def reduced(*events: dict[str, Any]) -> Any:
        return page.evaluate(CLIENT, list(events))

    # Events may be applied twice; an optimistic message becomes the recorded one
    message = {"messageId": "m1", "parts": [{"text": "Go"}]}
    opens = {"title": "Plate 7", "agent": "report", "contextId": "c"}
    opening = event(1, "user_message", message=message, opens=opens, task={"agent": "report"})
    done = event(3, "agent_status", state="completed", message={"messageId": "m2", "parts": [{"text": "Done."}]})
    events = [opening, event(2, "agent_status", state="working"), done, event(4, "session_renamed", title="Plate 8")]
    state = reduced(*events)
    assert (state["title"], state["agent"], state["last"], state["tasks"]) == (
        "Plate 8",
        "report",
        4,
        {"t": "completed"},
    )
    assert [(one["role"], one["text"]) for one in state["messages"]] == [("user", "Go"), ("agent", "Done.")]
    assert reduced(*events, *events) == state
    pending = {"type": "local:sending", "messageId": "m1", "text": "Go"}
    assert reduced(pending)["messages"][0]["pending"]
    assert reduced(pending, opening) == reduced(opening, pending) == reduced(opening)
    assert reduced(pending, {"type": "local:refused", "messageId": "m1"})["messages"] == []
    assert reduced(opening, event(2, "fork", left=["t"]))["tasks"] == {"t": "canceled"}
    gone = reduced(opening, event(2, "session_deleted"))
    assert (gone["gone"], gone["title"], gone["messages"]) == (True, "", [])

    # On a session's page, a new attempt replaces the previous one
    def kinds(*entries: dict[str, Any]) -> list[str]:
        shown = page.evaluate(OF_A_SESSION, list(entries))
        assert shown == page.evaluate(OF_A_SESSION, [*entries, *entries]), "what comes again changes nothing"
        return [f"{item['kind']} {item.get('text', '')}".strip() for item in shown["items"]] + list(shown["artifacts"])

    begun = entry(1, "user_message", opensTask=True, **said(1, "Go"))
    start = entry(2, "agent_start", turn=1, attempt=1, messageId="m1")
    token = entry(3, "agent_token", artifactId="a", text="Hello")
    chunk = entry(4, "artifact_update", artifactId="log", begins=True, name="log", text="x", size=1)
    assert kinds(begun, start, token, chunk) == ["message Go", "work", "message Hello", "t/log"]
    again = entry(5, "agent_start", turn=1, attempt=2, messageId="m1")
    given_back = entry(5, "agent_start", turn=1, attempt=1, messageId="m1", again=True)
    for restart in (again, given_back):
        assert kinds(begun, start, token, chunk, restart) == ["message Go", "work"]
    assert kinds(begun, start, chunk, entry(5, "agent_status", state="canceled")) == ["message Go", "work"]
    text = {**chunk, "isText": True}
    assert kinds(begun, start, text) == ["message Go", "work", "made x", "t/log"]
    assert kinds(begun, start, text, again) == ["message Go", "work"]
    left = {"taskId": "t", "artifactId": "log", "kind": "text", "html": "<p>x</p>", "isUnfinished": True}
    ended = entry(6, "agent_status", state="canceled")
    for artifacts, shown in (([left], ["made"]), ([], [])):
        cancelled = entry(5, "agent_cancelled", discarded=["log"], artifacts=artifacts)
        assert kinds(begun, start, text, cancelled, ended) == ["message Go", "work", *shown]
    completed = {"state": "completed"}
    same = entry(4, "agent_status", **said(4, "Hello"), **completed)
    other = entry(4, "agent_status", **said(4, "Done."), **completed)
    assert kinds(begun, start, token, same) == ["message Go", "work", "message Hello"]
    assert kinds(begun, start, token, other) == ["message Go", "work", "message Hello", "message Done."]

    # A lost connection resumes, over a WebSocket or, where none opens, over a stream
    for way in ("socket", "stream"):
        page = open_browser().new_page()
        if way == "stream":
            page.add_init_script(NO_SOCKETS)
        else:
            page.route("**/api/v1/events*", lambda route: route.abort())
        page.goto("/agents")
        page.evaluate(FOLLOW, "")
        until(page, STATE, "live")
        sessions = []
        for _ in range(3):
            sessions.append(ada.begin("countdown", "20", wait=False)[0])
            until(page, HEARD, [sessions[-1], 3])
            page.evaluate("follower.lose()")
            assert page.evaluate("states.at(-1)") == "lost"
            page.evaluate("follower.hurry()")
        for session in sessions:
            until(page, "(id) => told.some(([one]) => one === id)", session)
            wait(page, lambda key=session: ada.session(key)["tasks"][0]["state"] == "completed")
            logged = [[session, one["index"]] for one in ada.session(session)["events"]]
            until(page, HEARD, [session, len(logged)])
            assert page.evaluate("(session) => told.filter(([id]) => id === session)", session) == logged

    # The browser's copy is updated, and can be deleted
    whole, token_of_all = page.evaluate(SYNC, "cache-1")
    later, _ = ada.begin("echo", "came later")
    with page.expect_response(lambda answer: "since=" in answer.url) as asked:
        synced, next_token = page.evaluate(SYNC, "cache-1")
    assert len(asked.value.body()) < 10_000
    assert synced == sorted([*whole, [later, "came later"]])
    assert token_of_all != next_token
    assert page.evaluate(SYNC, "cache-2")[0] == synced

    # A signed-out browser is told, and sends no more requests
    page.context.clear_cookies()
    page.goto("/sign-in")
    page.evaluate(FOLLOW, "")
    until(page, STATE, "signed-out")
    complaints.clear()
