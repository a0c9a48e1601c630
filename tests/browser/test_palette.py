"""Finding and going there from anywhere: sessions, what was said, agents, pages; a new session; the shortcuts."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from tests.browser.conftest import PHONE
from tests.browser.doing import begin, heard
from tests.browser.test_sidebar import live, session_of
from tests.faults.calling import Caller
from tests.stack import Stack


def chosen(page: Page) -> Locator:
    return page.locator("[role=option][aria-selected=true]")


def test_a_session_is_found_by_its_title_at_once_and_by_what_was_said(page: Page, complaints: list[str]) -> None:
    begin(page, "hello", "Zanzibar is a title")
    heard(page, "Zanzibar")
    key = session_of(page)
    page.goto("/agents")
    live(page)
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search sessions, messages and agents")
    expect(field).to_be_focused()
    expect(chosen(page)).to_have_count(1)
    page.wait_for_load_state("networkidle")  # until the browser knows all sessions
    page.context.set_offline(True)
    page.keyboard.type("title zanz")
    expect(chosen(page)).to_contain_text("Zanzibar is a title")
    expect(page.locator(".palette-state")).to_have_text(
        "The server cannot be reached. Only what this browser knows is listed."
    )
    page.context.set_offline(False)
    complaints.clear()
    field.fill("zanzi")
    said = page.locator("[role=group][aria-label='Said and delivered'] [role=option]")
    expect(said.first.locator("mark").first).to_have_text(re.compile("zanzibar", re.IGNORECASE))
    options = page.locator(".palette [role=option]")
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    expect(field).to_have_attribute("aria-activedescendant", str(options.last.get_attribute("id")))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/sessions/{key}#m-\d+$"))


def test_what_is_typed_before_its_script_is_there_is_looked_for(page: Page) -> None:
    held: list[Route] = []
    page.route("**/js/palette.*.js", lambda route: held.append(route))
    page.goto("/agents")
    live(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("credent")
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    expect(chosen(page)).to_contain_text("Credentials")
    page.keyboard.press("Escape")
    expect(page.locator("dialog.palette")).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search sessions, messages and agents")).to_have_value("")


def test_without_its_script_the_agents_are_listed_on_their_page(page: Page, complaints: list[str]) -> None:
    page.route("**/js/palette.*.js", lambda route: route.abort())
    page.goto("/inbox")
    live(page)
    page.locator(".sidebar [data-open=new]").press("Enter")
    page.wait_for_url("**/agents")
    expect(page.locator("dialog.palette")).to_be_hidden()
    complaints.clear()


def test_it_says_that_there_is_nothing_and_gives_the_focus_back(page: Page) -> None:
    page.goto("/agents")
    live(page)
    page.get_by_role("button", name="Search").first.focus()
    page.keyboard.press("Enter")
    page.keyboard.type("qxqxqxq")
    expect(page.locator(".palette-state")).to_have_text("Nothing found. Try other words.")
    expect(page.locator(".palette [role=option]")).to_have_count(0)
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator("dialog.palette")).to_be_hidden()
    expect(page.locator(".sidebar [data-open=palette]")).to_be_focused()


def test_pages_are_found_too(page: Page) -> None:
    page.goto("/agents")
    live(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("credent")
    expect(chosen(page)).to_contain_text("Credentials")
    page.keyboard.press("Enter")
    page.wait_for_url("**/credentials/")


def test_what_an_agent_says_stays_text(page: Page, parley: Stack) -> None:
    Caller(parley, "echo").send("<img src=x onerror=alert(1)> quokka")
    page.goto("/agents")
    live(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("quokka")
    expect(page.locator("[role=group][aria-label='Said and delivered'] [role=option]").first).to_contain_text(
        "<img src=x"
    )
    assert page.locator("dialog.palette img").count() == 0


def test_a_new_session_is_with_whom_its_skill_says(page: Page) -> None:
    page.goto("/credentials/")
    live(page)
    page.keyboard.press("Control+Shift+O")
    page.get_by_role("combobox", name="Who do you want to write to, or what for?").fill("statistics of a csv table")
    expect(chosen(page)).to_contain_text("Report")
    expect(chosen(page)).to_contain_text("Well")
    page.keyboard.press("Enter")
    page.wait_for_url("**/agents/report")


def test_the_shortcuts_are_listed_for_whoever_asks(
    page: Page, open_browser: Callable[..., BrowserContext], watched: Callable[[Page], list[str]]
) -> None:
    page.goto("/agents")
    live(page)
    page.keyboard.press("Control+/")
    listed = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(listed).to_contain_text("Ctrl+K")
    expect(listed).to_contain_text("Ctrl+Shift+O")
    page.keyboard.press("Escape")
    expect(listed).to_be_hidden()
    begin(page, "hello", "what can be done here")
    heard(page, "what can be done here")
    page.keyboard.press("Control+/")
    expect(listed).to_contain_text("Change what you said last")
    expect(listed).to_contain_text("Ctrl+Enter")
    page.keyboard.press("Escape")
    phone = open_browser(PHONE, has_touch=True, is_mobile=True).new_page()
    watched(phone)
    phone.goto("/")
    live(phone)
    phone.get_by_role("button", name="You", exact=True).tap()
    phone.get_by_role("button", name="Keyboard shortcuts").tap()
    shown = phone.get_by_role("dialog", name="Keyboard shortcuts")
    expect(shown).to_be_visible()
    shown.get_by_role("button", name="Close").tap()
    expect(shown).to_be_hidden()
