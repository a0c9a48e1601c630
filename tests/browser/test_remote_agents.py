"""A person adds a remote agent by its address and talks to it, in well under a minute."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import stack
from tests.browser.conftest import PHONE, SESSION, WIDE, sign_in
from tests.browser.doing import heard, say, settled
from tests.gateway.peers.starting import running
from tests.stack import Stack

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def open_parley() -> Iterator[Stack]:
    """A Parley that may call this machine."""
    with stack.running(OUTBOUND_ALLOW="127.0.0.1") as standing:
        yield standing


@pytest.fixture(scope="module")
def peer() -> Iterator[str]:
    """The SDK's own server."""
    with running("tests.gateway.peers.sdk_server") as url:
        yield url


@pytest.fixture(params=[(WIDE, "light"), (PHONE, "dark")], ids=["wide", "phone"])
def somebody(request, chromium: Browser, open_parley: Stack) -> Iterator[Page]:
    """Somebody who has just signed in; their page complains of nothing."""
    size, scheme = request.param
    viewport = {"width": size[0], "height": size[1]}
    context = chromium.new_context(base_url=open_parley.url, viewport=viewport, color_scheme=scheme)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    sign_in(page, open_parley)
    yield page
    assert complaints == []
    context.close()


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_by_its_address_in_under_a_minute(somebody: Page, peer: str, request) -> None:
    page, began = somebody, time.monotonic()
    page.goto("/agents")
    assert fits(page)
    page.get_by_role("link", name="Add a remote agent").click()
    page.get_by_label("Address").fill("http://10.1.2.3/")
    page.get_by_role("button", name="Look at it").click()
    expect(page.locator("#url-problem")).to_be_visible()
    assert fits(page)
    page.get_by_label("Address").fill(peer)
    page.get_by_role("button", name="Look at it").click()
    expect(page.get_by_text("Nothing was registered yet.")).to_be_visible()
    expect(page.locator(".facts")).to_contain_text("unsigned", ignore_case=True)
    assert fits(page)
    slug = f"peer-{request.node.callspec.id}"
    page.get_by_label("Short name").fill(slug)
    page.get_by_role("button", name="Register it").click()
    page.wait_for_url(f"**/agents/{slug}")
    assert fits(page)
    say(page, "message Hello to you")
    page.wait_for_url(SESSION)
    heard(page, "Hello to you")
    settled(page)
    assert time.monotonic() - began < 60
    page.goto("/agents?q=" + slug)
    card = page.locator(".agent-card", has=page.locator(f'a[href="/agents/{slug}"]'))
    expect(card).to_contain_text("Runs elsewhere")


@pytest.mark.parametrize(
    "asked", ["q=countdown", "tag=text", "health=ok", "mode=text/plain&q=echo", "q=nothing-has-this"]
)
def test_agents_are_found(somebody: Page, asked: str) -> None:
    somebody.goto(f"/agents?{asked}")
    expect(somebody.locator("#found-words")).to_contain_text("agent")
    assert fits(somebody)
