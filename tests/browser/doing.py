"""What people do on a page, in their words."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import SESSION


def begin(page: Page, agent: str, words: str, *files: Path) -> None:
    """Open a session with an agent, from its page."""
    page.goto(f"/agents/{agent}")
    if files:
        page.locator("#files").set_input_files(files)
    page.locator("#words").fill(words)
    page.keyboard.press("Enter")
    page.wait_for_url(SESSION)


def say(page: Page, words: str) -> None:
    page.locator("#words").fill(words)
    page.locator("#words").press("Enter")


def messages(page: Page) -> Locator:
    return page.locator("#items > .message")


def heard(page: Page, words: str) -> Locator:
    """Wait until the agent said this."""
    message = page.locator(".from-agent .prose", has_text=words).last
    expect(message).to_be_visible()
    return message


def artifact(page: Page, name: str) -> Locator:
    return page.locator(".artifact", has_text=name)


def settled(page: Page) -> None:
    """Wait until nothing runs and nothing waits."""
    expect(page.locator("#head-state")).to_have_text("")
    expect(page.locator(".pending")).to_have_count(0)


def take_back_credentials(page: Page) -> None:
    """Revoke all that was given before."""
    page.goto("/credentials/")
    while page.get_by_role("button", name="Revoke").count():
        page.get_by_role("button", name="Revoke").first.click()
        page.wait_for_load_state()


def brought_anew(page: Page, times: int = 1) -> None:
    """Wait until how a task or a run stands was put into its page again."""
    for _ in range(times):
        page.locator("#standing").evaluate("element => { element.isOld = true; }")
        until(page, "() => !document.getElementById('standing').isOld")


def until(page: Page, true: str, arg: Any = None) -> None:
    """Wait until a function of the page's is true. The page's policy does not let it be asked in the page itself."""
    deadline = time.monotonic() + 60
    while not page.evaluate(true, arg):
        assert time.monotonic() < deadline, true
        page.wait_for_timeout(20)
