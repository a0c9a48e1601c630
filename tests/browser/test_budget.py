"""Sessions load little of our own JavaScript. `tests/web/test_pages.py` measures all templates."""

from collections.abc import Callable

from playwright.sync_api import Page, Response, expect

from tests.browser.conftest import OpenBrowser
from tests.browser.doing import echoed, say, settled, until
from tests.browser.people import Person

MOST_BYTES = 83_000
MOST_BYTES_OF_A_VISIT = 138_000
AFTERWARDS = 800  # ms in which deferred loads count too
INLINE = """
  [...document.scripts].filter(({ src, type }) => !src && !type).reduce((sum, { text }) => sum + text.length, 0)
"""
WORDS = "# Rivers\n\nThey *run*.\n\n```python\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nand no more"


def loaded_by(page: Page, address: str, do: Callable[[Page], object] = lambda page: None) -> dict[str, int]:
    """The bytes of our scripts that the page loads by itself and for these actions."""
    answers: dict[str, Response] = {}

    def note(response: Response) -> None:
        if "/static/js/" in response.url:
            answers[response.url.split("/static/js/")[1]] = response

    page.on("response", note)
    page.goto(address)
    page.wait_for_timeout(AFTERWARDS)
    do(page)
    page.wait_for_timeout(AFTERWARDS)
    sizes = {name: len(answer.body()) for name, answer in answers.items()} | {"in the page": page.evaluate(INLINE)}
    page.remove_listener("response", note)
    return sizes


def open_file(page: Page) -> None:
    page.locator(".chip").first.click()
    expect(page.locator("#preview .signature")).to_be_visible()


def converse(page: Page) -> None:
    say(page, "And once more")
    expect(page.locator(".from-agent")).to_have_count(2)
    settled(page)


def test_pages_are_light(open_browser: OpenBrowser, page: Page, ada: Person) -> None:
    written = echoed(page, WORDS)
    filed, _ = ada.begin("filing", "file all")
    asked, _ = ada.begin("asking", "A trip")
    for session in (filed, asked):  # marking a session as seen loads more
        page.goto(f"/sessions/{session}")
        page.wait_for_timeout(AFTERWARDS)
    loaded = {place: loaded_by(page, place) for place in ("/", "/agents/echo/try", written, f"/sessions/{asked}")}
    loaded["a file"] = loaded_by(page, f"/sessions/{filed}", open_file)
    kept = open_browser(service_workers="allow").new_page()
    kept.goto(written)
    until(kept, "() => Boolean(navigator.serviceWorker.controller)")
    kept.goto(written)
    until(kept, "async () => Boolean(await caches.match(location.href))")
    kept.goto("about:blank")
    loaded["opened again"] = loaded_by(kept, written)
    assert kept.evaluate("performance.getEntriesByType('navigation')[0].workerStart") > 0
    assert {name: sizes for name, sizes in loaded.items() if not 0 < sum(sizes.values()) < MOST_BYTES} == {}
    visit = loaded_by(page, written, converse)
    assert sum(visit.values()) < MOST_BYTES_OF_A_VISIT, visit
