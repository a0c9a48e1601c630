"""Operators' pages obey their CSP, fit, and work."""

import uuid

import httpx
from playwright.sync_api import Page, expect

from tests.browser.conftest import WIDE, OpenBrowser
from tests.browser.doing import until, wait
from tests.browser.people import Person

FITS = "() => document.documentElement.scrollWidth <= innerWidth"


def fits(page: Page) -> None:
    """No wider than its window, once scripts have folded menus."""
    for width in (WIDE[0], 390):
        page.set_viewport_size({"width": width, "height": WIDE[1]})
        until(page, FITS)


def test_operators_pages_obey_the_policy_and_fit(open_browser: OpenBrowser, ada: Person, operator: Person) -> None:
    _, task = ada.begin("echo", "hi")
    page = open_browser(storage_state=operator.state).new_page()
    lists = ("record/task", "accounts/auditentry", "agents/agent", "plans/planrun")
    forms = ("agents/agent", "accounts/user", "accounts/apikey")
    pages = ["/", f"/record/task/{task}/change/", *(f"/{one}/" for one in lists), *(f"/{one}/add/" for one in forms)]
    for address in pages:
        page.goto(f"/admin{address}")
        expect(page.locator("h1").first).to_be_visible()
        fits(page)


def test_dashboard_is_live_and_leads_to_failures(open_browser: OpenBrowser, ada: Person, operator: Person) -> None:
    page = open_browser(storage_state=operator.state).new_page()
    asked: list[str] = []
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
    chart = page.locator("#part-chart-throughput")
    expect(chart.locator("canvas")).to_be_visible()
    chart.get_by_text("Show as a table").click()
    expect(chart.locator("tbody tr").first).to_be_visible()
    fits(page)
    failed.click()
    row = page.locator("#result_list tbody tr", has=page.locator(f"[title='{task}']"))
    row.locator("a[href$='/change/']").first.click()
    expect(page.locator("#facts .state-failed")).to_be_visible()


HIDDEN = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def open_task(page: Page, task: str) -> None:
    page.goto(f"/admin/record/task/{task}/change/")
    expect(page.locator("[data-line=live]")).to_have_text("Live")


def test_operators_watch_and_cancel_tasks_and_make_agents(
    open_browser: OpenBrowser, ada: Person, operator: Person
) -> None:
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

    # An agent without code; form rows are added and removed in place
    page.goto("/admin/agents/agent/add/?kind=model")
    slug = f"clerk-{uuid.uuid4().hex[:6]}"
    page.locator("[name=name]").fill(slug)
    page.locator("[name=name]").press("Tab")
    expect(page.get_by_label("Slug")).to_have_value(slug)
    page.locator("[name=description]").fill("Answers letters.")
    page.locator("[name=instructions]").fill("Answer in one sentence.")
    rows = page.locator("[data-rows=skills] [data-row]")
    for name in ("Sort", "Forget me", "Draft"):
        page.locator("[data-rows=skills]").get_by_role("button", name="Add a skill").click()
        expect(rows.last.get_by_label("Name")).to_be_focused()
        rows.last.get_by_label("Name").fill(name)
        rows.last.get_by_label("Description").fill(f"{name}.")
    rows.nth(1).get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Save and continue editing").click()
    expect(rows.locator("[name$=-name]")).to_have_count(2)
    card = httpx.get(f"{ada.url}/a2a/{slug}/.well-known/agent-card.json", timeout=60).json()
    assert [skill["id"] for skill in card["skills"]] == ["sort", "draft"]
