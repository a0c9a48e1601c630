"""The session page in a browser: how soon it is there, how heavy it is, and whether it stutters in a long session."""

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
WAIT = 60_000  # ms
VISITS = 5  # with what the browser kept
ELSEWHERE = 1000  # ms between two visits
AFTERWARDS = 2500  # ms in which a page may load more by itself
LOOK = 20  # ms between two looks at what the page measured
# When words of a message are painted for the first time, as the browser itself says: by its first paint of anything
# that is more than background, if they were there by then, and otherwise by Element Timing, which forgets what is
# drawn anew at once.
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

_long: dict[str, str] = {}  # of each target, the session with many messages


def fill(target: Target, scale: Scale) -> None:
    """Give the demo user a session of many messages."""
    made = target.inside.python("-m", "benchmarks.sessions", "0", str(scale.messages), "2")
    _long[target.name] = made.stdout.strip()


async def session(target: Target, scale: Scale) -> Figures:
    """From the server, then with what the browser kept; then an answer in the long session."""
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
    """When anything was painted for the first time, and when words of a message were, in ms from the start."""
    page.goto(address, wait_until="load")
    for _ in range(0, WAIT, LOOK):  # the page's policy does not let it be asked in the page itself
        if painted := page.evaluate(PAINTED):
            first, message = painted
            return float(first), float(message)
        page.wait_for_timeout(LOOK)
    raise TimeoutError("no message was painted")


def _kept(page: Page, address: str, elsewhere: str) -> tuple[float, float]:
    """The same in a browser that was here before: its service worker has the page, and what it showed.

    From a page of Parley, the browser goes on in the process that it has; from `about:blank` it begins another one.
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
    """Of the page's main thread, in the processor's time, so that what else the machine does is not counted."""
    answers = page.locator(".from-agent").count()
    browser.start_tracing(page=page, categories=["toplevel", "disabled-by-default-devtools.timeline"])
    page.locator("#words").fill(WORDS)
    page.keyboard.press("Enter")
    page.locator(".from-agent").nth(answers).wait_for()
    events: list[dict[str, Any]] = json.loads(browser.stop_tracing())["traceEvents"]
    threads = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    mains = [one for one in events if threads.get((one["pid"], one["tid"])) == "CrRendererMain"]
    return max(float(one["tdur"]) / 1000 for one in mains if one["name"].endswith("RunTask") and "tdur" in one)
