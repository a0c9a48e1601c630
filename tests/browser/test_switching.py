"""Going on with another agent: one choice in the head of a session, and every message says whose it is."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, WIDE
from tests.browser.doing import begin, heard, say, settled


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_session_goes_on_with_another_agent(open_browser, watched, size) -> None:
    page: Page = open_browser(size).new_page()
    watched(page)
    begin(page, "echo", "To the first")
    heard(page, "To the first")
    settled(page)
    page.get_by_role("button", name="Switch").click()
    choice = page.locator("#switch-to").get_by_role("button", name="Storyteller")
    expect(page.locator("#switch-to")).to_be_in_viewport(ratio=1)
    expect(page.locator("#switch-to [data-switch=echo]")).to_be_hidden()
    choice.press("Enter")
    expect(page.locator(".switched")).to_have_text("SFrom here on with Storyteller")
    expect(page.locator("#with")).to_have_text("with Storyteller")
    expect(page.locator("#words")).to_have_attribute("placeholder", "Message Storyteller…")
    expect(page.locator("#words")).to_be_focused()
    say(page, "Tell me a story")
    heard(page, "river")
    settled(page)
    for _ in range(2):  # as it happened, and as it is read later
        assert page.locator(".from-agent .who").all_text_contents() == ["Echo", "Storyteller"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.reload()
        heard(page, "river")
    expect(page.locator("#with")).to_have_attribute("href", "/agents/storyteller")


def test_the_other_agents_are_gone_through_by_arrows(page: Page) -> None:
    begin(page, "echo", "By keyboard")
    heard(page, "By keyboard")
    settled(page)
    opener, menu = page.get_by_role("button", name="Switch"), page.locator("#switch-to")
    offered = menu.locator("button:visible")
    opener.press("Enter")
    expect(offered.first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(offered.last).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(offered.nth(1)).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).not_to_be_visible()
    expect(opener).to_be_focused()
    opener.press("Enter")
    expect(offered.first).to_be_focused()
    chosen = offered.first.locator(".name").inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("#with")).to_have_text(f"with {chosen}")
    expect(page.locator("#words")).to_be_focused()
