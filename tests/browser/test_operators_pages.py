"""Operators' pages obey their CSP, fit, and work."""

import itertools

from playwright.sync_api import expect

from tests.browser.conftest import WIDE
from tests.browser.doing import until, wait

FITS = "() => document.documentElement.scrollWidth <= innerWidth"


def fits(page):
    """No wider than its window, once scripts have folded menus."""
    for width in (WIDE[0], 390):
        page.set_viewport_size({"width": width, "height": WIDE[1]})
        until(page, FITS)


def test_operators_pages_obey_the_policy_and_fit(open_browser, ada, operator):
    _, task = ada.begin("echo", "hi")
    page = open_browser(storage_state=operator.state).new_page()
    lists = ("record/task", "accounts/auditentry", "agents/agent", "plans/planrun")
    forms = ("agents/agent", "accounts/user", "accounts/apikey")
    pages = ["/", f"/record/task/{task}/change/", *(f"/{one}/" for one in lists), *(f"/{one}/add/" for one in forms)]
    for address in pages:
        page.goto(f"/admin{address}")
        expect(page.locator("h1").first).to_be_visible()
        fits(page)


def test_dashboard_is_live_and_leads_to_failures(open_browser, ada, operator):
    page = open_browser(storage_state=operator.state).new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "dashboard/parts" in request.url else None)
    page.clock.install()
    ada.begin("echo", "hi")
    page.goto("/admin/?range=1h")
    expect(page.locator("[data-line=live]")).to_have_text("Live")
    page.evaluate("window.stayed = true")
    failed = page.locator(".tiles div", has_text="tasks failed").get_by_role("link")
    before = int(failed.inner_text())
    _, task = ada.begin("failing", "now")
    page.evaluate(HIDDEN, True)
    page.clock.run_for(60_000)
    assert not asked, "a hidden page asks nothing"
    page.evaluate(HIDDEN, False)
    expect(failed).to_have_text(str(before + 1))
    page.clock.run_for(6_000)
    wait(page, lambda: len(asked) == 2, "it goes on")
    assert page.evaluate("window.stayed"), "it was not loaded again"
    fits(page)
    failed.click()
    row = page.locator("#result_list tbody tr", has=page.locator(f"[title='{task}']"))
    row.locator("a[href$='/change/']").first.click()
    expect(page.locator("#facts .state-failed")).to_be_visible()


NEW_BANNER = """
<section class="banners" id="part-banners"><h2 id="title-banners">Needs attention</h2>
  <div id="banner-queue-warning" data-banner><p>Runs wait for {} s.</p></div></section>"""


def test_new_banners_are_read_aloud_once(open_browser, operator):
    page, seconds = open_browser(storage_state=operator.state).new_page(), itertools.count(60)

    def answer(route):
        parts = route.fetch()
        route.fulfill(response=parts, body=NEW_BANNER.format(next(seconds)) + parts.text())

    page.clock.install()
    page.goto("/admin/")
    page.route("**/dashboard/parts*", answer)
    news = page.locator("[data-news]")
    page.clock.run_for(6_000)
    expect(news).to_have_text("Runs wait for 60 s.")
    news.evaluate("line => { line.textContent = ''; }")
    page.clock.run_for(70_000)
    expect(page.locator("#banner-queue-warning")).not_to_contain_text("60 s")
    expect(news).to_have_text("")


HIDDEN = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def open_task(page, task):
    page.goto(f"/admin/record/task/{task}/change/")
    expect(page.locator("[data-line=live]")).to_have_text("Live")


def test_operators_watch_and_cancel_tasks(open_browser, ada, operator):
    page = open_browser(storage_state=operator.state).new_page()
    _, counted = ada.begin("countdown", "60", wait=False)
    open_task(page, counted)
    page.evaluate("window.stayed = true")
    expect(page.locator("#facts .state-working")).to_be_visible()
    first = page.locator("#table-messages tbody tr", has_text="60")
    first.evaluate("row => { row.mark = 'same'; row.querySelector('a').focus(); }")
    expect(page.locator("#facts .state-done")).to_be_visible()
    expect(page.locator("#table-newest-events tbody tr").first).to_contain_text("completed: Lift-off.")
    expect(page.locator("#table-artifacts .state-done")).to_have_text("delivered")
    assert page.evaluate("window.stayed"), "it was not loaded again"
    assert first.evaluate("row => row.mark === 'same' && row.contains(document.activeElement)"), "what is read stays"

    _, running = ada.begin("countdown", "2000", wait=False)
    open_task(page, running)
    expect(page.locator("#table-artifacts .state-working")).to_be_visible()
    page.get_by_role("link", name="Cancel", exact=False).first.click()
    page.get_by_role("button", name="Cancel task").click()
    expect(page.get_by_text("Canceled.", exact=True).first).to_be_visible()
    expect(page.locator("#facts .state-stopped")).to_be_visible()
    expect(page.locator("#table-artifacts .state-stopped")).to_have_text("discarded")
