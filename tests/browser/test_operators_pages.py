"""Operators' pages obey their CSP, fit, and work."""

from __future__ import annotations

import uuid

import httpx
from playwright.sync_api import Page, expect

from tests.browser.conftest import WIDE, OpenBrowser
from tests.browser.doing import clipboard, until, wait
from tests.browser.people import Person

FITS = "() => document.documentElement.scrollWidth <= innerWidth"
FORMS = ("agents/agent", "accounts/user", "accounts/apikey", "auth/group")


def fits(page: Page) -> None:
    """No wider than its window, once scripts have folded menus."""
    for width in (WIDE[0], 390):
        page.set_viewport_size({"width": width, "height": WIDE[1]})
        until(page, FITS)


def test_every_page_of_operators_obeys_the_policy_and_fits(
    open_browser: OpenBrowser, ada: Person, operator: Person
) -> None:
    ada.begin("echo", "hi")
    page = open_browser(storage_state=operator.state).new_page()
    page.goto("/admin/")
    expect(page.get_by_role("heading", name="Ended, last 24 hours")).to_be_visible()
    addresses = page.locator("#nav-sidebar-apps a").evaluate_all("links => links.map(link => link.href)")
    assert len(addresses) > 20
    for address in addresses:
        page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
        page.goto(address)
        expect(page.locator("h1").first).to_be_visible()
        fits(page)
        row = page.locator("#result_list tbody a[href$='/change/']").first
        if row.count():
            page.goto(row.evaluate("link => link.href"))
            fits(page)
    for form in FORMS:
        page.goto(f"/admin/{form}/add/")
        fits(page)


def test_an_operator_walks_from_the_dashboard_to_what_failed(
    open_browser: OpenBrowser, ada: Person, operator: Person
) -> None:
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


def test_an_operator_watches_stops_and_repeats_a_task_makes_an_agent_and_starts_a_plan(
    open_browser: OpenBrowser, ada: Person, operator: Person
) -> None:
    allowed = ["clipboard-read", "clipboard-write"]
    page = open_browser(storage_state=operator.state, permissions=allowed).new_page()
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
    page.get_by_role("button", name="Cancel the task").click()
    expect(page.get_by_text("Canceled.", exact=True).first).to_be_visible()
    expect(page.locator("#facts .state-stopped")).to_be_visible()
    expect(page.locator("#table-artifacts .state-stopped")).to_have_text("discarded")
    _, echoed = ada.begin("echo", "once more")
    open_task(page, echoed)
    page.get_by_role("link", name="Run again").click()
    page.get_by_role("button", name="Run again").click()
    page.get_by_text("Runs again as task").get_by_role("link").click()
    expect(page.locator("#facts .state-done")).to_be_visible()
    expect(page.locator("#table-messages")).to_contain_text("once more")
    page.goto(f"/admin/record/task/?q={echoed}")
    page.locator(f"tbody button[data-copy='{echoed}']").press("Enter")
    expect(page.locator("button[data-copied]")).to_be_visible()
    assert clipboard(page) == echoed

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

    page.goto("/admin/plans/plan/")
    page.get_by_role("link", name="Research pipeline").click()
    expect(page.locator("#plan-step-literature")).to_be_visible()
    page.get_by_role("link", name="Start").click()
    page.get_by_label("What do you want to research?").fill("Lung fibrosis")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("Research pipeline has started.")).to_be_visible()
    expect(page.get_by_text("input-required").first).to_be_visible()
    page.locator("a[href*='/plans/planrun/'][href$='/change/']").first.click()
    expect(page.locator("#plan-step-hypotheses.is-asking")).to_be_visible()
    expect(page.locator("#gantt-row-literature")).to_be_visible()
    page.get_by_role("link", name="Pause").first.click()
    page.locator("#dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused.")).to_be_visible()


def press(page: Page, button: str) -> None:
    """A button of the page, and the one of its dialog."""
    page.get_by_role("link", name=button).first.click()
    page.locator("#dialog").get_by_role("button", name=button).click()


def test_an_operator_finds_why_a_task_waits_and_acts(open_browser: OpenBrowser, ada: Person, operator: Person) -> None:
    page = open_browser(storage_state=operator.state).new_page()
    page.goto("/admin/agents/agent/?q=echo")
    page.locator("#result_list").get_by_role("link", name="Echo", exact=True).click()
    press(page, "Pause")
    expect(page.get_by_text("Echo is paused.")).to_be_visible()
    _, stuck = ada.begin("echo", "are you there?", wait=False)

    page.goto("/admin/record/task/?state__exact=submitted")
    page.locator(f"#result_list a[href*='{stuck}']").first.click()
    expect(page.locator("#causes")).to_contain_text("Echo is paused.")
    page.locator("#causes").get_by_role("link", name="Echo").click()
    press(page, "Resume")
    expect(page.get_by_text("Resumed.")).to_be_visible()
    open_task(page, stuck)
    expect(page.locator("#facts .state-done")).to_be_visible()

    page.goto(f"/admin/record/task/?q={stuck}")
    page.locator("#result_list .action-select").check()
    page.locator("select[name=action]").select_option(label="Run again")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#results .state-done").nth(1)).to_have_text("done")
    page.locator("#results").get_by_role("link", name="This action").click()
    expect(page.locator("#results")).to_contain_text("1 done")
