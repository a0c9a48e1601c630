"""Operators' pages in a real browser: they move by themselves, repair a lost line, and obey the page's own policy."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import stack
from tests.browser.doing import until
from tests.stack import Stack

pytestmark = pytest.mark.browser

SOON = 45_000  # milliseconds


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A browser's page on which nothing may go wrong unheard."""
    page = chromium.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if "Content Security Policy" in said.text else None)
    yield page
    page.close()
    assert complaints == []


def sign_in(page: Page, server: Stack) -> None:
    page.goto(f"{server.url}/admin/")
    page.fill("[name=username]", server.admin_email)
    page.fill("[name=password]", server.admin_password)
    page.click("[type=submit]")
    expect(page.get_by_role("heading", name="Tasks, last 24 hours")).to_be_visible()


def send(server: Stack, agent: str, text: str) -> str:
    """Send a text to an agent as the demo user, without waiting for its end; gives the task's id."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    params = {"message": message, "configuration": {"returnImmediately": True}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    headers = {
        "Authorization": f"Bearer {server.demo_key}",
        "Content-Type": "application/json",
        "A2A-Version": "1.0",
    }
    request = urllib.request.Request(f"{server.url}/a2a/{agent}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)["result"]["task"]["id"]


def open_task(page: Page, server: Stack, task: str) -> None:
    page.goto(f"{server.url}/admin/conversations/task/{task}/change/")
    expect(page.locator("[data-line=live]")).to_have_text("Live", timeout=SOON)


def fits(page: Page, width: int) -> None:
    """The page is no wider than its window, once its scripts have folded what they fold."""
    until(page, "width => document.documentElement.scrollWidth <= width", width)


@pytest.mark.parametrize("width", [390, 1440])
def test_every_page_obeys_the_policy_and_fits_its_window(page, server, width):
    send(server, "echo", "hi")
    page.set_viewport_size({"width": width, "height": 900})
    sign_in(page, server)
    addresses = page.locator("#nav-sidebar-apps a").evaluate_all("links => links.map(link => link.href)")
    assert len(addresses) == 29
    for address in addresses:
        page.goto(address)
        expect(page.locator("h1").first).to_be_visible()
        fits(page, width)
        row = page.locator("#result_list tbody a[href$='/change/']").first
        if row.count():
            page.goto(row.evaluate("link => link.href"))
            fits(page, width)
    for form in ("agents/agent", "accounts/user", "accounts/apikey", "auth/group"):
        page.goto(f"{server.url}/admin/{form}/add/")
        fits(page, width)


def test_a_task_is_watched_to_its_end_without_a_reload(page, server):
    sign_in(page, server)
    open_task(page, server, send(server, "countdown", "40"))
    page.evaluate("window.stayed = true")
    expect(page.locator("#facts .state-working")).to_be_visible(timeout=SOON)
    expect(page.locator("#facts .state-done")).to_be_visible(timeout=SOON)
    expect(page.locator("#table-newest-events tbody tr").first).to_contain_text("completed: Lift-off.")
    expect(page.locator("#table-artifacts .state-done")).to_have_text("delivered")
    expect(page.locator("#table-newest-events tbody tr")).to_have_count(45)
    assert page.evaluate("window.stayed")


def test_a_running_task_is_canceled_from_its_page(page, server):
    sign_in(page, server)
    open_task(page, server, send(server, "countdown", "2000"))
    expect(page.locator("#table-artifacts .state-working")).to_be_visible(timeout=SOON)
    page.get_by_role("link", name="Cancel", exact=False).first.click()
    page.get_by_role("button", name="Cancel the task").click()
    expect(page.get_by_text("1 task was canceled.")).to_be_visible(timeout=SOON)
    expect(page.locator("#facts .state-stopped")).to_be_visible(timeout=SOON)
    expect(page.locator("#table-artifacts .state-stopped")).to_have_text("discarded")


def test_a_task_is_run_again_from_its_page(page, server):
    sign_in(page, server)
    open_task(page, server, send(server, "echo", "once more"))
    page.get_by_role("link", name="Run again").click()
    page.get_by_role("button", name="Run again").click()
    page.get_by_text("Running again as task").get_by_role("link").click()
    expect(page.locator("#facts .state-done")).to_be_visible(timeout=SOON)
    expect(page.locator("#table-messages")).to_contain_text("once more")


def test_what_did_not_change_stays_where_it_is(page, server):
    """An operator reads, selects and follows with the keyboard while rows come in above."""
    sign_in(page, server)
    open_task(page, server, send(server, "countdown", "40"))
    first = page.locator("#table-messages tbody tr", has_text="40")
    first.evaluate("row => { row.mark = 'same'; row.querySelector('a').focus(); }")
    expect(page.locator("#facts .state-done")).to_be_visible(timeout=SOON)
    assert first.evaluate("row => row.mark === 'same' && row.contains(document.activeElement)")


def test_an_id_is_copied_whole(page, server):
    task = send(server, "echo", "hi")
    sign_in(page, server)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    page.goto(f"{server.url}/admin/conversations/task/?q={task}")
    cell = page.locator(f"tbody code[title='{task}']")
    assert cell.bounding_box()["width"] < 160
    page.locator(f"tbody button[data-copy='{task}']").focus()
    page.keyboard.press("Enter")
    expect(page.locator("button[data-copied]")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == task


def test_a_lost_line_shows_at_once_and_repairs_itself(page):
    with stack.running() as server:
        sign_in(page, server)
        open_task(page, server, send(server, "echo", "hi"))
        server.terminate()
        expect(page.locator("[data-line=lost]")).to_have_text("The line is lost. Reconnecting…", timeout=SOON)
        server.start()
        expect(page.locator("[data-line=live]")).to_have_text("Live", timeout=2 * SOON)


def test_rows_of_a_form_are_added_and_removed_in_place(page: Page, server: Stack) -> None:
    sign_in(page, server)
    page.goto(f"{server.url}/admin/agents/agent/add/?kind=model")
    slug = f"clerk-{uuid.uuid4().hex[:6]}"
    page.locator("[name=name]").fill(slug)
    page.locator("[name=name]").press("Tab")
    expect(page.get_by_label("Slug")).to_have_value(slug)  # made of the name
    page.locator("[name=description]").fill("Answers letters.")
    page.locator("[name=instructions]").fill("Answer in one sentence.")
    skills = page.locator("[data-rows=skills]")
    expect(skills.locator("[data-row]")).to_have_count(0)
    for name in ("Sort", "Forget me", "Draft"):
        skills.get_by_role("button", name="Add a skill").click()
        row = skills.locator("[data-row]").last
        expect(row.get_by_label("Name")).to_be_focused()
        row.get_by_label("Name").fill(name)
        row.get_by_label("Description").fill(f"{name}.")
    skills.locator("[data-row]").nth(1).get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Save and continue editing").click()
    expect(skills.locator("[data-row] [name$=-name]")).to_have_count(2)
    shown = [field.input_value() for field in skills.locator("[data-row] [name$=-name]").all()]
    assert shown == ["Sort", "Draft"]
    with urllib.request.urlopen(f"{server.url}/a2a/{slug}/.well-known/agent-card.json", timeout=20) as card:
        assert [skill["id"] for skill in json.load(card)["skills"]] == ["sort", "draft"]


def test_a_plan_is_started_looked_at_and_paused(page: Page, server: Stack) -> None:
    sign_in(page, server)
    page.goto(f"{server.url}/admin/orchestration/plan/")
    page.get_by_role("link", name="Research pipeline").click()
    expect(page.locator("#plan-step-literature")).to_be_visible()
    page.get_by_role("link", name="Start").click()
    page.get_by_label("What shall be researched?").fill("Lung fibrosis")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("Research pipeline is started.")).to_be_visible()
    expect(page.get_by_text("input-required").first).to_be_visible(timeout=SOON)
    page.locator("a[href*='/orchestration/planrun/'][href$='/change/']").first.click()
    expect(page.locator("#plan-step-hypotheses.is-asking")).to_be_visible()
    expect(page.locator("#gantt-row-literature")).to_be_visible()
    page.get_by_role("link", name="Pause").first.click()
    page.locator("#dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused.")).to_be_visible(timeout=SOON)
