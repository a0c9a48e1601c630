"""Every main page is for everybody: axe finds nothing on it, and it fits, also where it is magnified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PHONE, WIDE
from tests.browser.doing import begin
from tests.browser.screenshots import CSV, RIGHT_TO_LEFT, WORD, Cast
from tests.stack import Stack

OpenBrowser = Callable[..., BrowserContext]

MAGNIFIED = (640, 512)  # a window of 1280 × 1024 at 200 %
RULES = {"rules": {"target-size": {"enabled": True}}}  # WCAG 2.2, which axe leaves out by itself
# Frames are sandboxed: nothing looks into them. Their names and sizes are looked at from outside.
AROUND_FRAMES = {"exclude": [["iframe"]]}
STICKS_OUT = """() => [document.documentElement, ...document.querySelectorAll("main, dialog[open], .panel, .sidebar")]
  .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)
  .map((one) => `${one.tagName} ${one.className} ${one.scrollWidth} > ${one.clientWidth}`)"""
MOVING = """() => document.getAnimations().filter((one) => one.playState === "running")
  .filter((one) => one.effect.getComputedTiming().activeDuration > 1)
  .map((one) => `${one.animationName ?? one.transitionProperty} of ${one.effect.target.className}`)"""


@dataclass(frozen=True)
class World:
    """What the demo user has: sessions, by what there is in them, and the newest task of the first."""

    report: str
    story: str
    question: str
    task: str
    fork: str
    link: str


@pytest.fixture(scope="module")
def world(parley: Stack) -> World:
    return made(parley)


def made(parley: Stack) -> World:
    cast = Cast(parley)
    sheet = {"text": CSV, "filename": "depths.csv", "mediaType": "text/csv"}
    for words in (RIGHT_TO_LEFT, WORD):
        cast.begin("echo", words)
    cast.begin("failing", "Measure the sample")
    report, task = cast.begin("report", "make a report as PDF", parts=[sheet])
    if cast.http.get(f"/tasks/{task}").json()["state"] == "input-required":
        answer = {"data": {"format": "pdf"}, "wait": True}
        cast.http.post(f"/tasks/{task}/answer", json=answer, headers={"Idempotency-Key": "pdf"}).raise_for_status()
    story, _ = cast.begin("storyteller", "Tell me a story")
    fork = cast.http.post(f"/sessions/{story}/fork", json={"retry": True}, headers={"Idempotency-Key": "again"})
    shared = {"expiresInDays": 7, "withArtifacts": True, "withBranches": True}
    link = cast.http.post(f"/sessions/{report}/shares", json=shared).raise_for_status().json()["url"]
    question, _ = cast.begin("asking", "A trip to the sea")
    return World(report, story, question, task, fork.raise_for_status().json()["session"]["id"], link)


@dataclass(frozen=True)
class View:
    """A page, and what is done there until it is as it should be looked at."""

    name: str
    address: str
    do: Callable[[Page], object] = lambda page: None


def views(world: World) -> list[View]:
    report, story = f"/sessions/{world.report}", f"/sessions/{world.story}"
    return [
        View("home", "/", drawn("#sessions [data-key]")),
        View("archived", "/?show=archived"),
        View("row menu", "/", pressed("#sessions [data-more]", "#row-menu")),
        View("find", "/", keys("Control+k", "[role=option]")),
        View("new session", "/", keys("Control+Shift+o", "[role=option]")),
        View("help", "/", keys("Control+/", "dialog.help")),
        View("agents", "/agents"),
        View("agent", "/agents/report"),
        View("try", "/agents/echo/try"),
        View("add an agent", "/agents/remote/add"),
        View("inbox", "/inbox", drawn(".inbox-item")),
        View("credentials", "/credentials/"),
        View("session", report, drawn(".from-agent .prose")),
        View("work", story, pressed(".work summary", ".steps")),
        View("branches", f"/sessions/{world.fork}", drawn(".branches")),
        View("question", f"/sessions/{world.question}", drawn("form.question")),
        View("files", report, opened_files),
        View("actions", report, pressed(".from-agent [data-act=more]", ".action-menu")),
        View("session menu", report, pressed("#session-more", "#session-menu")),
        View("switch", report, pressed("#switch", "#switch-to")),
        View("share", report, menu_entry("share")),
        View("tree over a page", story, menu_entry("tree")),
        View("tree", f"{story}/tree"),
        View("task", f"/tasks/{world.task}", drawn("#events tr")),
        View("replay", f"{report}/replay?at=5", drawn("#items > li")),
        View("shared", world.link[world.link.index("/shared/") :]),
        View("plans", "/plans"),
        View("plan", "/plans/research"),
        View("new plan", "/plans/new"),
        View("nowhere", "/nowhere"),
    ]


def drawn(selector: str) -> Callable[[Page], object]:
    return lambda page: expect(page.locator(selector).locator("visible=true").first).to_be_visible()


def pressed(button: str, shown: str) -> Callable[[Page], object]:
    def do(page: Page) -> None:
        page.locator(button).locator("visible=true").first.click()
        drawn(shown)(page)

    return do


def keys(pressed: str, shown: str) -> Callable[[Page], object]:
    def do(page: Page) -> None:
        page.keyboard.press(pressed)
        drawn(shown)(page)

    return do


def menu_entry(act: str) -> Callable[[Page], object]:
    def do(page: Page) -> None:
        pressed("#session-more", "#session-menu")(page)
        pressed(f"#session-menu [data-act={act}]", "dialog.dialog")(page)

    return do


def opened_files(page: Page) -> None:
    drawn(".from-agent .chip")(page)
    if page.locator("#to-panel").is_visible():
        page.locator("#to-panel").click()
    pressed("#artifacts button", "#preview h3")(page)
    expect(page.locator("#preview .signature")).to_be_visible()


def axe(page: Page) -> list[Any]:
    found = Axe().run(page, context=AROUND_FRAMES, options=RULES).response["violations"]
    return [(one["id"], [(node["html"][:200], node["failureSummary"][:300]) for node in one["nodes"]]) for one in found]


@pytest.mark.parametrize(
    ("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide and light", "phone and dark"]
)
def test_axe_finds_nothing_on_any_page(open_browser: OpenBrowser, world: World, size: Any, scheme: str) -> None:
    page = open_browser(size, color_scheme=scheme, reduced_motion="reduce").new_page()
    found = {}
    for view in views(world):
        page.goto(view.address)
        view.do(page)
        found[view.name] = [*axe(page), *page.evaluate(STICKS_OUT), *page.evaluate(MOVING)]
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing_before_one_has_anything(chromium: Browser, parley: Stack, size: Any) -> None:
    """Signing in, refused and not; and the first page of somebody who has no session."""
    email = f"new-{size[0]}@parley.local"
    make = f"from apps.accounts.models import User; User.objects.create_user({email!r}, 'a-good-pass-word')"
    parley.manage("shell", "-v0", "-c", make)
    context = chromium.new_context(base_url=parley.url, viewport={"width": size[0], "height": size[1]})
    page = context.new_page()
    page.goto("/sign-in")
    assert axe(page) == []
    for password in ("wrong", "a-good-pass-word"):
        page.get_by_label("E-mail").fill(email)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#problem, [data-try]").first).to_be_visible()
        assert axe(page) == []
    for address in ("/inbox", "/?show=archived"):
        page.goto(address)
        assert [axe(page), page.evaluate(STICKS_OUT)] == [[], []], address
    context.close()


def test_every_page_fits_where_it_is_magnified(open_browser: OpenBrowser, world: World) -> None:
    page = open_browser(MAGNIFIED).new_page()
    found = {}
    for view in views(world):
        page.goto(view.address)
        view.do(page)
        found[view.name] = page.evaluate(STICKS_OUT)
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_nothing_moves_for_who_does_not_want_that(open_browser: OpenBrowser) -> None:
    begins = {}
    for motion in ("reduce", "no-preference"):
        page = open_browser(reduced_motion=motion).new_page()
        begin(page, "long", "4 this")
        expect(page.locator(".work .sign-working")).to_be_visible()
        begins[motion] = page.evaluate(MOVING)
    assert begins["reduce"] == []
    assert begins["no-preference"], "the sign of work moves otherwise"
