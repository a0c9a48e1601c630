"""Choosing an agent: found while one types, looked at, and begun with by an example."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import LOOKS, SESSION, WIDE
from tests.browser.doing import begin, heard, settled, until

FRAME = [[".sidebar"], [".bottom-bar"]]  # which other tests look at


@LOOKS
def test_agents_are_found_while_one_types_and_the_address_is_kept(look, size, scheme) -> None:
    page = look(size, scheme)
    page.goto("/agents")
    cards = page.locator(".agent-card")
    everybody = cards.count()
    page.locator("#q").press_sequentially("countd")
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("Countdown")
    expect(page.get_by_role("status").first).to_contain_text("1 agent")
    expect(page.locator("#q")).to_be_focused()
    expect(page).to_have_url(re.compile(r"/agents\?q=countd$"))
    page.reload()
    expect(cards).to_have_count(1)
    expect(page.locator("#q")).to_have_value("countd")
    page.locator("#q").fill("nobody can do this")
    expect(page.locator(".nothing-yet")).to_contain_text("Try other words")
    page.get_by_role("link", name="Show all").click()
    expect(cards).to_have_count(everybody)
    page.get_by_text("Narrow down").click()
    page.get_by_label("Tag").select_option("countdown")
    expect(page).to_have_url(re.compile(r"/agents\?tag=countdown$"))
    expect(page.get_by_role("status").first).to_contain_text("1 agent")
    expect(cards.get_by_role("heading")).to_have_text(["Countdown"])


@LOOKS
def test_an_example_on_a_card_begins_a_session(look, size, scheme) -> None:
    page = look(size, scheme)
    page.goto("/agents?q=echo")
    card = page.locator(".agent-card", has=page.get_by_role("link", name="Echo", exact=True))
    card.get_by_role("link", name="Try").first.press("Enter")
    expect(page.locator("#words")).to_have_value("Anything at all")
    expect(page.locator("#words")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(SESSION)
    heard(page, "Anything at all")
    settled(page)
    page.goto("/agents/echo")
    page.get_by_role("button", name="Anything at all", exact=True).click()
    expect(page.locator("#words")).to_have_value("Anything at all")


def test_how_it_did_is_a_picture_and_a_table(page: Page) -> None:
    begin(page, "echo", "measure this")
    heard(page, "measure this")
    settled(page)
    page.goto("/agents?q=echo")
    expect(page.get_by_role("img", name="How long answers took").first).to_be_visible()
    page.goto("/agents/echo")
    expect(page.get_by_role("heading", name="How it does")).to_be_visible()
    page.get_by_text("As a table").press("Enter")
    expect(page.locator(".pace-table td").nth(1)).to_have_text(re.compile(r"\d m?s"))
    expect(page.get_by_role("link", name="measure this").last).to_have_attribute("href", SESSION)


def test_samples_and_addresses_are_copied_whole(look, parley) -> None:
    page = look(WIDE, "light", permissions=["clipboard-read", "clipboard-write"])
    page.goto("/agents/echo")
    page.get_by_role("button", name="Copy the address: JSON-RPC").click()
    expect(page.locator("#toasts")).to_contain_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == f"{parley.url}/a2a/echo"
    page.get_by_text("Python", exact=True).click()
    page.get_by_role("button", name="Copy the sample for Python").click()
    until(page, "async () => (await navigator.clipboard.readText()).startsWith('import asyncio')")


@LOOKS
def test_everything_is_reachable(open_browser, size, scheme) -> None:
    page = open_browser(size, color_scheme=scheme, bypass_csp=True).new_page()
    for address in ("/agents", "/agents?q=nobody-has-this", "/agents/echo", "/agents/remote/add", "/agents/echo/try"):
        page.goto(address)
        found = Axe().run(page, context={"exclude": FRAME}).response["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [], address
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight"), address
