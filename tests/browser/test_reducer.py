"""The reducer, in the browser it is written for: what streamed and what is loaded later look alike."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.doing import begin, say, settled

REDUCE = """async (entries) => {
  const more = ["local", "making", "streaming", "extras", "turns"];
  await Promise.all(more.map((name) => import(`/static/js/session/${name}.js`)));
  const { begin, reduce } = await import("/static/js/session/reducer.js");
  return entries.reduce(reduce, begin());
}"""

LINE = """(path) => new Promise((done) => {
  const heard = [];
  const socket = new WebSocket(location.origin.replace("http", "ws") + path + "?after=0");
  socket.onmessage = ({ data }) => {
    const said = JSON.parse(data);
    heard.push(...(said.entries ?? []));
    if (said.entries) socket.send(JSON.stringify({ seen: said.last }));
    if (heard.at(-1)?.index >= JSON.parse(document.getElementById("beginning").textContent).last) {
      socket.close();
      done(heard);
    }
  };
})"""

AT = "2030-01-01T10:00:00.000Z"


def message(index: int, words: str, **more: Any) -> dict[str, Any]:
    said = {"messageId": f"m{index}", "text": words, "html": f"<p>{words}</p>"}
    return {"index": index, "at": AT, "taskId": "t", "message": said, **more}


def opening(index: int = 1) -> dict[str, Any]:
    return message(index, "Go", type="user_message", opensTask=True)


def status(index: int, state: str, **more: Any) -> dict[str, Any]:
    return {"index": index, "type": "agent_status", "at": AT, "taskId": "t", "state": state, **more}


def start(index: int, turn: int = 1, attempt: int = 1, said: str = "m1") -> dict[str, Any]:
    about = {"turn": turn, "attempt": attempt, "messageId": said}
    return {"index": index, "type": "agent_start", "at": AT, "taskId": "t", **about}


def token(index: int, words: str) -> dict[str, Any]:
    return {"index": index, "type": "agent_token", "at": AT, "taskId": "t", "artifactId": "a", "text": words}


@pytest.fixture
def reduced(page: Page):
    """The state after some entries, on a page of ours."""
    page.goto("/agents")
    return lambda *entries: page.evaluate(REDUCE, list(entries))


def kinds(state: dict[str, Any]) -> list[str]:
    return [item["kind"] for item in state["items"]]


def test_a_message_opens_work_that_waits_to_start(reduced) -> None:
    state = reduced(opening())
    assert kinds(state) == ["message", "work"]
    assert state["tasks"]["t"]["state"] == "submitted"


def test_an_entry_that_comes_again_changes_nothing(reduced) -> None:
    entries = [opening(), start(2), status(3, "working")]
    assert reduced(*entries, *entries) == reduced(*entries)


def test_progress_moves_the_work_on(reduced) -> None:
    steps = [{"text": f"Step {number}", "done": number, "total": 2} for number in (1, 2)]
    state = reduced(opening(), start(2), *(status(3 + n, "working", progress=step) for n, step in enumerate(steps)))
    work = state["items"][1]
    assert [step["text"] for step in work["steps"]] == ["Step 1", "Step 2"]
    assert work["progress"] == steps[1]


def test_an_answer_closes_the_question_and_begins_new_work(reduced) -> None:
    asked = [opening(), start(2), message(3, "Which?", type="agent_status", state="input-required", form="<form>")]
    waiting = reduced(*asked)
    assert waiting["items"][-1]["form"] == "<form>"
    answered = reduced(*asked, message(4, "PDF", type="user_message", opensTask=False), status(5, "working"))
    assert [item.get("form") for item in answered["items"] if item.get("role") == "agent"] == [None]
    assert kinds(answered) == ["message", "work", "message", "message", "work"]


def test_the_final_message_takes_the_place_of_the_same_streamed_words(reduced) -> None:
    streamed = [opening(), start(2), token(3, "Hello "), token(4, "there")]
    assert reduced(*streamed)["items"][-1]["streaming"]
    done = reduced(*streamed, message(5, "Hello there", type="agent_status", state="completed"))
    assert kinds(done) == ["message", "work", "message"]
    assert not done["items"][-1].get("streaming")
    assert done["items"][-1]["html"] == "<p>Hello there</p>"


def test_other_final_words_follow_the_streamed_ones(reduced) -> None:
    done = reduced(opening(), start(2), token(3, "Hello"), message(4, "Done.", type="agent_status", state="completed"))
    assert [item["text"] for item in done["items"] if item["kind"] == "message"] == ["Go", "Hello", "Done."]


def test_a_second_attempt_begins_again(reduced) -> None:
    chunk = {"index": 4, "type": "artifact_update", "at": AT, "taskId": "t", "artifactId": "log"}
    chunk |= {"begins": True, "name": "log", "text": "x", "size": 1}
    state = reduced(opening(), start(2), token(3, "Half a sen"), chunk, start(5, attempt=2))
    assert kinds(state) == ["message", "work"]
    assert state["artifacts"] == {}
    assert state["items"][1]["attempt"] == 2


def test_a_turn_that_was_given_back_begins_again(reduced) -> None:
    state = reduced(opening(), start(2), token(3, "Half a sen"), start(4) | {"again": True})
    assert kinds(state) == ["message", "work"]


def test_a_canceled_task_leaves_no_artifact_and_ends_its_work(reduced) -> None:
    chunk = {"index": 3, "type": "artifact_update", "at": AT, "taskId": "t", "artifactId": "log"}
    chunk |= {"begins": True, "name": "log", "text": "x", "size": 1}
    state = reduced(opening(), start(2), chunk, status(4, "canceled"))
    assert state["artifacts"] == {}
    assert state["items"][1]["outcome"] == "canceled"


def test_an_optimistic_message_becomes_the_recorded_one(reduced) -> None:
    pending = {"type": "local:sending", "messageId": "m1", "text": "Go", "files": [], "at": AT}
    assert reduced(pending)["items"][0]["pending"]
    state = reduced(pending, opening())
    assert [item.get("pending") for item in state["items"] if item["kind"] == "message"] == [None]


@pytest.mark.parametrize("agent", ["storyteller", "countdown", "failing", "echo"])
def test_what_was_followed_live_looks_like_what_is_loaded_later(page: Page, agent: str) -> None:
    begin(page, agent, "5")
    expect(page.locator(".from-agent")).to_have_count(1)
    settled(page)
    say(page, "and 3")
    expect(page.locator(".from-agent")).to_have_count(2)
    settled(page)
    page.reload()
    beginning = page.evaluate("JSON.parse(document.getElementById('beginning').textContent)")
    live = page.evaluate(REDUCE, page.evaluate(LINE, beginning["line"]))
    loaded = page.evaluate(REDUCE, beginning["entries"])
    assert without_indexes(live["items"]) == without_indexes(loaded["items"])
    assert live["artifacts"] == loaded["artifacts"]
    assert live["tasks"] == loaded["tasks"]


def without_indexes(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Items as they are drawn."""
    return [{name: value for name, value in item.items() if name != "index"} for item in items]
