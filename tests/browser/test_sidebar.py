"""The list of sessions beside a page is live: what happens in another window, or on a phone, shows without a reload."""

from __future__ import annotations

import httpx
from playwright.sync_api import Locator, Page, expect

from tests.browser.doing import begin, heard, say, settled
from tests.faults.calling import Caller
from tests.stack import Stack


def entry(page: Page, session: str) -> Locator:
    return page.locator(f".recent [data-session='{session}']")


def live(page: Page) -> None:
    """Wait until the page hears what happens."""
    expect(page.locator(".sidebar")).to_have_attribute("data-line", "live")


def session_of(page: Page) -> str:
    return page.url.rsplit("/", 1)[1]


def test_a_session_that_begins_elsewhere_appears_at_the_top(page: Page, parley: Stack) -> None:
    page.goto("/agents")
    live(page)
    expect(page.locator(".recent .sign-working")).to_have_count(0)  # what ends later would be above it
    task = Caller(parley, "echo").send("Something quite new")
    first = page.locator(".recent [data-session]").first
    expect(first).to_contain_text("Something quite new")
    expect(first.locator(".sign-done")).to_be_visible()
    page.reload()
    expect(page.locator(".recent [data-session]").first).to_contain_text("Something quite new")
    assert task["contextId"]


def test_work_and_questions_are_marked_as_they_come_and_go(page: Page) -> None:
    begin(page, "asking", "Ask me")
    expect(page.locator(".question")).to_be_visible()
    session = session_of(page)
    other = page.context.new_page()
    other.goto("/agents")
    live(other)
    expect(entry(other, session).locator(".sign-waiting")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    settled(page)
    expect(entry(other, session).locator(".sign-canceled")).to_be_visible()


def test_a_session_that_is_renamed_or_deleted_elsewhere_changes_in_every_tab(page: Page, parley: Stack) -> None:
    begin(page, "echo", "An old name")
    heard(page, "An old name")
    session = session_of(page)
    tabs = [page.context.new_page() for _ in range(2)]
    for tab in tabs:
        tab.goto("/agents")
        live(tab)
    calls = httpx.Client(base_url=f"{parley.url}/api/v1", headers={"Authorization": f"Bearer {parley.demo_key}"})
    assert calls.patch(f"/sessions/{session}", json={"title": "A new name"}).status_code == 200
    for tab in tabs:
        expect(entry(tab, session)).to_have_text("DoneA new name")
    assert calls.delete(f"/sessions/{session}").status_code == 204
    for tab in tabs:
        expect(entry(tab, session)).to_have_count(0)


def test_what_was_said_moves_a_session_up_and_what_is_done_moves_none(page: Page) -> None:
    begin(page, "hello", "the older one")
    heard(page, "the older one")
    older, other = session_of(page), page.context.new_page()
    begin(other, "hello", "the younger one")
    heard(other, "the younger one")
    first = other.locator(".recent [data-session]").first
    expect(first).to_contain_text("the younger one")
    live(other)
    say(page, "once more")
    expect(first).to_have_attribute("data-session", older)


def test_a_page_that_comes_back_from_the_browsers_cache_is_live_again(page: Page, parley: Stack) -> None:
    page.goto("/agents")
    live(page)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    task = Caller(parley, "echo").send("While nobody looked")
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    expect(entry(page, task["contextId"])).to_contain_text("While nobody looked")
