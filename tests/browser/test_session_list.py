"""What people do with their list of sessions: name, pin, put away, delete; by keyboard, by touch, in two tabs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.conftest import PATIENCE, PHONE, sign_in
from tests.browser.doing import begin, heard
from tests.browser.test_sidebar import entry, live, session_of
from tests.faults.calling import Caller
from tests.stack import Stack


@pytest.fixture
def calls(parley: Stack) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {parley.demo_key}"}
    with httpx.Client(base_url=f"{parley.url}/api/v1", headers=headers) as client:
        yield client


@pytest.fixture
def session(parley: Stack) -> Callable[[str], str]:
    """A session that Echo has answered in, begun elsewhere."""
    return lambda words: str(Caller(parley, "echo").send(words)["contextId"])


def row(page: Page, session: str) -> Locator:
    return page.locator(f".recent [data-key='{session}']")


def more(page: Page, session: str) -> Locator:
    return row(page, session).locator("[data-more]")


def choose(page: Page, session: str, name: str) -> None:
    row(page, session).hover()
    more(page, session).click()
    page.get_by_role("menuitem", name=name, exact=True).click()


def state_of(calls: httpx.Client, session: str) -> Any:
    answer = calls.get(f"/sessions/{session}?include=tasks")
    return answer.json()["session"] if answer.status_code == 200 else None


def test_a_session_is_named_and_pinned_by_keyboard_alone(
    page: Page, session: Callable[[str], str], calls: httpx.Client
) -> None:
    key, _ = session("The first name"), session("A younger one")
    page.goto("/agents")
    live(page)
    other = page.context.new_page()
    other.goto("/agents")
    live(other)
    entry(page, key).focus()
    page.keyboard.press("Tab")
    expect(more(page, key)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    page.keyboard.press("Escape")
    expect(more(page, key)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    page.keyboard.press("Enter")
    field = page.get_by_label("Name of the session")
    expect(field).to_be_focused()
    field.fill("Not this")
    page.keyboard.press("Escape")
    expect(entry(page, key)).to_be_focused()
    expect(entry(page, key)).to_contain_text("The first name")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    page.keyboard.press("Enter")
    field.fill("A second name")
    page.keyboard.press("Enter")
    expect(entry(page, key)).to_be_focused()
    expect(entry(other, key)).to_contain_text("A second name")
    assert state_of(calls, key)["title"] == "A second name"

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Pin", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    for tab in (page, other):
        expect(tab.locator(".recent h2").first).to_have_text("Pinned")
        expect(tab.locator(".recent [data-session]").first).to_have_attribute("data-session", key)
    expect(more(page, key)).to_be_focused()
    choose(page, key, "Unpin")
    expect(other.locator(".recent h2").first).to_have_text("Today")


def test_what_is_deleted_can_be_taken_back_also_on_the_next_page(
    page: Page, session: Callable[[str], str], calls: httpx.Client
) -> None:
    neighbour, key = session("Stays"), session("Goes")
    page.goto("/agents")
    live(page)
    other = page.context.new_page()
    other.goto("/agents")
    live(other)
    choose(page, key, "Delete")
    expect(entry(page, neighbour)).to_be_focused()
    for tab in (page, other):
        expect(entry(tab, key)).to_have_count(0)
    deleted = page.locator(".toast", has_text="deleted")  # that it is done may be told beside that
    deleted.hover()
    assert state_of(calls, key), "it is not deleted while that can be taken back"
    page.goto("/credentials/")
    deleted.hover()  # it stays as long as one is there
    expect(entry(page, key)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    for tab in (page, other):
        expect(entry(tab, key)).to_be_visible()

    choose(page, key, "Delete")
    expect(entry(page, key)).to_have_count(0)
    page.keyboard.press("Control+z")
    expect(entry(page, key)).to_be_visible()
    assert state_of(calls, key)

    choose(page, key, "Delete")
    page.mouse.move(700, 600)  # away from the toast
    with page.expect_response(lambda answer: answer.request.method == "DELETE", timeout=3 * PATIENCE) as deleted:
        expect(page.locator(".toast")).to_contain_text("“Goes” is deleted.")
    assert deleted.value.status == 204
    assert state_of(calls, key) is None
    expect(entry(other, key)).to_have_count(0)
    expect(page.locator(".toast")).to_have_count(0)


def test_what_was_left_to_be_deleted_is_deleted_by_the_next_page(
    page: Page, complaints: list[str], session: Callable[[str], str], calls: httpx.Client
) -> None:
    key = session("Left behind")
    page.goto("/agents")
    live(page)
    choose(page, key, "Delete")
    page.goto("/healthz")  # no page of ours
    page.evaluate(
        """() => {
            const key = Object.keys(localStorage).find((name) => name.startsWith('parley.deleting.'));
            const kept = JSON.parse(localStorage[key]);
            for (const one of Object.values(kept)) one.until = 0;
            localStorage[key] = JSON.stringify(kept);
        }"""
    )
    with page.expect_response(lambda answer: answer.request.method == "DELETE"):
        page.goto("/agents")
    assert state_of(calls, key) is None
    complaints.clear()  # /healthz has no icon


def test_what_was_put_away_is_brought_back_with_the_finger(
    open_browser: Callable[..., BrowserContext], watched: Callable[[Page], list[str]], session: Callable[[str], str]
) -> None:
    key = session("To be put away")
    page = open_browser(PHONE, has_touch=True, is_mobile=True).new_page()
    watched(page)
    page.goto("/")
    live(page)
    in_list = page.locator(f"#sessions [data-key='{key}']")
    in_list.locator("[data-more]").tap()
    page.get_by_role("menuitem", name="Archive").tap()
    expect(in_list).to_have_count(0)
    page.locator(".toast").get_by_role("button", name="Undo").tap()
    expect(in_list).to_be_visible()
    in_list.locator("[data-more]").tap()
    page.get_by_role("menuitem", name="Archive").tap()
    page.get_by_role("link", name="Archived").tap()
    expect(in_list).to_be_visible()
    in_list.locator("[data-more]").tap()
    expect(page.get_by_role("menuitem", name="Pin")).to_be_hidden()
    page.get_by_role("menuitem", name="Bring back").tap()
    expect(in_list).to_have_count(0)
    page.get_by_role("link", name="In use").tap()
    expect(in_list).to_be_visible()
    bar = page.get_by_role("navigation", name="Places")
    expect(bar.get_by_role("link", name="Sessions")).to_have_attribute("aria-current", "page")
    for link in bar.get_by_role("link").all():
        assert link.bounding_box()["height"] >= 44  # type: ignore[index]
    bar.get_by_role("link", name="New").tap()
    page.locator("[role=option][data-href='/agents/echo']").tap()
    page.wait_for_url("**/agents/echo")


def test_what_an_agent_says_is_new_in_every_tab_until_one_is_in_front_of_it(
    page: Page, session: Callable[[str], str], calls: httpx.Client
) -> None:
    page.goto("/agents")
    live(page)
    key = session("Something new")
    expect(entry(page, key).get_by_text("New", exact=True)).to_be_attached()
    reader = page.context.new_page()
    reader.goto(f"/sessions/{key}")
    heard(reader, "Something new")
    expect(entry(page, key).get_by_text("New", exact=True)).to_have_count(0)
    assert calls.put(f"/sessions/{key}/mark", json={}).json()["seen"] == state_of(calls, key)["revision"]


def test_the_focus_stays_in_a_list_that_is_drawn_again(page: Page, session: Callable[[str], str]) -> None:
    key = session("The focus is here")
    page.goto("/agents")
    live(page)
    entry(page, key).focus()
    for number in range(2):
        younger = session(f"It is pushed down {number}")
        expect(page.locator(".recent [data-session]").first).to_have_attribute("data-session", younger)
        expect(entry(page, key)).to_be_focused()


def test_the_session_in_front_is_marked_and_deleting_it_leads_to_the_list(page: Page, calls: httpx.Client) -> None:
    begin(page, "echo", "Delete me here")
    heard(page, "Delete me here")
    key = session_of(page)
    expect(entry(page, key)).to_have_attribute("aria-current", "page")
    choose(page, key, "Delete")
    page.wait_for_url(re.compile(r"/$"))
    expect(page.locator(".toast")).to_contain_text("Delete me here")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(f"#sessions [data-key='{key}']")).to_be_visible()
    assert state_of(calls, key)


def test_whoever_has_no_session_is_shown_what_to_try(
    chromium: Browser, parley: Stack, watched: Callable[[Page], list[str]]
) -> None:
    context = chromium.new_context(base_url=parley.url)
    page = context.new_page()
    watched(page)
    sign_in(page, parley, "new@example.org", parley.manage("create_user", "new@example.org").stdout.strip())
    live(page)
    expect(page.locator("[data-try]")).to_have_count(3)
    assert Axe().run(page).response["violations"] == []
    page.get_by_role("button", name="Write about the tides").press("Enter")
    page.wait_for_url("**/sessions/*")
    expect(page.locator("#items > .message").first).to_contain_text("Write about the tides")
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_around_a_page(
    open_browser: Callable[..., BrowserContext], session: Callable[[str], str], scheme: str
) -> None:
    key = session("To be looked at")
    page = open_browser(color_scheme=scheme, bypass_csp=True).new_page()
    page.goto("/")
    live(page)
    expect(row(page, key)).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    row(page, key).hover()
    more(page, key).click()
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    assert Axe().run(page).response["violations"] == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("looked")
    expect(page.locator(".palette-state")).to_contain_text("result")
    assert Axe().run(page).response["violations"] == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+/")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert Axe().run(page).response["violations"] == []
