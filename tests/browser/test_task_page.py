"""A task's page in the hands of a person: it lives, can be searched, copied from and walked by keyboard."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.conftest import LOOKS, MEDIUM, PHONE, WIDE
from tests.browser.doing import begin, brought_anew, heard, until
from tests.stack import Stack

JSON = dict[str, Any]


def call(parley: Stack, agent: str, **message: Any) -> JSON:
    """The task that a message leads to, sent by A2A."""
    said = {"messageId": "m-" + json.dumps(message)[:100], "role": "ROLE_USER", **message}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}
    headers = {"Authorization": f"Bearer {parley.demo_key}", "Content-Type": "application/json", "A2A-Version": "1.0"}
    asked = urllib.request.Request(f"{parley.url}/a2a/{agent}", json.dumps(request).encode(), headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        task: JSON = json.load(answer)["result"]["task"]
        return task


def open_newest_task(page: Page) -> str:
    """From a session to the page of its newest task, as people get there. Says its id."""
    page.locator("#panel-timeline a").click()
    page.wait_for_url("**/tasks/*")
    return page.url.rpartition("/")[2]


def test_the_page_of_a_task_at_work_lives(page: Page) -> None:
    begin(page, "interviewer", "Ask me something")
    open_newest_task(page)
    expect(page.locator(".task-state .word")).to_have_text("Working")
    expect(page.locator(".legend").first).to_contain_text("Running")
    page.get_by_text("As a table").first.click()
    expect(page.locator(".task-state .word")).to_have_text("Waiting for you")
    expect(page.locator("#task-news")).to_have_text("Waiting for you")
    expect(page.locator("#timeline-table")).to_have_attribute("open", "")
    expect(page.locator("#turn-1")).to_contain_text("Ran")
    expect(page.locator("#events")).to_contain_text("input-required: What is your")  # it came by itself
    page.get_by_role("link", name="Answer it").click()
    page.wait_for_url("**/sessions/*")
    expect(page.get_by_label("Colour")).to_be_visible()


def test_who_reads_a_task_at_work_by_keyboard_stays_where_they_are(
    page: Page, open_browser: Callable[..., BrowserContext]
) -> None:
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    begin(page, "countdown", "Count down from 900")
    address = page.request.get(f"{page.url}/task").url
    page.goto(address)
    expect(page.locator(".task-state .word")).to_have_text("Working")
    fold, table = page.locator("#timeline-table summary"), page.locator("#timeline-table .scrolls")
    fold.press("Enter")
    brought_anew(page, times=2)
    expect(fold).to_be_focused()
    expect(table).to_be_visible()
    table.focus()
    page.keyboard.press("ArrowRight")
    until(page, "() => document.querySelector('#timeline-table .scrolls').scrollLeft > 0")
    brought_anew(page, times=2)
    expect(table).to_be_focused()
    assert table.evaluate("element => element.scrollLeft") > 0

    # What is gone leaves the focus to what was around it
    page.locator("#more").focus()
    other = open_browser().new_page()
    other.goto(address)
    other.get_by_role("button", name="Stop").click()
    expect(page.locator(".task-state .word")).to_have_text("Stopped")
    expect(page.locator("#more")).to_have_count(0)
    expect(page.get_by_role("group", name="Events")).to_be_focused()


def test_who_is_signed_out_meanwhile_is_told_and_nothing_more_is_asked_for(page: Page, complaints: list[str]) -> None:
    begin(page, "countdown", "Count down from 900")
    open_newest_task(page)
    expect(page.locator(".task-state .word")).to_have_text("Working")
    page.context.clear_cookies()
    expect(page.locator("#toasts")).to_contain_text("You are signed out.")
    expect(page.locator(".task-state .word")).to_have_text("Working")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(5000)  # more than twice what lies between two looks
    assert [url for url in asked if "/standing" in url] == []
    page.get_by_role("button", name="Sign in again").click()
    page.wait_for_url("**/sign-in?next=*")
    complaints.clear()


def test_a_task_is_stopped_from_its_page_and_run_again_once(page: Page, complaints: list[str]) -> None:
    begin(page, "countdown", "Count down from 900")
    open_newest_task(page)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".task-state .word")).to_have_text("Stopped")
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "task-title"

    def unheard(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/again", unheard)
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#toasts")).to_contain_text("It may not have arrived. Press Run again when the line is back")
    page.unroute_all()
    complaints.clear()  # of what was not heard
    page.get_by_role("button", name="Run again").click()
    page.wait_for_url("**/sessions/*")
    expect(page.locator(".from-user")).to_have_count(2)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".work").last).to_contain_text("Stopped")


@LOOKS
def test_a_task_is_searched_copied_from_and_left_for_another(
    look: Callable[..., Page], parley: Stack, size: tuple[int, int], scheme: str
) -> None:
    page = look(size, scheme, permissions=["clipboard-read", "clipboard-write"])
    begin(page, "storyteller", "Tell me a story")
    heard(page, "river")
    page.goto(f"{page.url}/task")
    page.get_by_label("Type").select_option("agent_tool_result")
    expect(page.locator("#events tr[data-index]")).to_have_count(1)
    page.locator("#events summary").click()
    expect(page.locator("#events pre")).to_contain_text("Rivers run to the sea.")
    expect(page.locator("#events pre").first).to_be_in_viewport()
    page.get_by_label("Type").select_option("")
    page.get_by_label("Text").fill("rivers RUN")
    expect(page.locator("#events tr[data-index]")).to_have_count(1)
    page.get_by_label("Text").fill("no such thing")
    expect(page.locator("#events")).to_contain_text("No event is like that.")
    page.locator("#document-request summary").click()
    page.locator("#document-request").get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["parts"] == [{"text": "Tell me a story"}]
    first = call(parley, "echo", parts=[{"text": f"first {scheme}"}])
    known = {"contextId": first["contextId"], "referenceTaskIds": [first["id"]]}
    second = call(parley, "echo", parts=[{"text": f"second {scheme}"}], **known)
    page.goto(f"/tasks/{first['id']}")
    page.locator(f".graph a[href$='{second['id']}']").click()
    page.wait_for_url(f"**/tasks/{second['id']}")
    page.get_by_text("As a table").last.click()
    link = page.locator("#graph-table td").filter(has_not_text="is referred to").first.get_by_role("link")
    link.click()
    page.wait_for_url(f"**/tasks/{first['id']}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_documents_are_copied_whole(open_browser: Callable[..., BrowserContext], parley: Stack) -> None:
    words = "copy me " + "x" * 30_000
    task = call(parley, "echo", parts=[{"text": words}])
    context = open_browser(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"/tasks/{task['id']}")
    page.locator("#document-request summary").click()
    expect(page.locator("#document-request")).to_contain_text("This is its beginning.")
    page.locator("#document-request").get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied["parts"] == [{"text": words}]
    page.locator("#document-task summary").click()
    expect(page.locator("#document-task pre")).to_contain_text('"TASK_STATE_COMPLETED"')


def test_the_curl_command_sends_the_same_again(page: Page, parley: Stack) -> None:
    words = "it's $HOME, `whoami` and \\ \"quoted\"\n<<'REQUEST'\nREQUEST"
    task = call(parley, "echo", parts=[{"text": words}])
    page.goto(f"/tasks/{task['id']}")
    page.locator("#document-curl summary").click()
    command = page.locator("#document-curl pre").text_content()
    assert command is not None
    script = command.replace("YOUR-KEY", parley.demo_key)
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    sent = json.loads(said.stdout)["result"]["task"]
    assert sent["id"] != task["id"]
    assert sent["artifacts"][0]["parts"][0]["text"] == words


def test_tasks_around_a_task_are_walked_by_keyboard(page: Page, parley: Stack) -> None:
    first = call(parley, "echo", parts=[{"text": "first"}])
    known = {"contextId": first["contextId"], "referenceTaskIds": [first["id"]]}
    second = call(parley, "echo", parts=[{"text": "second"}], **known)
    page.goto(f"/tasks/{first['id']}")
    page.locator(".graph-box").focus()
    page.keyboard.press("Tab")
    expect(page.locator(".graph a").first).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tasks/{second['id']}")
    page.get_by_text("As a table").last.click()
    expect(page.locator("#graph-table tbody tr")).to_contain_text("is referred to by")


def test_a_bar_leads_to_its_row_by_keyboard(page: Page, parley: Stack) -> None:
    task = call(parley, "echo", parts=[{"text": "bars"}])
    page.goto(f"/tasks/{task['id']}")
    page.locator("[id^=bar-turn-1]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#turn-1")).to_be_visible()


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (MEDIUM, "dark"), (PHONE, "dark")])
def test_the_page_is_for_everybody(
    open_browser: Callable[..., BrowserContext], parley: Stack, size: tuple[int, int], scheme: str
) -> None:
    first = call(parley, "echo", parts=[{"text": "W" * 400 + " شكرا"}])
    known = {"contextId": first["contextId"], "referenceTaskIds": [first["id"]]}
    task = call(parley, "echo", parts=[{"text": "again"}], **known)
    page = open_browser(size, color_scheme=scheme, bypass_csp=True).new_page()
    for one in (first, task):
        page.goto(f"/tasks/{one['id']}")
        for summary in page.locator("main summary").all()[:8]:
            summary.click()
        expect(page.locator("details[open] > .payload > p", has_text="Loading…")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("main").evaluate("element => element.scrollWidth <= element.clientWidth")
        assert Axe().run(page, "main").response["violations"] == []


def test_a_session_shows_its_task_in_time(page: Page) -> None:
    begin(page, "echo", "in time")
    heard(page, "in time")
    expect(page.locator("#panel-timeline")).to_contain_text("Done")
    expect(page.locator("#panel-timeline svg")).to_be_visible()
