"""An agent asks for a key: the person gives it on a page of its own, and sees the task go on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, SESSION, WIDE
from tests.browser.doing import begin, heard, settled, take_back_credentials
from tests.browser.test_look import NAMELESS

SECRET = "k-5f1d2a90-secret"
SERVICE, BUTTON = "the calendar of the institute", "Give it, or decline"


@pytest.fixture(autouse=True)
def _nothing_is_given_yet(page: Page) -> None:
    take_back_credentials(page)


def asked(page: Page) -> None:
    begin(page, "calendar", "When am I free?")
    expect(page.get_by_role("link", name=BUTTON)).to_be_visible()


def test_a_key_is_given_by_keyboard_and_the_task_goes_on(page: Page) -> None:
    asked(page)
    button = page.get_by_role("link", name=BUTTON)
    expect(button).to_be_focused()
    expect(page.locator("#words")).to_be_disabled()
    expect(page.locator("#words")).to_have_attribute("placeholder", "Use the button above")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Calendar asks for an API key")).to_be_visible()
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(SECRET)
    page.keyboard.press("Enter")
    page.wait_for_url(SESSION)
    heard(page, f"I opened it with a key of {len(SECRET)} characters.")
    settled(page)
    expect(page.locator("#words")).to_be_enabled()
    expect(page.get_by_role("link", name=BUTTON)).to_have_count(0)
    assert SECRET not in page.content()


def test_who_watches_meanwhile_sees_it_go_on(page: Page, open_browser, watched) -> None:
    asked(page)
    other = open_browser(PHONE).new_page()
    watched(other)
    other.goto(page.url)
    other.get_by_role("link", name=BUTTON).click()
    other.get_by_label("API key").fill(SECRET)
    other.get_by_role("button", name="Give it to Calendar").click()
    heard(page, "I opened it with a key")
    expect(page.locator("#words")).to_be_enabled()


def test_who_declines_reads_what_became_of_it(page: Page) -> None:
    asked(page)
    page.get_by_role("link", name=BUTTON).click()
    page.get_by_role("button", name="I will not give this").click()
    page.wait_for_url(SESSION)
    heard(page, f"The credential for {SERVICE} was declined.")


def test_a_second_task_does_not_ask_and_what_was_given_is_taken_back(page: Page) -> None:
    asked(page)
    page.get_by_role("link", name=BUTTON).click()
    page.get_by_label("API key").fill(SECRET)
    page.keyboard.press("Enter")
    heard(page, "I opened it with a key")
    begin(page, "calendar", "And next week?")
    heard(page, "I opened it with a key")
    page.get_by_role("button", name="Demo").click()
    page.get_by_role("link", name="Credentials").click()
    page.get_by_role("button", name=f"Revoke {SERVICE} for Calendar").click()
    expect(page.get_by_text("You gave none.")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_pages_fit_and_everything_has_a_name(open_browser, watched, size, scheme, tmp_path) -> None:
    page = open_browser(size, color_scheme=scheme).new_page()
    watched(page)
    pictures = Path(os.environ.get("PICTURES", tmp_path))
    name = f"{size[0]}-{scheme}"
    asked(page)
    page.screenshot(path=pictures / f"{name}-session.png")
    session = page.url
    page.get_by_role("link", name=BUTTON).click()
    page.get_by_role("button", name="I will not give this").wait_for()
    page.screenshot(path=pictures / f"{name}-page.png")
    for address in (session, page.url, "/credentials/"):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
        assert page.evaluate(NAMELESS) == [], address
        expect(page.locator("h1")).to_have_count(1)
