"""A real browser in front of a real server: nothing here is pretended.

Every page fails its test when its script throws, when the browser refuses something by policy, or when an address of
ours answers with an error that the test did not expect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.browser import agents
from tests.chromium import CHROMIUM, WHOLE
from tests.stack import Stack

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--renderer-process-limit=1")  # a page needs no process in reserve
AGENTS = ("Storyteller", "Failing", "Asking", "Patient", "Calendar", "Long", "Interviewer")
PATIENCE = 45_000  # milliseconds, for a machine that does much else

WIDE, MEDIUM, PHONE = (1440, 900), (768, 1024), (390, 844)
LOOKS = pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide", "phone"])
SESSION = re.compile(r"/sessions/[0-9a-f-]{36}$")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def whole_chromium(chromium: Browser) -> Iterator[Browser]:
    """With a viewer for PDF, which the headless shell has not."""
    if WHOLE is None:
        pytest.skip("the headless shell has no viewer for PDF: apt-get install chromium")
    browser = chromium.browser_type.launch(executable_path=WHOLE, args=ARGUMENTS)
    yield browser
    browser.close()


@pytest.fixture(scope="package")
def parley(server: Stack) -> Stack:
    """The server, with agents that show what a page has to show."""
    place = agents.__name__
    register = [f"call_command('register_agent', '{name.lower()}', handler='{place}:{name}')" for name in AGENTS]
    begin = ["from django.core.management import call_command", "from apps.agents.models import Agent"]
    think = ["Agent.objects.filter(slug='storyteller').update(keep_thoughts=True)"]
    server.manage("shell", "-v0", "-c", "\n".join([*begin, *register, *think]))
    return server


@pytest.fixture(scope="package")
def signed_in(chromium: Browser, parley: Stack) -> Any:
    """The cookies of somebody who signed in."""
    context = chromium.new_context(base_url=parley.url)
    sign_in(context.new_page(), parley)
    state = context.storage_state()
    context.close()
    return state


def sign_in(page: Page, parley: Stack, email: str = "", password: str = "") -> None:
    """As the demo user, unless somebody else is named."""
    page.goto("/sign-in")
    page.get_by_label("E-mail").fill(email or parley.demo_email)
    page.get_by_label("Password").fill(password or parley.demo_password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{parley.url}/")


def sign_out(page: Page) -> None:
    page.locator(".sidebar-foot [popovertarget=account]").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(re.compile("/sign-in"))


@pytest.fixture
def open_browser(chromium: Browser, parley: Stack, signed_in: Any) -> Iterator[Callable[..., BrowserContext]]:
    """A browser window of a size, in which the demo user is signed in; without a service worker, unless allowed."""
    contexts = []

    def opened(size: tuple[int, int] = WIDE, **options: Any) -> BrowserContext:
        viewport = {"width": size[0], "height": size[1]}
        kept = {"storage_state": signed_in, "service_workers": "block"}
        options = {**kept, "base_url": parley.url, "viewport": viewport, **options}
        contexts.append(chromium.new_context(**options))
        contexts[-1].set_default_timeout(PATIENCE)
        return contexts[-1]

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def watched() -> Iterator[Callable[[Page], list[str]]]:
    """Watches pages for errors; a test removes those that it meant to cause."""
    complaints: list[str] = []

    def watch(page: Page) -> list[str]:
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.extend(_complaint(message)))
        return complaints

    yield watch
    assert complaints == []


NO_COMPLAINTS = (
    "blocked by Playwright",
    "WebSocket is closed before the connection is established",  # whoever leaves a page at once does that
)


def _complaint(message: ConsoleMessage) -> list[str]:
    is_ours = message.type in ("error", "warning") and not any(said in message.text for said in NO_COMPLAINTS)
    return [message.text] if is_ours else []


@pytest.fixture
def page(open_browser: Callable[..., BrowserContext], watched: Callable[[Page], list[str]]) -> Page:
    """A page of the demo user's on a wide screen."""
    page = open_browser().new_page()
    watched(page)
    return page


@pytest.fixture
def look(open_browser: Callable[..., BrowserContext], watched: Callable[[Page], list[str]]) -> Callable[..., Page]:
    """A page of a size and a scheme that complains of nothing."""

    def opened(size: tuple[int, int], scheme: str, **options: Any) -> Page:
        page = open_browser(size, color_scheme=scheme, **options).new_page()
        watched(page)
        return page

    return opened


@pytest.fixture
def complaints(page: Page, watched: Callable[[Page], list[str]]) -> list[str]:
    """What the page's browser complained of so far; a test that causes trouble on purpose clears it."""
    return watched(page)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "depths.csv"
    rows = (
        f"{'ABC'[number % 3]},{number * 1.5},{'' if number % 10 == 0 else 20 - number / 10}" for number in range(90)
    )
    path.write_text("site,depth,temperature\n" + "\n".join(rows) + "\n")
    return path
