"""What is said while an agent works waits above the composer, and can be changed, deleted and sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.conftest import PHONE, WIDE
from tests.browser.doing import begin, heard, say, settled
from tests.browser.test_branches import act
from tests.stack import Stack


def waiting(page: Page) -> Locator:
    return page.locator("#queue li[data-id]")


def row(page: Page, words: str) -> Locator:
    return waiting(page).filter(has_text=words)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file that goes to the server in pieces."""
    path = tmp_path / "large.txt"
    path.write_bytes(b"0123456789abcde\n" * 131_072)
    return path


def working(page: Page, seconds: int = 60) -> None:
    begin(page, "long", f"{seconds} the first")
    expect(page.get_by_role("button", name="Send now")).to_be_visible()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_messages_wait_are_changed_deleted_and_sent(
    open_browser: Callable[..., BrowserContext], watched: Callable[[Page], list[str]], size: tuple[int, int], csv: Path
) -> None:
    page = open_browser(size).new_page()
    watched(page)
    working(page)
    say(page, "0 the second")
    page.locator("#files").set_input_files([csv])
    say(page, "0 the third")
    say(page, "0 the fourth")
    expect(waiting(page).locator(".queue-text [dir]")).to_have_text(["0 the second", "0 the third", "0 the fourth"])
    expect(page.locator("#words")).to_have_value("")
    expect(row(page, "0 the third")).to_contain_text("depths.csv")
    expect(page.locator(".queue-head")).to_have_text("Sent when Long is done")

    # Another tab, and this one after a reload
    other = page.context.new_page()
    watched(other)
    other.goto(page.url)
    expect(waiting(other)).to_have_count(3)

    # Changed by keyboard alone
    row(page, "0 the second").get_by_role("button", name="Edit").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("0 the changed")
    page.keyboard.press("Escape")
    expect(row(page, "0 the second").get_by_role("button", name="Edit")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("0 the changed")
    page.keyboard.press("Enter")
    expect(row(page, "0 the changed").get_by_role("button", name="Edit")).to_be_focused()
    expect(row(other, "0 the changed")).to_be_visible()

    # Deleted, and taken back
    row(page, "0 the fourth").get_by_role("button", name="Delete").click()
    expect(waiting(page)).to_have_count(2)
    expect(row(page, "0 the third").get_by_role("button", name="Delete")).to_be_focused()
    expect(waiting(other)).to_have_count(2)  # what is put back is another one
    page.get_by_role("button", name="Undo").click()
    expect(waiting(page)).to_have_count(3)
    expect(waiting(other)).to_have_count(3)
    row(other, "0 the fourth").get_by_role("button", name="Delete").click()
    expect(waiting(page)).to_have_count(2)
    assert Axe().run(page, context="main").response["violations"] == []

    # Stopped: the person decides. Then the rest goes by itself.
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".queue-head")).to_contain_text("You stopped the work")
    page.reload()
    expect(waiting(page)).to_have_count(2)
    row(page, "0 the changed").get_by_role("button", name="Send now").click()
    heard(page, "Done with the changed.")
    heard(page, "Done with the third.")
    expect(waiting(page)).to_have_count(0)
    expect(waiting(other)).to_have_count(0)
    expect(page.locator(".from-user", has_text="the third")).to_contain_text("depths.csv")
    expect(page.locator(".from-user")).to_have_count(3)


def test_it_is_sent_when_the_tab_is_closed(page: Page) -> None:
    working(page, seconds=4)
    say(page, "0 the second")
    expect(waiting(page)).to_have_count(1)
    address = page.url
    page.goto("about:blank")
    other = page.context.new_page()
    other.goto(address)
    heard(other, "Done with the second.")
    expect(waiting(other)).to_have_count(0)


def test_send_now_says_it_into_the_work(page: Page) -> None:
    working(page, seconds=4)
    page.locator("#words").fill("0 the urgent")
    page.get_by_role("button", name="Send now").click()
    expect(page.locator(".from-user", has_text="the urgent")).to_be_visible()
    expect(waiting(page)).to_have_count(0)
    page.locator("#words").fill("0 the more urgent")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".from-user", has_text="the more urgent")).to_be_visible()
    heard(page, "Done with the more urgent.")
    expect(page.locator(".from-user")).to_have_count(3)


def test_what_the_server_refuses_comes_back(page: Page, complaints: list[str]) -> None:
    working(page)
    for number in range(20):
        say(page, f"0 number {number}")
        expect(waiting(page)).to_have_count(number + 1)
    say(page, "0 too much")
    expect(page.locator(".composer-error")).to_contain_text("20 messages wait already")
    expect(page.locator("#words")).to_have_value("0 too much")
    complaints.clear()
    page.get_by_role("button", name="Stop").click()


def test_a_large_file_waits_with_its_words_and_no_lost_line_loses_them(
    page: Page, large: Path, complaints: Any
) -> None:
    working(page)
    page.locator("#files").set_input_files(large)
    expect(page.get_by_role("progressbar")).to_be_hidden(timeout=60_000)  # all of it is there
    say(page, "0 with a file")
    expect(row(page, "0 with a file")).to_contain_text("large.txt")
    page.route("**/queue", lambda route: route.abort())
    say(page, "0 without a line")
    pending = page.locator("#queue li.pending", has_text="0 without a line")
    expect(pending).to_be_visible()
    page.reload()
    expect(pending).to_be_visible()
    page.unroute("**/queue")
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(waiting(page).locator(".queue-text [dir]")).to_have_text(["0 with a file", "0 without a line"])
    page.get_by_role("button", name="Stop").click()
    row(page, "0 with a file").get_by_role("button", name="Send now").click()
    heard(page, "Done with with a file.")
    heard(page, "Done with without a line.")
    expect(page.locator(".from-user", has_text="with a file")).to_contain_text("large.txt")
    expect(page.locator(".from-user", has_text="without a line")).to_have_count(1)
    complaints.clear()  # of the requests that were cut off


def test_what_is_sent_before_the_queue_has_its_script_waits_in_its_order(page: Page) -> None:
    working(page)
    assert not page.evaluate(
        "performance.getEntriesByType('resource').some(({name}) => name.includes('/session/queue.'))"
    )
    held = []
    page.route("**/js/session/queue.*", lambda route: held.append(route))
    say(page, "0 the second")
    say(page, "0 the third")
    expect(page.locator("#words")).to_have_value("")
    until_held(page, held)
    for route in held:
        route.continue_()
    expect(waiting(page).locator(".queue-text [dir]")).to_have_text(["0 the second", "0 the third"])
    page.get_by_role("button", name="Stop").click()


def until_held(page: Page, held: list[Any]) -> None:
    while not held:
        page.wait_for_timeout(50)


def test_the_focus_stays_where_somebody_deletes_elsewhere(page: Page, complaints: list[str]) -> None:
    working(page)
    say(page, "0 the second")
    say(page, "0 the third")
    expect(waiting(page)).to_have_count(2)
    other = page.context.new_page()
    other.goto(page.url)
    row(other, "0 the third").get_by_role("button", name="Delete").focus()
    row(page, "0 the second").get_by_role("button", name="Delete").click()
    expect(waiting(other)).to_have_count(1)
    expect(row(other, "0 the third").get_by_role("button", name="Delete")).to_be_focused()
    row(page, "0 the third").get_by_role("button", name="Delete").click()
    expect(waiting(other)).to_have_count(0)
    expect(other.locator("#words")).to_be_focused()
    page.get_by_role("button", name="Stop").click()


def test_what_is_changed_is_there_again_until_it_is_saved_or_cancelled(page: Page) -> None:
    working(page)
    say(page, "0 the second")
    edit = row(page, "0 the second").get_by_role("button", name="Edit")
    words = page.get_by_label("Message that waits")
    edit.click()
    words.fill("0 another")
    words.press("Escape")
    expect(row(page, "0 the second")).to_be_visible()
    edit.click()
    expect(words).to_have_value("0 another")
    page.reload()
    edit.click()
    expect(words).to_have_value("0 another")
    waiting(page).get_by_role("button", name="Cancel").click()
    edit.click()
    expect(words).to_have_value("0 the second")
    words.fill("0 at last")
    words.press("Enter")
    expect(row(page, "0 at last")).to_be_visible()
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('draft:queued:'))") == []
    page.get_by_role("button", name="Stop").click()


@pytest.mark.parametrize("name", ["Delete", "Send now"])
def test_what_is_pressed_twice_is_done_once(page: Page, name: str) -> None:
    working(page)
    say(page, "0 the second")
    expect(waiting(page)).to_have_count(1)
    waiting(page).get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Message that waits")).to_be_focused()  # the queue has its script
    page.keyboard.press("Escape")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method) if "/queue/" in request.url else None)
    waiting(page).get_by_role("button", name=name).evaluate("(button) => { button.click(); button.click(); }")
    expect(waiting(page)).to_have_count(0)
    expect(page.locator("#words")).to_be_focused()
    expect(page.locator(".composer-error")).to_be_hidden()
    assert [method for method in asked if method != "GET"] == ["DELETE" if name == "Delete" else "POST"]
    page.get_by_role("button", name="Stop").click()


def test_what_is_gone_already_is_deleted_without_a_complaint(page: Page, parley: Stack, complaints: list[str]) -> None:
    working(page)
    say(page, "0 the second")
    expect(waiting(page)).to_have_count(1)
    session, message = page.url.rsplit("/", 1)[1], waiting(page).get_attribute("data-id")
    address = f"{parley.url}/api/v1/sessions/{session}/queue/{message}"
    assert httpx.delete(address, headers={"Authorization": f"Bearer {parley.demo_key}"}).status_code == 200
    waiting(page).get_by_role("button", name="Delete").click()
    expect(page.locator("#toasts")).to_contain_text("Deleted. It is not sent.")
    expect(waiting(page)).to_have_count(0)
    expect(page.locator(".composer-error")).to_be_hidden()
    page.get_by_role("button", name="Stop").click()
    complaints.clear()  # of what was not there


def test_what_was_deleted_comes_back_with_its_file_and_reference_in_its_place(
    page: Page, csv: Path, complaints: list[str]
) -> None:
    begin(page, "long", "0 before")
    heard(page, "Done with before.")
    settled(page)
    say(page, "60 the first")
    expect(page.get_by_role("button", name="Send now")).to_be_visible()
    act(page, "0 before", "Refer to this")
    page.locator("#files").set_input_files([csv])
    say(page, "0 the second")
    expect(waiting(page)).to_have_count(1)
    say(page, "0 the third")
    expect(waiting(page)).to_have_count(2)
    row(page, "0 the second").get_by_role("button", name="Delete").click()
    expect(waiting(page)).to_have_count(1)
    page.route("**/restore", lambda route: route.abort())
    page.get_by_role("button", name="Undo").click()
    lost = page.locator(".toast", has_text="The server cannot be reached.")
    expect(lost).to_be_visible()
    page.unroute_all()
    complaints.clear()  # of what was cut off
    lost.get_by_role("button", name="Undo").click()
    expect(waiting(page).locator(".queue-text [dir]")).to_have_text(["0 the second", "0 the third"])
    expect(page.locator("#words")).to_have_value("")
    expect(row(page, "0 the second")).to_contain_text("depths.csv")
    page.get_by_role("button", name="Stop").click()
    row(page, "0 the second").get_by_role("button", name="Send now").click()
    said = page.locator(".from-user", has_text="the second")
    expect(said).to_contain_text("depths.csv")
    expect(said.locator("a.chip", has_text="before")).to_be_visible()
