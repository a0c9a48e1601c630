"""The player shows a session as it was: what a browser saw live, event by event, and forks from there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import LOOKS, PHONE, SESSION, WIDE
from tests.browser.doing import begin, heard, messages, settled
from tests.stack import Stack

# What a reader reads, without what is of the moment: who said it, the words, forms, how work stands.
READ = """() => [...document.querySelectorAll("#items > li:not([hidden])")].map((item) => [
  item.matches(".from-user") ? "user" : item.matches(".from-agent") ? "agent" : "work",
  ...[...item.querySelectorAll(".who, .prose, .chip .name, form label, form button, .work-line .text, .steps > li")]
    .map((one) => one.textContent.trim()),
])"""

# Notes what stands on the page whenever all that came over the line is drawn, and nothing more came meanwhile.
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


def replay(page: Page, session: str, at: int = 0) -> None:
    page.goto(f"{session}/replay?at={at}")
    expect(page.locator("#place-index")).to_contain_text(f"Event {at} of")


def go(page: Page, index: int) -> None:
    page.locator("#place").evaluate(
        "(place, index) => { place.value = index; place.dispatchEvent(new Event('input', {bubbles: true})); }", index
    )
    expect(page.locator("#place-index")).to_contain_text(f"Event {index} of")


@pytest.fixture
def interview(page: Page) -> tuple[str, list[tuple[int, Any]]]:
    """A session with streamed words and a question, and what a browser saw of it, by index."""
    page.add_init_script(CAPTURE)
    begin(page, "interviewer", "Ask me something")
    page.get_by_label("Colour").fill("green")
    page.get_by_role("button", name="Send answer").click()
    heard(page, "nothing else")
    settled(page)
    session = page.url
    expect(page.locator(".rating")).to_have_count(1)
    return session, page.evaluate("captured")


def test_the_player_shows_what_a_browser_saw_live(page: Page, interview: tuple[str, list[tuple[int, Any]]]) -> None:
    session, seen = interview
    assert len(seen) >= 5, [index for index, _ in seen]
    streamed = [read for _, read in seen if any("*" in words for item in read for words in item)]  # not laid out yet
    asked = [read for _, read in seen if any("Colour" in item for item in read)]
    assert streamed, "words were seen while they streamed"
    assert asked, "the question was seen"
    replay(page, session)
    for index, read in [*seen, *reversed(seen)]:  # forwards, and back by jumps
        go(page, index)
        assert page.evaluate(READ) == read, f"as it was at event {index}"


def test_it_plays_steps_and_forks_by_keyboard(page: Page, interview: tuple[str, list[tuple[int, Any]]]) -> None:
    session, _ = interview
    replay(page, session)
    expect(messages(page)).to_have_count(0)
    page.get_by_label("Speed").select_option("100")
    page.locator("#transcript").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.locator("#place-index")).to_have_text(re.compile(r"Event (\d+) of \1$"))
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    last = int((page.locator("#place-index").text_content() or "").split()[-1])
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#place-index")).to_contain_text(f"Event {last - 1} of")
    page.locator("#place").focus()
    page.keyboard.press("Home")
    expect(page.locator("#place-index")).to_contain_text("Event 0 of")
    expect(page.get_by_role("button", name="Fork from here")).to_be_disabled()
    page.get_by_role("button", name="Next message").press("Enter")
    expect(page.locator("#place-type")).to_have_text("user_message")
    expect(messages(page)).to_have_count(1)
    page.get_by_role("button", name="Fork from here").press("Enter")
    page.wait_for_url(SESSION)
    assert page.url != session
    expect(messages(page)).to_have_count(1)
    expect(page.locator(".from-user")).to_contain_text("Ask me something")


@LOOKS
def test_it_is_played_gone_through_and_forked_by_pointer(
    look: Callable[..., Page], size: tuple[int, int], scheme: str
) -> None:
    page = look(size, scheme)
    begin(page, "storyteller", "Tell me a story")
    heard(page, "river")
    settled(page)
    session = page.url
    page.locator("#session-more").click()
    page.get_by_role("link", name="Replay").click()
    page.wait_for_url("**/replay")
    expect(messages(page)).to_have_count(0)
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").click()
    page.get_by_label("Speed").select_option("20")
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#place-index")).to_have_text(re.compile(r"Event (\d+) of \1$"))
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    expect(page.locator(".from-agent strong")).to_be_in_viewport()
    place = page.locator("#place").bounding_box()
    assert place is not None
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    expect(page.locator(".streaming")).to_be_in_viewport()
    while messages(page).count():
        page.get_by_role("button", name="Message before").click()
    expect(page.get_by_role("button", name="Fork from here")).to_be_disabled()
    page.get_by_role("button", name="Next message").click()
    expect(page.locator(".from-user")).to_be_in_viewport()
    page.get_by_role("button", name="Fork from here").click()
    page.wait_for_url(lambda address: address != session and bool(SESSION.search(address)))
    expect(messages(page)).to_have_count(1)


def test_what_acts_on_the_present_does_nothing_in_the_past(page: Page) -> None:
    begin(page, "asking", "A trip")
    expect(page.locator("form.question")).to_be_visible()
    replay(page, page.url, at=4)
    expect(page.locator("form.question")).to_have_attribute("inert", "")
    expect(page.locator("form.question")).to_have_css("border-top-style", "solid")  # it looks as it did
    expect(page.locator("#items .actions").first).to_be_hidden()


def test_a_fork_that_is_refused_says_why(page: Page, complaints: list[str]) -> None:
    begin(page, "hello", "fork me")
    heard(page, "fork me")
    replay(page, page.url, at=1)
    refused = {"status": 409, "json": {"detail": "The session is being moved. Try again."}}
    page.route("**/fork", lambda route: route.fulfill(**refused))
    page.get_by_role("button", name="Fork from here").click()
    expect(page.locator("#toasts")).to_contain_text("The session is being moved.")
    expect(page.get_by_role("button", name="Fork from here")).to_be_enabled()
    complaints.clear()


def test_a_lost_line_is_said_and_loading_goes_on(page: Page, complaints: list[str]) -> None:
    begin(page, "hello", "far away")
    heard(page, "far away")
    session = page.url
    page.route("**/replay/entries*", lambda route: route.abort())
    page.goto(f"{session}/replay?at=1")
    expect(page.locator("#toasts")).to_contain_text("Not all of the session could be loaded.")
    page.unroute("**/replay/entries*")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#place-index")).to_contain_text("Event 1 of")
    expect(messages(page)).to_have_count(1)
    complaints.clear()


MANY = """
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations import ledger
from apps.conversations.events import EventType
from apps.conversations.models import Context
from tests.web import telling
ada = User.objects.get(email="{email}")
agent = Agent.objects.get(slug="echo")
receipt = telling.begun(ada, agent, "many")
with ledger.writing(receipt.context) as log:
    telling.work(log, receipt)
    for number in range({events} // 5):
        about = {{"artifactId": f"answer-{{number}}", "name": "answer"}}
        for word in (*range(3), ""):
            kind = EventType.AGENT_TOKEN if word != "" else EventType.AGENT_TOKEN_END
            said = {{**about, "text": f"{{number}}-{{word}} "}}
            log.add(kind, said, task=receipt.task, artifact_id=about["artifactId"])
        said = {{"messageId": f"m{{number}}", "role": "ROLE_AGENT", "parts": [{{"text": f"message {{number}}"}}]}}
        log.add(EventType.AGENT_MESSAGE, {{"message": said, "agent": agent.pk}}, task=receipt.task)
print("session", receipt.context)
"""


def test_a_long_session_is_walked_in_jumps(page: Page, parley: Stack) -> None:
    told = parley.manage("shell", "-v0", "-c", MANY.format(email=parley.demo_email, events=2500))
    session = re.search(r"session (\S+)", told.stdout).group(1)  # type: ignore[union-attr]
    page.goto(f"/sessions/{session}/replay?at=2400")
    expect(page.locator("#place-index")).to_contain_text("Event 2400 of")
    expect(page.locator("#items")).to_contain_text("message 478")
    assert page.locator("#items > li").count() <= 100
    go(page, 503)
    expect(page.locator("#items")).to_contain_text("message 99")
    expect(page.locator("#items")).not_to_contain_text("message 101")


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "dark"), (PHONE, "light")])
def test_the_player_is_for_everybody(
    open_browser: Callable[..., BrowserContext], size: tuple[int, int], scheme: str
) -> None:
    page = open_browser(size, color_scheme=scheme, bypass_csp=True).new_page()
    begin(page, "asking", "A trip " + "W" * 300)
    expect(page.locator("form.question")).to_be_visible()
    page.locator("#session-more").click()
    page.get_by_role("link", name="Replay").click()
    page.wait_for_url("**/replay")
    go(page, 4)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert Axe().run(page, "main").response["violations"] == []
    least = 44 if size == PHONE else 36
    for button in page.locator(".player button, .player select, .player input").all():
        box = button.bounding_box()
        assert box is not None
        assert box["height"] >= least
