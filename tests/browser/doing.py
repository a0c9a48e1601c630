"""Actions on a page."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, Route, expect

SESSION = re.compile(r"/sessions/[0-9a-f-]{36}$")
FITS = "document.documentElement.scrollWidth <= innerWidth"


def begin(page: Page, agent: str, words: str, *files: Path) -> str:
    page.goto(f"/agents/{agent}")
    if files:
        page.locator("#files").set_input_files(files)
    page.locator("#words").fill(words)
    page.keyboard.press("Enter")
    page.wait_for_url(SESSION)
    return page.url


def say(page: Page, words: str) -> None:
    page.locator("#words").fill(words)
    page.wait_for_load_state()  # of a page that signing in has led to
    page.locator("#words").press("Enter")


def messages(page: Page) -> Locator:
    return page.locator("#items > .message")


def heard(page: Page, words: str) -> Locator:
    message = page.locator(".from-agent .prose", has_text=words).last
    expect(message).to_be_visible()
    return message


def settled(page: Page) -> None:
    """Wait until nothing runs or waits."""
    expect(page.locator("#head-state")).to_have_text("")
    expect(page.locator(".pending")).to_have_count(0)


def echoed(page: Page, words: str, agent: str = "echo") -> str:
    address = begin(page, agent, words)
    heard(page, words.split("\n")[-1])
    settled(page)
    return address


def stop(page: Page) -> None:
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def artifact(page: Page, name: str) -> Locator:
    return page.locator(".artifact", has_text=name)


def act(page: Page, words: str, name: str, *, role: str = "user") -> None:
    one = page.locator(f".from-{role}").filter(has=page.locator(".prose", has_text=words)).last
    if name in ("Edit", "Try again"):  # these are at the message itself
        one.get_by_role("button", name=name).click()
        return
    one.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name=name).click()


def elsewhere(page: Page, left: str) -> str:
    page.wait_for_url(lambda address: address != left and bool(SESSION.search(address)))
    return page.url


def of_session(page: Page, name: str, role: Any = "button") -> None:
    page.get_by_role("button", name="More about this session").click()
    page.locator("#session-menu").get_by_role(role, name=name).click()


def entry(page: Page, session: str) -> Locator:
    return page.locator(f".recent [data-session='{session}']")


def live(page: Page) -> None:
    """Wait until the page's live connection is open."""
    expect(page.locator(".sidebar")).to_have_attribute("data-line", "live")


def session_of(page: Page) -> str:
    return page.url.rsplit("/", 1)[1]


def clipboard(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def sign_in(page: Page, email: str, password: str) -> None:
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")


def sign_out(page: Page) -> None:
    page.locator(".sidebar-foot [popovertarget=account]").click()
    page.get_by_role("button", name="Sign out", exact=True).click()
    page.wait_for_url(re.compile("/sign-in"))


def until(page: Page, true: str, arg: Any = None) -> None:
    """Wait until a function in the page returns true. The CSP forbids Playwright's own wait."""
    wait(page, lambda: page.evaluate(true, arg), true)


def wait(page: Page, holds: Callable[[], object], what: str = "") -> None:
    """Wait for a condition outside the page."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, what
        page.wait_for_timeout(50)


class Held:
    """Holds a page's requests to an address, optionally of one method, until they are released."""

    def __init__(self, page: Page, address: str, method: str = "") -> None:
        self.page, self.address, self.routes = page, address, list[Route]()
        self._passes = False

        def note(route: Route) -> None:
            if self._passes or (method and route.request.method != method):
                route.continue_()
            else:
                self.routes.append(route)

        page.route(address, note)

    def wait(self) -> None:
        wait(self.page, lambda: self.routes, self.address)

    def let_go(self) -> None:
        """Release the held requests, at least one, and all later ones."""
        self.wait()
        self._passes = True
        for route in self.routes:
            route.continue_()
        self.routes.clear()
