"""Pages have a size limit for our own JavaScript.

It includes scripts that the page loads by itself or for actions of the person.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, Response, expect

from tests.browser.conftest import OpenBrowser
from tests.browser.doing import begin, echoed, heard, say, settled, stop
from tests.browser.people import Person

MOST_BYTES = 91_000
MOST_BYTES_OF_A_VISIT = 145_000
INLINE = """
  [...document.scripts].filter(({ src, type }) => !src && !type).reduce((sum, { text }) => sum + text.length, 0)
"""
AFTERWARDS = 1000  # ms in which deferred loads count too
WORDS = "# Rivers\n\nThey *run*.\n\n```python\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nand no more"


def loaded_by(page: Page, address: str, do: Callable[[Page], object] | None = None) -> dict[str, int]:
    """The bytes of our scripts that the page loads by itself and for these actions."""
    answers: dict[str, Response] = {}

    def note(response: Response) -> None:
        if "/static/js/" in response.url:
            answers[response.url.split("/static/js/")[1]] = response

    page.on("response", note)
    page.goto(address)
    page.wait_for_timeout(AFTERWARDS)
    if do:
        do(page)
        page.wait_for_timeout(AFTERWARDS)
    sizes = {name: len(answer.body()) for name, answer in answers.items()} | {"in the page": page.evaluate(INLINE)}
    page.remove_listener("response", note)
    return sizes


def open_file(page: Page) -> None:
    page.locator(".chip").first.click()
    expect(page.locator("#preview .signature")).to_be_visible()


def open_tree(page: Page) -> None:
    page.locator("#session-more").click()
    page.locator("[data-act=tree]").click()
    expect(page.locator("dialog .tree")).to_be_visible()


def converse(page: Page) -> None:
    count = page.locator(".from-agent").count()
    say(page, "And once more")
    expect(page.locator(".from-agent")).to_have_count(count + 1)
    settled(page)


def test_pages_are_light(open_browser: OpenBrowser, page: Page, ada: Person, go: Path) -> None:
    heaviest: dict[str, tuple[int, list[tuple[str, int]]]] = {}

    def note(name: str, sizes: dict[str, int], most: int = MOST_BYTES) -> None:
        if not 0 < sum(sizes.values()) < most:
            heaviest[name] = sum(sizes.values()), sorted(sizes.items(), key=lambda one: -one[1])

    written = echoed(page, WORDS)
    story, task = ada.begin("storyteller", "Tell me a story")
    filed, _ = ada.begin("filing", "file all")
    asked, _ = ada.begin("asking", "A trip")
    for session in (story, filed, asked):  # marking a session as seen loads more
        page.goto(f"/sessions/{session}")
        page.wait_for_timeout(AFTERWARDS)
    talked = begin(page, "talking", "Go on")
    page.goto("/")
    places = (
        "/",
        "/agents",
        "/agents/echo",
        "/agents/echo/try",
        "/inbox",
        "/settings/notifications",
        f"/tasks/{task}",
        f"/sessions/{story}/replay",
    )
    for place in (*places, written, *(f"/sessions/{one}" for one in (story, filed, asked)), talked):
        note(place, loaded_by(page, place))
    heard(page, "and so")
    stop(page)
    settled(page)
    page.goto("about:blank")
    note("a file", loaded_by(page, f"/sessions/{filed}", open_file))
    note("a tree", loaded_by(page, f"/sessions/{story}", open_tree))
    note("a visit", loaded_by(page, written, converse), MOST_BYTES_OF_A_VISIT)
    worked = begin(page, "long", f"until {go}")
    expect(page.locator(".composer .stop")).to_be_visible()
    page.goto("about:blank")
    note("work", loaded_by(page, worked))
    say(page, "And this afterwards")
    expect(page.locator(".queue li[data-id]")).to_have_count(1)
    page.goto("about:blank")
    note("a queue", loaded_by(page, worked))
    go.touch()
    heard(page, "Done with And this afterwards.")

    kept = open_browser(service_workers="allow").new_page()
    for _ in range(2):  # the service worker is active from the second time on
        kept.goto(written)
        kept.wait_for_timeout(AFTERWARDS)
        kept.goto("about:blank")
    note("opened again", loaded_by(kept, written))
    assert kept.evaluate("performance.getEntriesByType('navigation')[0].workerStart") > 0
    assert heaviest == {}
