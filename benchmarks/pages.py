"""The session page in a browser: load time, size, and long tasks."""

from __future__ import annotations

import asyncio
import json
import statistics
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.figures import Figures
from benchmarks.scale import Scale
from benchmarks.target import Target
from tests.chromium import CHROMIUM

WORDS = "Some words of an answer. " * 40
WAIT = 60_000
VISITS = 5  # with a warm cache
ELSEWHERE = 1000  # ms between visits
AFTERWARDS = 2500  # ms in which deferred loads count
LOOK = 20  # ms between polls
# The first paint of a message's words: the first contentful paint, if the words were there by then, else Element
# Timing, which forgets elements that are replaced at once.
WATCH = """
  new PerformanceObserver((list) => (window.timed ??= list.getEntries()[0].renderTime)).observe({ type: "element" });
  new MutationObserver(() => {
    for (const words of document.querySelectorAll("#items > li p")) {
      window.there ??= performance.now();
      words.setAttribute("elementtiming", "message");
    }
  }).observe(document, { childList: true, subtree: true });
"""
PAINTED = """() => {
  const at = (name) => performance.getEntriesByName(name)[0]?.startTime;
  const content = at("first-contentful-paint");
  const message = content >= window.there ? content : window.timed;
  return message && [at("first-paint"), message];
}"""
KEPT = """async () => {
  const kept = () => caches.match(location.href, { ignoreVary: true });
  while (!(navigator.serviceWorker.controller && (await kept()))) await new Promise((done) => setTimeout(done, 100));
}"""

_long: dict[str, str] = {}  # by target: the long session


def fill(target: Target, scale: Scale) -> None:
    made = target.inside.python("-m", "benchmarks.sessions", "0", str(scale.messages), "2")
    _long[target.name] = made.stdout.strip()


async def session(target: Target, scale: Scale) -> Figures:
    return await asyncio.to_thread(_in_browser, target)


def _in_browser(target: Target) -> Figures:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(base_url=target.url).new_page()
        page.set_default_timeout(WAIT)
        _sign_in(page, target)
        page.add_init_script(WATCH)
        sizes: dict[str, int] = {}
        page.on("response", lambda answer: "/static/js/" in answer.url and sizes.update({answer.url: 0}))
        address = f"/sessions/{_long[target.name]}"
        figures = _named("from the server", *_painted(page, address))
        page.wait_for_timeout(AFTERWARDS)
        page.evaluate(KEPT)
        figures |= {
            "own JavaScript, kB": _script_bytes(page, list(sizes)) / 1000,
            **_named("kept, in a new tab", *_kept(page, address, "about:blank")),
            **_named("kept, from another page", *_kept(page, address, "/agents")),
            "longest task while an answer comes, ms of CPU": _longest_task(browser, page),
            "elements of messages": float(page.locator("#items > li").count()),
        }
        browser.close()
        return figures


def _sign_in(page: Page, target: Target) -> None:
    page.goto("/sign-in")
    page.get_by_label("E-mail").fill(target.inside.demo_email)
    page.get_by_label("Password").fill(target.inside.demo_password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{target.url}/")


def _named(way: str, first: float, message: float) -> Figures:
    return {f"{way}: first paint, ms": first, f"{way}: a message, ms": message}


def _painted(page: Page, address: str) -> tuple[float, float]:
    """First paint of anything, and of a message's words, in ms from the start."""
    page.goto(address, wait_until="load")
    for _ in range(0, WAIT, LOOK):  # the page's CSP forbids Playwright's own wait
        if painted := page.evaluate(PAINTED):
            first, message = painted
            return float(first), float(message)
        page.wait_for_timeout(LOOK)
    raise TimeoutError("no message was painted")


def _kept(page: Page, address: str, elsewhere: str) -> tuple[float, float]:
    """The same with a warm cache and a service worker.

    It starts from a page of Parley to stay in the same process; from `about:blank` the browser starts a new one.
    """
    times = []
    for _ in range(VISITS):
        page.goto(elsewhere)
        page.wait_for_timeout(ELSEWHERE)
        times.append(_painted(page, address))
        page.evaluate(KEPT)
    firsts, messages = zip(*times, strict=True)
    return statistics.median(firsts), statistics.median(messages)


def _script_bytes(page: Page, addresses: list[str]) -> float:
    return float(sum(len(page.request.get(address).body()) for address in addresses))


def _longest_task(browser: Browser, page: Page) -> float:
    """Of the main thread, in processor time, so that other load does not count."""
    answers = page.locator(".from-agent").count()
    browser.start_tracing(page=page, categories=["toplevel", "disabled-by-default-devtools.timeline"])
    page.locator("#words").fill(WORDS)
    page.keyboard.press("Enter")
    page.locator(".from-agent").nth(answers).wait_for()
    events: list[dict[str, Any]] = json.loads(browser.stop_tracing())["traceEvents"]
    threads = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    mains = [one for one in events if threads.get((one["pid"], one["tid"])) == "CrRendererMain"]
    return max(float(one["tdur"]) / 1000 for one in mains if one["name"].endswith("RunTask") and "tdur" in one)
