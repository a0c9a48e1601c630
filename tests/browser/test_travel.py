"""From a wish to an itinerary: questions, a key, and a plan, as a person meets them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, SESSION, WIDE
from tests.browser.doing import begin, heard, say, settled, take_back_credentials

KEY = "k-made-up-for-a-trip"
GIVE = "Give it, or decline"


@pytest.fixture(autouse=True)
def _nothing_is_given_yet(page: Page) -> None:
    take_back_credentials(page)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_trip_is_asked_for_paid_for_and_planned(open_browser, watched, size, tmp_path) -> None:
    page = open_browser(size).new_page()
    watched(page)
    pictures = Path(os.environ.get("PICTURES", tmp_path))

    def picture(name: str) -> None:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        page.screenshot(path=pictures / f"travel-{size[0]}-{name}.png")

    page.goto("/")
    picture("home")
    begin(page, "travel", "I want to go away")
    heard(page, "Where would you like to go?")
    picture("question")
    page.get_by_label("Destination").fill("Lisbon")
    page.keyboard.press("Enter")
    heard(page, "When would you like to be in Lisbon?")
    page.get_by_label("Date").fill("2020-01-01")
    page.keyboard.press("Enter")
    heard(page, "1 January 2020 is over.")
    page.get_by_label("Date").last.fill("2027-05-03")
    page.keyboard.press("Enter")
    heard(page, "How many of you will travel?")
    picture("number")
    page.get_by_label("Travellers").fill("2")
    page.keyboard.press("Enter")
    heard(page, "Three days in Lisbon for 2 travellers, from Monday, 3 May 2027.")
    picture("payment")
    page.get_by_role("link", name=GIVE).click()
    expect(page.get_by_text("This is a demonstration")).to_be_visible()
    picture("key")
    page.get_by_label("API key").fill(KEY)
    page.keyboard.press("Enter")
    page.wait_for_url(SESSION)
    heard(page, "It would be paid with your key. This is a demonstration")
    settled(page)
    plan = page.locator("#items").get_by_role("button", name="itinerary.md")
    expect(plan).to_be_visible()
    picture("plan")
    plan.click()
    expect(page.get_by_role("heading", name="Three days in Lisbon")).to_be_visible()
    picture("itinerary")
    assert KEY not in page.content()


def test_who_declines_goes_on_without_payment(page: Page) -> None:
    begin(page, "travel", "Two of us to Lisbon tomorrow")
    page.get_by_role("link", name=GIVE).click()
    page.get_by_role("button", name="I will not give this").click()
    page.wait_for_url(SESSION)
    heard(page, "The credential for payments was declined.")
    say(page, "without payment")
    heard(page, "You would pay when you travel.")
    settled(page)
