"""A task's page is live, navigated, searched and copied; a session is replayed."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import PHONE
from tests.browser.doing import FITS, begin, clipboard, elsewhere, heard, messages, settled, until
from tests.browser.people import Person
from tests.stack import Stack


def sent_by_a2a(ada: Person, text: str, **more: Any) -> Any:
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **more}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    answer = ada.http.post(f"{ada.url}/a2a/echo", json=request, headers={"A2A-Version": "1.0"})
    return answer.json()["result"]["task"]


def test_the_page_of_a_task_lives_acts_once_and_is_searched_and_copied_from(
    page: Page, ada: Person, go: Path, complaints: list[str]
) -> None:
    begin(page, "interviewer", f"Ask me something {go}")
    page.locator("#panel-timeline a").click()
    page.wait_for_url("**/tasks/*")
    state = page.locator(".task-state .word")
    expect(state).to_have_text("Working")
    fold = page.get_by_text("Show as a table").first
    fold.press("Enter")
    go.touch()
    expect(state).to_have_text("Waiting for you")
    expect(page.locator("#task-news")).to_have_text("Waiting for you")
    expect(page.locator("#timeline-table")).to_have_attribute("open", "")
    expect(page.locator("#timeline-table summary")).to_be_focused()
    expect(page.locator("#turn-1")).to_contain_text("Finished")
    expect(page.locator("#events")).to_contain_text("input-required: What is your")
    page.get_by_role("link", name="Answer").click()
    page.wait_for_url("**/sessions/*")
    expect(page.get_by_label("Colour")).to_be_visible()

    # Stopped, and repeated once though the answer is lost
    begin(page, "countdown", "Count down from 900")
    page.locator("#panel-timeline a").click()
    page.wait_for_url("**/tasks/*")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    table = page.locator("#timeline-table .scrolls")
    page.locator("#timeline-table summary").press("Enter")
    table.focus()
    page.keyboard.press("ArrowRight")
    until(page, "() => document.querySelector('#timeline-table .scrolls').scrollLeft > 0")
    page.locator("#standing").evaluate("element => { element.isOld = true; }")
    until(page, "() => !document.getElementById('standing').isOld")  # the element was replaced
    expect(table).to_be_focused()
    assert table.evaluate("element => element.scrollLeft") > 0
    page.get_by_role("button", name="Stop").click()
    expect(state).to_have_text("Stopped")
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "task-title"

    def unheard(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/again", unheard)
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#toasts")).to_contain_text(
        "It may not have been sent. Press Run again when you are back online"
    )
    page.unroute_all()
    complaints.clear()
    page.get_by_role("button", name="Run again").click()
    page.wait_for_url("**/sessions/*")
    expect(page.locator(".from-user")).to_have_count(2)

    # A signed-out person is told
    page.goto(f"{page.url}/task")
    expect(state).to_have_text("Working")
    page.get_by_role("button", name="Stop").wait_for()
    cookies = page.context.cookies()
    page.context.clear_cookies()
    expect(page.locator("#toasts")).to_contain_text("You are signed out.")
    page.get_by_role("button", name="Sign in again").click()
    page.wait_for_url("**/sign-in?next=*")
    complaints.clear()
    page.context.add_cookies(cookies)  # type: ignore[arg-type]
    page.go_back()
    page.get_by_role("button", name="Stop").click()
    expect(state).to_have_text("Stopped")

    # Search
    page.set_viewport_size({"width": 1440, "height": 900})
    begin(page, "storyteller", "Tell me a story")
    heard(page, "river")
    settled(page)
    page.goto(f"{page.url}/task")
    rows = page.locator("#events tr[data-index]")
    page.get_by_label("Type").select_option("agent_tool_result")
    expect(rows).to_have_count(1)
    page.locator("#events summary").click()
    expect(page.locator("#events pre")).to_contain_text("Rivers run to the sea.")
    page.get_by_label("Type").select_option("")
    page.get_by_label("Text").fill("rivers RUN")
    expect(rows).to_have_count(1)
    page.get_by_label("Text").fill("no such thing")
    expect(page.locator("#events")).to_contain_text("No events match these filters.")
    page.locator("[id^=bar-turn-1]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#turn-1")).to_be_visible()

    # Copied documents are complete, and curl sends the same
    words = "it's $HOME, `whoami` and \\ \"quoted\"\n<<'REQUEST'\nREQUEST" + "x" * 30_000
    _, task = ada.begin("echo", words)
    page.goto(f"/tasks/{task}")
    request = page.locator("#document-request")
    request.locator("summary").click()
    expect(request).to_contain_text("Only the beginning is shown.")
    request.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert json.loads(clipboard(page))["parts"][0]["text"] == words
    page.locator("#document-task summary").click()
    expect(page.locator("#document-task pre")).to_contain_text('"TASK_STATE_COMPLETED"')
    page.locator("#document-curl summary").click()
    page.locator("#document-curl").get_by_role("button", name="Copy").click()
    until(page, "async () => (await navigator.clipboard.readText()).includes('YOUR-KEY')")
    script = clipboard(page).replace("YOUR-KEY", ada.key)
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=120, check=True)
    sent = json.loads(said.stdout)["result"]["task"]
    assert sent["id"] != task
    assert sent["artifacts"][0]["parts"][0]["text"] == words

    # Related tasks are reached by keyboard
    first = sent_by_a2a(ada, "first")
    task = first["id"]
    second = sent_by_a2a(ada, "second", contextId=first["contextId"], referenceTaskIds=[task])["id"]
    page.goto(f"/tasks/{task}")
    page.locator(".graph-box").focus()
    page.keyboard.press("Tab")
    expect(page.locator(".graph a").first).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tasks/{second}")
    page.get_by_text("Show as a table").last.click()
    expect(page.locator("#graph-table tbody tr")).to_contain_text("is referenced by")
    page.locator("#graph-table td").get_by_role("link").first.click()
    page.wait_for_url(f"**/tasks/{task}")


# The visible content without times: authors, words, forms and work.
READ = """() => [...document.querySelectorAll("#items > li:not([hidden])")].map((item) => [
  item.matches(".from-user") ? "user" : item.matches(".from-agent") ? "agent" : "work",
  ...[...item.querySelectorAll(".who, .prose, .chip .name, form label, form button, .work-line .text, .steps > li")]
    .map((one) => one.textContent.trim()),
])"""

# Records the page when all received events are rendered.
CAPTURE = f"""
  window.captured = [];
  let newest = 0;
  const read = {READ};
  const frame = () => new Promise(requestAnimationFrame);
  window.WebSocket = class extends WebSocket {{
    constructor(address, ...more) {{
      super(address, ...more);
      if (!String(address).includes("/ws/sessions/")) return;
      this.addEventListener("message", async ({{data}}) => {{
        const {{entries = [], last}} = JSON.parse(data);
        if (!last) return;
        newest = last;
        const asks = entries.some(({{state}}) => state === "input-required"); // drawn once what that takes is loaded
        while (asks && newest === last && !document.querySelector("form.question")) await frame();
        await frame(); await frame(); await frame();
        if (newest === last && !document.querySelector(".pending")) captured.push([last, read()]);
      }});
    }}
  }};
"""


def move(page: Page, index: int) -> None:
    page.locator("#place").evaluate(
        "(place, index) => { place.value = index; place.dispatchEvent(new Event('input', {bubbles: true})); }", index
    )
    expect(page.locator("#place-index")).to_contain_text(f"Event {index} of")


def test_the_player_shows_what_a_browser_saw_live_and_forks_from_there(
    page: Page, go: Path, complaints: list[str]
) -> None:
    page.add_init_script(CAPTURE)
    session = begin(page, "interviewer", f"Ask me something {go}")
    heard(page, "Let me")
    go.touch()
    page.get_by_label("Colour").fill("green")
    page.get_by_role("button", name="Send answer").click()
    heard(page, "nothing else")
    settled(page)
    expect(page.locator(".rating")).to_have_count(1)
    seen: list[tuple[int, Any]] = page.evaluate("captured")
    assert [read for _, read in seen if any("*" in words for item in read for words in item)], (
        "words while they streamed"
    )
    asking = [index for index, read in seen if any("Colour" in item for item in read)]
    assert asking, "the question was seen"
    page.route("**/replay/entries*", lambda route: route.abort())
    page.goto(f"{session}/replay?at=1")
    expect(page.locator("#toasts")).to_contain_text("Part of the session could not be loaded.")
    page.unroute_all()
    complaints.clear()
    page.get_by_role("button", name="Try again").click()
    place = page.locator("#place-index")
    expect(place).to_contain_text("Event 1 of")
    for index, read in [*seen, *reversed(seen)]:
        move(page, index)
        assert page.evaluate(READ) == read, f"as it was at event {index}"
    move(page, asking[0])
    expect(page.locator("form.question")).to_have_attribute("inert", "")
    expect(page.locator("#items .actions").first).to_be_hidden()

    # Played, moved and forked by keyboard
    page.locator("#place").focus()
    page.keyboard.press("Home")
    expect(place).to_contain_text("Event 0 of")
    expect(messages(page)).to_have_count(0)
    expect(page.get_by_role("button", name="Fork from here")).to_be_disabled()
    page.get_by_label("Speed").select_option("100")
    page.locator("#transcript").focus()
    page.keyboard.press("Space")
    expect(place).to_have_text(re.compile(r"Event (\d+) of \1$"))
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    last = int((place.text_content() or "").split()[-1])
    page.keyboard.press("ArrowLeft")
    expect(place).to_contain_text(f"Event {last - 1} of")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert page.evaluate(FITS)
    while messages(page).count():
        page.get_by_role("button", name="Previous message").click()
    page.get_by_role("button", name="Next message").press("Enter")
    expect(messages(page)).to_have_count(1)
    refused = {"status": 409, "json": {"detail": "The session is being moved. Try again."}}
    page.route("**/fork", lambda route: route.fulfill(**refused))  # type: ignore[arg-type]
    page.get_by_role("button", name="Fork from here").press("Enter")
    expect(page.locator("#toasts")).to_contain_text("The session is being moved.")
    page.unroute_all()
    complaints.clear()
    page.get_by_role("button", name="Fork from here").press("Enter")
    elsewhere(page, session)
    expect(messages(page)).to_have_count(1)
    expect(page.locator(".from-user")).to_contain_text("Ask me something")


MANY = """
from benchmarks.sessions import make
from apps.accounts.models import User
from apps.record.models import Context
key = make(0, {messages}, 2)
owner = User.objects.get(email="{email}")
Context.objects.filter(pk=key).update(owner=owner, workspace=owner.membership.workspace)
print(key)
"""
MESSAGES, MOST = 1500, 200  # of the session, and in the page
MOST_ELEMENTS = """
  window.mostElements = 0;
  new MutationObserver(() => {
    window.mostElements = Math.max(mostElements, document.querySelectorAll("#items > li").length);
  }).observe(document, { subtree: true, childList: true });
"""
UP = """(id) => {
  document.getElementById("transcript").scrollTop = 60;
  return document.getElementById(id).getBoundingClientRect().top;
}"""


def test_of_a_long_session_few_messages_are_in_the_page_and_the_readers_place_is_kept(
    page: Page, parley: Stack, ada: Person, complaints: list[str]
) -> None:
    key = parley.manage("shell", "-v0", "-c", MANY.format(email=ada.email, messages=MESSAGES)).stdout.split()[-1]
    session = f"/sessions/{key}"
    page.add_init_script(MOST_ELEMENTS)
    page.goto(session)
    end = page.locator(f"#m-{MESSAGES}")
    expect(end).to_be_in_viewport()

    def go_up() -> None:
        first = str(messages(page).first.get_attribute("id"))
        before = page.evaluate(UP, first)
        expect(messages(page).first).not_to_have_id(first)
        box = page.locator(f"#{first}").bounding_box()
        assert box
        assert abs(box["y"] - before) < 3, "nothing moves"

    for _ in range(5):
        go_up()
    expect(end).to_have_count(0)
    page.evaluate("document.getElementById('to-end').click()")
    expect(end).to_be_in_viewport()

    # A link leads far up; a broken connection is reported
    page.route("**/earlier?*", lambda route: route.abort())
    page.evaluate("location.hash = '#m-501'")
    expect(page.locator(".composer-error")).to_contain_text("Earlier messages could not be loaded.")
    page.unroute_all()
    complaints.clear()
    page.evaluate("location.hash = '#m-401'")
    expect(page.locator("#m-401")).to_be_in_viewport()
    expect(page.locator("#m-401")).to_be_focused()
    expect(page.locator(".composer-error")).to_be_hidden()
    assert 0 < page.evaluate("mostElements") <= MOST

    # Replay by jumps
    page.goto(f"{session}/replay?at=1400")
    expect(page.locator("#place-index")).to_contain_text("Event 1400 of")
    expect(messages(page).last).to_be_in_viewport()
    assert page.locator("#items > li").count() <= 100
    move(page, 3)
    expect(messages(page)).to_have_count(3)
