"""Work that ends, or asks, in a session that nobody looks at is told once: by a page, or by the browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.doing import begin, heard, say, settled
from tests.browser.test_sidebar import live
from tests.faults.calling import Caller
from tests.stack import Stack

BROWSER = """
window.shown = [];
window.Notification = class {
  static permission = localStorage.getItem("test.permission") ?? "default";
  static async requestPermission() {
    localStorage.setItem("test.permission", window.answers);
    return (this.permission = window.answers);
  }
  constructor(title, about) { window.shown.push(Object.assign(this, { title, ...about })); }
  close() {}
};
window.answers = "granted";
"""
AWAY = "Object.defineProperty(document, 'hidden', { get: () => localStorage.getItem('test.away') === 'yes' });"


def tabs(page: Page, watched: Callable[[Page], list[str]], count: int) -> list[Page]:
    opened = [page, *(page.context.new_page() for _ in range(count - 1))]
    for one in opened:
        watched(one)
        one.goto("/agents")
        live(one)
    return opened


def toasts(pages: list[Page], words: str) -> list[Page]:
    """Those that say it."""
    return [one for one in pages if one.locator(".toast", has_text=words).count()]


def wait_until_one_says(pages: list[Page], words: str) -> Page:
    for _ in range(200):
        if found := toasts(pages, words):
            return found[0]
        pages[0].wait_for_timeout(100)
    raise AssertionError(f"nobody says {words!r}")


def test_one_page_says_what_ended_elsewhere_and_opens_it(
    page: Page, parley: Stack, watched: Callable[[Page], list[str]]
) -> None:
    pages = tabs(page, watched, 2)
    caller = Caller(parley, "echo")
    task = caller.send("The thing that ends")
    wait_until_one_says(pages, "“The thing that ends” is done.")
    caller.send("The thing after it")
    wait_until_one_says(pages, "“The thing after it” is done.")
    assert len(toasts(pages, "The thing that ends")) == 1, "and the other page does not repeat it"
    says = toasts(pages, "The thing that ends")[0]
    says.locator(".toast", has_text="The thing that ends").get_by_role("button", name="Open").click()
    says.wait_for_url(f"**/sessions/{task['contextId']}")


def test_who_looks_at_a_session_is_told_nothing_of_it(
    page: Page, parley: Stack, watched: Callable[[Page], list[str]]
) -> None:
    watched(page)
    begin(page, "echo", "What I look at")  # before there is another page, which might be quicker than this one
    heard(page, "What I look at")
    settled(page)
    here, elsewhere = page, page.context.new_page()
    watched(elsewhere)
    elsewhere.goto("/agents")
    live(elsewhere)
    say(here, "And again")
    heard(here, "And again")
    Caller(parley, "echo").send("What I do not look at")
    wait_until_one_says([here, elsewhere], "What I do not look at")
    assert toasts([here, elsewhere], "“What I look at”") == []


def test_the_browser_says_it_to_who_allowed_it_and_is_away(
    open_browser: Callable[..., BrowserContext], parley: Stack, watched: Callable[[Page], list[str]]
) -> None:
    context = open_browser()
    context.add_init_script(BROWSER + AWAY)
    page, other = tabs(context.new_page(), watched, 2)
    switch = page.get_by_role("switch", name="Notify me")

    page.evaluate("window.answers = 'denied'")
    flip(page)
    expect(page.locator(".toast")).to_contain_text("Your browser blocks notifications")
    expect(switch).not_to_be_checked()
    page.evaluate("window.answers = 'granted'")
    flip(page)
    expect(switch).to_be_checked()
    for one in (page, other):  # which have the permission by then, as real pages do at once
        one.reload()
        live(one)
    open_menu(page)
    expect(switch).to_be_checked()

    page.evaluate("localStorage.setItem('test.away', 'yes')")
    task = Caller(parley, "asking").send("Where nobody looks")
    shown = wait_until_shown([page, other])
    assert [(one["title"], one["body"]) for one in shown] == [
        ("“Where nobody looks” asks you something", "Where to, and how?")
    ]
    teller = next(one for one in (page, other) if one.evaluate("window.shown.length"))
    teller.evaluate("window.shown[0].onclick()")
    teller.wait_for_url(f"**/sessions/{task['contextId']}")


def open_menu(page: Page) -> None:
    page.locator(".sidebar [popovertarget=account]").click()


def flip(page: Page) -> None:
    if not page.get_by_role("switch", name="Notify me").is_visible():
        open_menu(page)
    page.get_by_role("switch", name="Notify me").click()


def wait_until_shown(pages: list[Page]) -> list[dict[str, Any]]:
    for _ in range(200):
        if shown := [one for page in pages for one in page.evaluate("window.shown.map(one => ({ ...one }))")]:
            return shown
        pages[0].wait_for_timeout(100)
    raise AssertionError("the browser shows nothing")
