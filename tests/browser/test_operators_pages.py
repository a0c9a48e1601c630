"""Operators' pages obey their CSP, fit, pass axe, and work."""

import itertools

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WIDE
from tests.browser.doing import until, wait
from tests.browser.test_accessibility import axe

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


COLORS = {"runOnly": ["color-contrast"]}  # what depends on the theme
GRAVE = ("serious", "critical")
COVERED = """() => [...document.querySelectorAll("#content :is(a, button, select, textarea, input:not([type=hidden]))")]
  .filter((one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true })).filter((one) => {
    one.focus();
    const { left, top, width, height } = one.getBoundingClientRect();
    const seen = document.elementFromPoint(left + width / 2, top + height / 2);
    return seen?.closest("#submit-row") && !one.closest("#submit-row");
  }).map((one) => one.outerHTML.slice(0, 200))"""


def check(page, address):
    """Nothing that axe calls serious in either theme, and the bar that saves covers no field that has the focus."""
    page.goto(f"/admin{address}")
    if "/admin/" not in page.url:  # it leads to one of people's pages
        return []
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    expect(page.get_by_role("link", name="Back to Parley")).to_be_visible()
    found = axe(page, {}, impacts=GRAVE)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    return [*found, *axe(page, COLORS), *page.evaluate(COVERED)]


def test_operators_pages_are_accessible(open_browser, ada, operator):
    _, task = ada.begin("echo", "hi")
    page = open_browser(storage_state=operator.state).new_page()
    kinds = ("/", "/analytics/", "/record/task/", f"/record/task/{task}/change/", "/agents/agent/add/")
    widgets = ("/limits/limit/add/", "/accounts/apikey/add/", "/auth/group/add/", "/payments/paymentbudget/add/")
    found = {address: check(page, address) for address in (*kinds, *widgets)}
    assert {address: problems for address, problems in found.items() if problems} == {}


@pytest.mark.slow("one page of each kind is enough")
def test_all_lists_and_forms_of_operators_are_accessible(open_browser, ada, operator):
    ada.begin("trip", "A trip")
    page = open_browser(storage_state=operator.state).new_page()
    page.goto("/admin/")
    lists = page.locator("#nav-sidebar a[href^='/admin/'], nav a[href^='/admin/']")
    addresses = {link.get_attribute("href").removeprefix("/admin") for link in lists.all()}
    for address in sorted(addresses):
        page.goto(f"/admin{address}")
        forms = page.locator("#result_list tbody a[href*='/change/'], a[href$='/add/']")
        addresses |= {link.get_attribute("href").removeprefix("/admin") for link in forms.all()[:2]}
    found = {address: check(page, address) for address in sorted(addresses)}
    assert {address: problems for address, problems in found.items() if problems} == {}


def test_theme_is_one_for_parley_and_admin(open_browser, operator):
    page = open_browser(storage_state=operator.state, color_scheme="light").new_page()
    page.goto("/admin/")
    page.locator("[x-on\\:click*=openUserLinks]").last.click()
    with page.expect_response("**/settings/appearance/theme"):
        page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_class("dark")
    page.get_by_role("link", name="Back to Parley").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("#words")).to_be_focused()  # the page's scripts have begun
    page.locator(".sidebar [popovertarget=account]").click()
    with page.expect_response("**/settings/appearance/theme"):
        page.get_by_role("button", name="Light theme").click()
    page.goto("/admin/")
    expect(page.locator("html")).not_to_have_class("dark")


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
