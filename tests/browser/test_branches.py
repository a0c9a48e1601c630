"""Going on differently: edit, try again, fork; back and forth between branches, and the tree that they make."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import PHONE, SESSION, WIDE
from tests.browser.doing import begin, heard, messages, say, settled

SIZES = pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])


def message(page: Page, words: str) -> Locator:
    return messages(page).filter(has=page.locator(".prose", has_text=re.compile(f"^{re.escape(words)}$"))).last


def act(page: Page, words: str, name: str, *, role: str = "user") -> None:
    """Choose what to do with a message, from its menu."""
    one = page.locator(f".from-{role}").filter(has=page.locator(".prose", has_text=words)).last
    one.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name=name).click()


def edit(page: Page, words: str, other: str) -> None:
    """Say something else in the place of a message, and wait until that is answered in the fork."""
    before = page.url
    act(page, words, "Edit")
    page.get_by_label("Your message").fill(other)
    page.get_by_role("button", name="Save as a fork and run").click()
    page.wait_for_url(lambda address: address != before and SESSION.search(address))
    heard(page, other)
    settled(page)


@SIZES
def test_an_edit_is_a_branch_and_one_goes_back_and_forth(open_browser, watched, size) -> None:
    page: Page = open_browser(size).new_page()
    watched(page)
    begin(page, "echo", "the first way")
    heard(page, "the first way")
    settled(page)
    original = page.url
    edit(page, "the first way", "the second way")
    assert page.url != original
    place = page.locator(".from-user .branches")
    expect(place).to_contain_text("2/2")
    expect(page.get_by_role("group", name="Branch 2 of 2")).to_be_visible()
    place.get_by_role("link", name="Previous branch").click()
    page.wait_for_url(re.compile(re.escape(original) + "#m-"))
    heard(page, "the first way")
    expect(page.locator(".branches")).to_contain_text("1/2")
    expect(page.get_by_role("link", name="Next branch")).to_be_focused()
    page.keyboard.press("Alt+ArrowRight")
    heard(page, "the second way")
    expect(page.locator(".branches")).to_contain_text("2/2")
    expect(page.get_by_role("link", name="Previous branch")).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_edit_keeps_what_is_written_and_can_be_cancelled(page: Page, complaints: list[str]) -> None:
    begin(page, "storyteller", "Tell me a story")
    act(page, "Tell me a story", "Edit")
    words = page.get_by_label("Your message")
    expect(words).to_be_focused()
    expect(words).to_have_value("Tell me a story")
    words.fill("Tell me")
    heard(page, "river")
    settled(page)
    expect(words).to_have_value("Tell me")
    page.route("**/api/v1/sessions/*/messages/*", lambda route: route.abort())
    words.press("Control+Enter")
    expect(page.locator(".editor .error")).to_contain_text("cannot be reached")
    expect(words).to_have_value("Tell me")
    words.fill(" ")
    page.get_by_role("button", name="Save as a fork and run").click()
    expect(page.locator(".editor .error")).to_contain_text("nothing to send")
    words.press("Escape")
    expect(page.locator(".editor")).to_have_count(0)
    expect(page.locator(".from-user").get_by_role("button", name="More")).to_be_focused()
    expect(message(page, "Tell me a story")).to_be_visible()
    complaints.clear()  # the line that was cut on purpose


def test_files_of_a_message_go_along_with_its_edit(page: Page, csv) -> None:
    begin(page, "asking", "A trip", csv)
    expect(page.locator("form.question")).to_be_visible()
    before = page.url
    act(page, "A trip", "Edit")
    expect(page.get_by_text("Its files go along.")).to_be_visible()
    page.get_by_label("Your message").fill("Another trip")
    page.get_by_role("button", name="Save as a fork and run").click()
    page.wait_for_url(lambda address: address != before and SESSION.search(address))
    expect(page.locator(".from-user .chip")).to_contain_text("depths.csv")
    expect(message(page, "Another trip")).to_be_visible()


def test_an_answer_is_tried_again_and_a_fork_goes_on_from_it(page: Page) -> None:
    begin(page, "echo", "one")
    heard(page, "one")
    settled(page)
    original = page.url
    act(page, "one", "Try again", role="agent")
    page.wait_for_url(lambda address: address != original and SESSION.search(address))
    heard(page, "one")
    settled(page)
    expect(page.locator(".from-user .branches")).to_contain_text("2/2")
    page.goto(original)
    act(page, "one", "Fork from here", role="agent")
    page.wait_for_url(lambda address: address != original and SESSION.search(address))
    heard(page, "one")
    say(page, "and from here")
    heard(page, "and from here")
    assert messages(page).count() == 4


def test_a_fork_that_takes_its_time_is_made_once(page: Page, complaints: list[str]) -> None:
    begin(page, "echo", "one")
    heard(page, "one")
    settled(page)
    keys: list[str | None] = []
    held: list[Route] = []

    def hold(route: Route) -> None:
        keys.append(route.request.headers.get("idempotency-key"))
        held.append(route)

    page.route("**/fork", hold)
    act(page, "one", "Fork from here", role="agent")
    expect(page.locator("#toasts")).to_contain_text("Making a branch…")
    act(page, "one", "Fork from here", role="agent")
    assert len(held) == 1
    held[0].abort()
    expect(page.locator(".composer-error")).to_contain_text("The server cannot be reached. Try again")
    expect(page.locator("#toasts")).not_to_contain_text("Making a branch…")
    with page.expect_request("**/fork"):
        act(page, "one", "Fork from here", role="agent")
    held[-1].abort()
    expect(page.locator("#toasts")).not_to_contain_text("Making a branch…")
    assert len(keys) == 2
    assert len(set(keys)) == 1
    complaints.clear()


def test_a_fork_that_is_made_elsewhere_shows_by_itself(page: Page, open_browser, watched) -> None:
    begin(page, "echo", "here")
    heard(page, "here")
    settled(page)
    edit(page, "here", "there")
    page.get_by_role("link", name="Previous branch").click()
    heard(page, "here")
    elsewhere = open_browser().new_page()
    watched(elsewhere)
    elsewhere.goto(page.url)
    page.locator(".branches [rel=next]").focus()
    edit(elsewhere, "here", "everywhere")
    expect(page.locator(".branches")).to_contain_text("1/3")
    expect(page.locator(".branches [rel=next]")).to_be_focused()


def test_the_menu_is_gone_through_by_arrows_and_left_by_escape(page: Page) -> None:
    begin(page, "echo", "by keyboard")
    heard(page, "by keyboard")
    settled(page)
    more = page.locator(".from-agent").get_by_role("button", name="More")
    more.focus()
    page.keyboard.press("Enter")
    items = page.get_by_role("menuitem")
    expect(items.first).to_be_focused()
    expect(more).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("End")
    expect(items.last).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(items.first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(items.last).to_be_focused()
    page.keyboard.press("Escape")
    expect(items).to_have_count(0)
    expect(more).to_be_focused()
    expect(more).to_have_attribute("aria-expanded", "false")
    page.locator("#words").press("ArrowUp")
    expect(page.get_by_label("Your message")).to_have_value("by keyboard")
    expect(page.get_by_label("Your message")).to_be_focused()


@SIZES
def test_the_tree_is_a_picture_that_the_keyboard_walks(open_browser, watched, size) -> None:
    page: Page = open_browser(size).new_page()
    watched(page)
    begin(page, "echo", "root")
    heard(page, "root")
    settled(page)
    original = page.url
    edit(page, "root", "a branch")
    page.get_by_role("button", name="More about this session").press("Enter")
    expect(page.get_by_role("link", name="Branches")).to_be_focused()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Branches")
    expect(dialog.locator("a.tree-line")).to_have_count(2)
    expect(dialog.locator("a.tree-line[aria-current]")).to_be_focused()
    dialog.get_by_text("As a table").click()
    expect(dialog.get_by_role("table")).to_contain_text("another message")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="More about this session")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Branches")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.locator("a.tree-line[aria-current]")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(original)
    heard(page, "root")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_what_opens(open_browser, scheme) -> None:
    page: Page = open_browser(color_scheme=scheme, bypass_csp=True).new_page()
    begin(page, "echo", "look at this")
    heard(page, "look at this")
    settled(page)
    edit(page, "look at this", "and at that")
    page.locator(".from-agent").get_by_role("button", name="More").click()
    assert found(page) == []
    page.keyboard.press("Escape")
    act(page, "and at that", "Edit")
    assert found(page) == []
    page.keyboard.press("Escape")
    for opener, name in (("link", "Branches"), ("button", "Share by a link…")):
        page.get_by_role("button", name="More about this session").click()
        page.get_by_role(opener, name=name).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert found(page) == [], name
        page.keyboard.press("Escape")


def found(page: Page) -> list[object]:
    violations = Axe().run(page, context={"exclude": [[".sidebar"]]}).response["violations"]
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in violations]
