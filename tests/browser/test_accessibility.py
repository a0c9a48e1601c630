"""Every main page passes axe and fits, also magnified and on a phone."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, WIDE
from tests.browser.doing import begin, sign_in, stop
from tests.browser.people import PASSWORD
from tests.browser.views import views

MAGNIFIED = (640, 512)  # a window of 1280 × 1024 at 200 %
RULES = {"rules": {"target-size": {"enabled": True}}}  # WCAG 2.2, off by default in axe
ON_A_PHONE = {"runOnly": ["color-contrast", "target-size", "button-name", "link-name"]}  # what depends on the width
SCRIPT = Axe().axe_script
WITH_SIDEBAR = ("home", "session")  # it is the same on the others
STICKS_OUT = """() => [document.documentElement, ...document.querySelectorAll("main, dialog[open], .panel, .sidebar")]
  .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)
  .map((one) => `${one.tagName} ${one.className} ${one.scrollWidth} > ${one.clientWidth}`)"""
MOVING = """() => document.getAnimations().filter((one) => one.playState === "running")
  .filter((one) => one.effect.getComputedTiming().activeDuration > 1)
  .map((one) => `${one.animationName ?? one.transitionProperty} of ${one.effect.target.className}`)"""


def axe(page, options=RULES, besides=(), impacts=()):
    """Violations, of these impacts if any are given. Frames are sandboxed, so axe cannot look inside: their names and
    sizes are checked from outside.
    """
    if not page.evaluate("Boolean(globalThis.axe)"):
        page.evaluate(SCRIPT)
    told = {**options, "resultTypes": ["violations"]}
    run = "async ([context, options]) => (await axe.run(context, options)).violations"
    found = page.evaluate(run, [{"exclude": [[one] for one in ("iframe", *besides)]}, told])
    return [
        (one["id"], [(node["html"][:200], node["failureSummary"][:300]) for node in one["nodes"]])
        for one in found
        if not impacts or one["impact"] in impacts
    ]


def test_every_page_passes_axe_and_fits(open_browser, ada, complaints):
    page = open_browser(storage_state=None, reduced_motion="reduce").new_page()
    page.goto("/sign-in")
    found = {"sign-in": axe(page)}
    for password in ("wrong", PASSWORD):
        sign_in(page, ada.email, password)
        expect(page.locator("#problem, [data-try]").first).to_be_visible()
        found[f"with {password}"] = axe(page)
    for view in views(ada):
        show(page, WIDE, "light")
        page.goto(view.address)
        view.do(page)
        besides = () if view.name in WITH_SIDEBAR else (".sidebar",)
        found[view.name] = [*axe(page, RULES, besides), *page.evaluate(STICKS_OUT), *page.evaluate(MOVING)]
        show(page, MAGNIFIED, "light")
        found[view.name] += page.evaluate(STICKS_OUT)
        show(page, PHONE, "dark")
        found[view.name] += [*axe(page, ON_A_PHONE), *page.evaluate(STICKS_OUT)]
    assert {name: problems for name, problems in found.items() if problems} == {}
    complaints.clear()

    # No animation with reduced motion
    begins = {}
    show(page, WIDE, "light")
    begin(page, "talking", "Go on")
    for motion in ("reduce", "no-preference"):
        page.emulate_media(reduced_motion=motion)
        expect(page.locator(".work .sign-working")).to_be_visible()
        begins[motion] = page.evaluate(MOVING)
    stop(page)
    assert begins["reduce"] == []
    assert begins["no-preference"], "the sign of work moves otherwise"


def show(page, size, scheme):
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
