"""What people left unsent, deleted, referred to, or sent over a line that broke comes to what they meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, Route, expect

from tests.browser.conftest import PATIENCE, SESSION, sign_in, sign_out
from tests.browser.doing import begin, heard, messages, say, settled
from tests.browser.test_offline import KEEPS, until, waiting
from tests.browser.test_passing_on import act
from tests.browser.test_session_list import calls, choose, session, state_of  # noqa: F401 (fixtures)
from tests.browser.test_sidebar import entry, live
from tests.browser.test_uploads import PIECES, large  # noqa: F401 (a fixture)
from tests.stack import Stack


@pytest.fixture
def own(chromium: Browser, parley: Stack) -> Iterator[BrowserContext]:
    """A browser of its own, in which nobody is signed in yet: who signs out here does so nowhere else."""
    context = chromium.new_context(base_url=parley.url, service_workers="block")
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


def posts_to(page: Page, part: str) -> list[Request]:
    """The requests by which a page sends something to addresses with `part` in them, as they come."""
    made: list[Request] = []
    page.on("request", lambda one: made.append(one) if one.method == "POST" and part in one.url else None)
    return made


def test_what_somebody_left_unsent_is_never_sent_by_who_is_here_next(
    own: BrowserContext, chromium: Browser, parley: Stack
) -> None:
    elsewhere = chromium.new_context(base_url=parley.url)
    sign_in(elsewhere.new_page(), parley, parley.admin_email, parley.admin_password)
    others = elsewhere.cookies()
    elsewhere.close()
    page = own.new_page()
    sign_in(page, parley)
    begin(page, "echo", "before")
    heard(page, "before")
    settled(page)
    address = page.url
    with page.expect_response("**/js/unsent.*"):  # what sends is here before the line is lost
        page.locator("#files").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"})
    page.get_by_role("button", name="Remove a.txt").click()
    own.set_offline(True)
    say(page, "mine alone")
    waiting(page, "mine alone")
    page.close()
    own.clear_cookies()
    own.add_cookies(others)  # by a page of ours that does not clear up, such as admin's
    own.set_offline(False)

    page = own.new_page()
    sent, asked = posts_to(page, address.rsplit("/", 1)[1]), []
    page.on("request", lambda one: asked.append(one.url))
    page.goto("/agents")
    until(page, f"!localStorage.unsent && !(await ({KEEPS})()).includes('unsent')")
    live(page)
    assert sent == []
    assert not [url for url in asked if "/js/others." in url], "what would send it is not even loaded"

    own.clear_cookies()
    sign_in(page, parley)
    page.goto(address)
    heard(page, "before")
    settled(page)
    expect(messages(page)).to_have_count(2)
    assert sent == []


def test_signing_out_takes_back_nothing_that_was_just_deleted(
    own: BrowserContext,
    parley: Stack,
    session: Callable[[str], str],  # noqa: F811
    calls: httpx.Client,  # noqa: F811
) -> None:
    key = session("Gone with its owner")
    page = own.new_page()
    sign_in(page, parley)
    page.goto("/agents")
    live(page)
    choose(page, key, "Delete")
    expect(entry(page, key)).to_have_count(0)
    page.locator(".toast").hover()
    assert state_of(calls, key), "it is not deleted while that can be taken back"
    sign_out(page)
    assert state_of(calls, key) is None


def test_an_answer_that_breaks_off_is_a_lost_line_and_the_message_is_said_once(page: Page) -> None:
    begin(page, "echo", "before")
    heard(page, "before")
    settled(page)
    broken: list[int] = []

    def break_off(route: Route) -> None:
        answer = route.fetch()
        broken.append(answer.status)
        route.fulfill(response=answer, body=answer.text()[:5]) if len(broken) == 1 else route.fulfill(response=answer)

    page.route(re.compile(r"/sessions/[0-9a-f-]{36}/"), lambda route: _if_sent(route, break_off))
    say(page, "over a bad line")
    heard(page, "over a bad line")
    settled(page)
    until(page, "!localStorage.unsent")
    assert broken
    assert max(broken) < 300, "the server had it, and knew it where it came again"
    expect(page.locator(".composer-error")).to_be_hidden()
    expect(page.locator("#words")).to_have_value("")
    expect(messages(page).filter(has_text="over a bad line")).to_have_count(2)  # what was said, and its echo
    expect(page).to_have_url(SESSION)


def _if_sent(route: Route, act: Callable[[Route], None]) -> None:
    if route.request.method == "POST":
        act(route)
    else:
        route.continue_()


def test_what_a_message_that_waits_for_its_file_refers_to_the_next_does_not(page: Page, large: Path) -> None:  # noqa: F811
    begin(page, "echo", "the first")
    heard(page, "the first")
    settled(page)
    held: list[Route] = []
    hold = True

    def piece(route: Route) -> None:
        held.append(route) if hold and route.request.method == "PATCH" else route.continue_()

    page.route(PIECES, piece)
    page.locator("#files").set_input_files(large)
    act(page, "the first", "Refer to this", role="agent")
    chip = page.locator("#composer-notes .chip")
    expect(chip).to_have_count(1)
    say(page, "with a file")
    expect(page.locator("#composer")).to_contain_class("is-due")
    hold = False
    for route in held:
        route.continue_()
    heard(page, "with a file")
    settled(page)
    expect(chip).to_have_count(0)
    act(page, "with a file", "Refer to this", role="agent")
    expect(chip).to_have_count(1)
    say(page, "once more")
    heard(page, "once more")
    settled(page)
    said = messages(page).filter(has_text="once more").first.locator("a.chip")
    expect(said).to_have_count(1)
    expect(said).to_contain_text("with a file")
    say(page, "about nothing")
    heard(page, "about nothing")
    settled(page)
    expect(messages(page).filter(has_text="about nothing").first.locator("a.chip")).to_have_count(0)
