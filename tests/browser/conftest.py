"""A real browser at a real server, with a new person for each journey.

A journey fails if a script throws or the browser complains, unless the test clears `complaints`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, expect, sync_playwright

from tests import stack
from tests.browser import agents, hostile, people, standins
from tests.chromium import CHROMIUM, WHOLE

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--renderer-process-limit=1")  # no spare renderer process
PATIENCE = 60_000  # milliseconds, for a busy machine
WIDE, PHONE = (1440, 900), (390, 844)
MOST_PEOPLE = 45

OpenBrowser = Callable[..., BrowserContext]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def server():
    """A Parley that may call itself as a remote agent, with quotas for fast tests."""
    quotas = {"ACTS_PER_MINUTE": "1000", "FORKS_PER_MINUTE": "1000"}
    with stack.running(OUTBOUND_ALLOW="127.0.0.1", SLACK_API_URL=standins.SLACK_API_URL, **quotas) as running:
        yield running


@pytest.fixture(scope="package")
def chromium():
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def whole_chromium(chromium):
    """With a PDF viewer, which the headless shell lacks."""
    if WHOLE is None:
        pytest.skip("the headless shell has no viewer for PDF: apt-get install chromium")
    browser = chromium.browser_type.launch(executable_path=WHOLE, args=ARGUMENTS)
    yield browser
    browser.close()


PLACES = {one.__name__.lower(): f"{one.__module__}:{one.__name__}" for one in (*agents.ALL, hostile.Hostile)}
REGISTER = f"""
from io import StringIO
from django.core.management import call_command
from apps.agents.models import Agent
for slug, place in {PLACES}.items():
    call_command("register_agent", slug, handler=place, stdout=StringIO())
Agent.objects.filter(slug__in=["storyteller", "hostile"]).update(keep_thoughts=True)
Agent.objects.filter(slug__in=["asking", "filing"]).update(sign_artifacts=True)
"""


@pytest.fixture(scope="package")
def everybody(server):
    return list(people.make(server, MOST_PEOPLE, REGISTER))


@pytest.fixture(scope="package")
def parley(server, everybody):
    """With the agents of these tests."""
    return server


@pytest.fixture
def ada(everybody):
    return everybody.pop(0)


@pytest.fixture
def operator(everybody):
    return everybody[-1]


NO_COMPLAINTS = (
    "blocked by Playwright",
    "WebSocket is closed before the connection is established",  # pages that are left early cause this
    "ERR_INTERNET_DISCONNECTED",  # a journey that goes offline causes this, and hears of it later
    "401 (Unauthorized)",  # a page asks while its person signs out, and is answered after it
)


@pytest.fixture
def complaints():
    """Browser complaints so far; a journey that causes errors on purpose clears it."""
    heard: list[str] = []
    yield heard
    assert heard == []


@pytest.fixture
def open_browser(chromium, parley, ada, complaints):
    """Opens a window of this size with Ada signed in; no service worker by default."""
    contexts = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(said in message.text for said in NO_COMPLAINTS):
            complaints.append(message.text)

    def opened(size: tuple[int, int] = WIDE, *, of: Browser = chromium, **options: Any) -> BrowserContext:
        viewport = {"width": size[0], "height": size[1]}
        kept = {"storage_state": ada.state, "service_workers": "block"}
        context = of.new_context(**{**kept, "base_url": parley.url, "viewport": viewport, **options})
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.on("console", note)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        return context

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_browser):
    """Ada's page on a wide screen, with clipboard permission."""
    return open_browser(permissions=["clipboard-read", "clipboard-write"]).new_page()


@pytest.fixture
def go(tmp_path):
    """The file that an agent waits for: `go.touch()` lets it continue."""
    return tmp_path / "go"


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "depths.csv"
    rows = (
        f"{'ABC'[number % 3]},{number * 1.5},{'' if number % 10 == 0 else 20 - number / 10}" for number in range(90)
    )
    path.write_text("site,depth,temperature\n" + "\n".join(rows) + "\n")
    return path
