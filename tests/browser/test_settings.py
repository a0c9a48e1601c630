"""What only a browser shows of the settings."""

from __future__ import annotations

import json
import shlex
import subprocess

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenBrowser
from tests.browser.doing import clipboard
from tests.browser.people import PASSWORD

DAY = """async () => {
  const { shortTime } = await import(document.querySelector("[href*='js/format']").href);
  return shortTime("2020-01-01T20:00Z");
}"""


def called(command: str) -> str:
    return subprocess.run(shlex.split(command), capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_key_made_in_the_settings_works_with_the_command_beside_it_until_it_is_revoked(
    page: Page, complaints: list[str]
) -> None:
    page.goto("/inbox")
    page.get_by_role("button", name="Ada", exact=True).press("Enter")
    page.get_by_role("link", name="Settings").press("Enter")
    page.get_by_role("link", name="API keys").press("Enter")
    page.get_by_label("Name").fill("laptop")
    page.get_by_label("Your password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Your password")).to_be_focused()
    complaints.clear()
    page.get_by_label("Your password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Copy your new key now")).to_be_focused()
    page.get_by_role("button", name="Copy the command").click()
    command = clipboard(page)
    assert json.loads(called(command))["items"]

    page.get_by_role("link", name="Revoke laptop").click()
    page.get_by_role("button", name="Revoke key").click()
    expect(page.get_by_role("status").filter(has_text="laptop")).to_be_visible()
    assert json.loads(called(command))["status"] == 401

    # The samples of an agent's page
    page.goto("/agents/echo")
    page.get_by_text("Create a key for this").click()
    page.get_by_label("Your password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator(".samples .saved")).to_be_focused()
    page.get_by_role("button", name="Copy the sample for curl").click()
    assert "result" in json.loads(called(clipboard(page).replace("\\\n", "")))


def test_a_chosen_theme_and_time_zone_are_there_on_other_devices_before_anything_is_drawn(
    open_browser: OpenBrowser, complaints: list[str]
) -> None:
    """A page that a browser kept from before does not bring the old theme back."""
    first = open_browser(timezone_id="Europe/Oslo", color_scheme="light").new_page()
    other = open_browser(timezone_id="Europe/Oslo", color_scheme="light").new_page()
    first.goto("/settings/appearance")
    kept = first.content()
    first.get_by_label("Dark").check()
    first.get_by_role("button", name="Save").click()
    expect(first.get_by_role("status").filter(has_text="Saved")).to_be_visible()
    first.goto("/settings/profile")
    first.get_by_label("Time zone").select_option("Asia/Tokyo")
    first.get_by_role("button", name="Save").click()
    expect(first.get_by_role("status").filter(has_text="Saved")).to_be_visible()

    other.add_init_script("""new MutationObserver((_, watch) => {
      if (document.body) watch.disconnect(globalThis.begins = getComputedStyle(document.documentElement).colorScheme);
    }).observe(document, { childList: true, subtree: true })""")
    other.goto("/inbox")
    assert other.evaluate("begins") == "dark"
    assert "2" in other.evaluate(DAY).split(",")[0], "it is the next day in Tokyo"
    first.route("**/inbox", lambda route: route.fulfill(body=kept, content_type="text/html"))
    first.goto("/inbox")
    assert first.evaluate("document.documentElement.dataset.theme") == "dark"
    complaints.clear()  # a page that no server sent may not connect
