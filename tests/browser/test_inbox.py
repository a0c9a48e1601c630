"""The inbox: questions of all sessions in one place, answered there, gone when they are answered anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.conftest import PHONE, WIDE
from tests.browser.doing import begin, heard, say, until
from tests.stack import Stack

MESSAGE = rb'name="message"\r\n\r\n([0-9a-f-]+)'


@pytest.fixture(autouse=True)
def nothing_waits(parley: Stack) -> None:
    """What other tests asked is declined."""
    calls = httpx.Client(base_url=f"{parley.url}/api/v1", headers={"Authorization": f"Bearer {parley.demo_key}"})
    for task in calls.get("/tasks?state=input-required,auth-required&limit=100").json()["items"]:
        calls.post(f"/tasks/{task['id']}/cancel")


def questions(page: Page) -> Locator:
    return page.locator(".inbox-item")


def asked(page: Page, words: str, agent: str = "asking") -> None:
    begin(page, agent, words)
    expect(page.locator(".question")).to_be_visible()


@pytest.mark.parametrize(
    ("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide and light", "phone and dark"]
)
def test_questions_are_answered_by_keyboard_where_they_are_listed(
    open_browser: Callable[..., BrowserContext],
    watched: Callable[[Page], list[str]],
    size: tuple[int, int],
    scheme: str,
) -> None:
    page = open_browser(size, color_scheme=scheme).new_page()
    complaints = watched(page)
    asked(page, "The first trip")
    other = page.context.new_page()
    other.goto("/inbox")
    expect(questions(other)).to_have_count(1)
    expect(other).to_have_title("(1) Inbox · Parley")
    asked(page, "The second trip")
    expect(questions(other)).to_have_count(2)
    expect(questions(other).first).to_contain_text("The second trip")
    expect(other).to_have_title("(2) Inbox · Parley")
    link = other.locator("a[href='/inbox']").filter(visible=True)
    expect(link).to_have_accessible_name("Inbox 2 waiting for you")
    assert Axe().run(other, context="main").response["violations"] == []

    # What is missing is said beside its field, which has the focus
    item = questions(other).first
    item.get_by_role("button", name="Send answer").focus()
    other.keyboard.press("Enter")
    expect(item.locator("[data-field='answer-class'] .field-error")).to_be_visible()
    expect(item.get_by_label("First")).to_be_focused()

    other.keyboard.press("Space")
    item.get_by_label("Yes").check()
    item.get_by_label("How many people").fill("3")
    item.get_by_role("button", name="Send answer").focus()
    other.keyboard.press("Enter")
    expect(questions(other)).to_have_count(1)
    expect(other.locator("#toasts")).to_contain_text("Your answer is sent.")
    expect(questions(other).first.locator(":focus")).to_have_count(1)
    heard(page, "Noted.")
    expect(page.locator(".from-user").last).to_contain_text("How many people")
    expect(page.locator(".from-user").last).to_contain_text("3")

    # Answered in its session, it goes; and then nothing waits
    session = questions(other).first.locator(".who a").get_attribute("href")
    assert session
    assert re.search(r"#m-\d+$", session)
    page.goto(session)
    say(page, "Anywhere")
    expect(questions(other)).to_have_count(0)
    expect(other.get_by_text("Nothing waits for you.")).to_be_visible()
    expect(other).to_have_title("Inbox · Parley")
    complaints.clear()


def filled_in(page: Page, words: str) -> tuple[str, Locator]:
    """A question in the inbox, answered and not sent: its session's address, and its form."""
    asked(page, words)
    session = page.url
    page.goto("/inbox")
    form = questions(page).locator("form.question")
    form.get_by_label("First").check()
    form.get_by_label("Yes").check()
    return session, form


def test_an_answer_that_found_no_server_is_sent_once_when_it_is_back(
    page: Page, parley: Stack, complaints: list[str]
) -> None:
    session, form = filled_in(page, "A trip through a tunnel")
    sent: list[str] = []
    page.on("request", lambda request: sent.extend(re.findall(MESSAGE, request.post_data_buffer or b"")))
    parley.kill()
    try:
        form.get_by_role("button", name="Send answer").click()
        expect(page.locator("#toasts")).to_contain_text("Your answer is sent when the line is back.")
        expect(questions(page)).to_have_count(0)
    finally:
        parley.start()
    assert len(sent) > 1
    until(page, "() => !localStorage.unsent")  # sent from here
    expect(questions(page)).to_have_count(0)
    assert len(set(sent)) == 1
    page.goto(session)
    heard(page, "Noted.")
    expect(page.locator(".from-user")).to_have_count(2)
    complaints.clear()  # of refused connections, as it should be


def test_what_is_answered_is_not_asked_again_while_the_answer_waits(page: Page, complaints: list[str]) -> None:
    session, form = filled_in(page, "A trip under water")
    page.route("**/messages", lambda route: route.abort())
    form.get_by_role("button", name="Send answer").click()
    expect(page.locator("#toasts")).to_contain_text("Your answer is sent when the line is back.")
    page.reload()
    expect(questions(page)).to_have_count(0)
    page.unroute_all()
    complaints.clear()  # of what was cut off
    page.evaluate("dispatchEvent(new Event('online'))")
    until(page, "() => !localStorage.unsent")
    page.goto(session)
    heard(page, "Noted.")
    expect(page.locator(".from-user")).to_have_count(2)


def test_declining_is_asked_twice_and_ends_the_work(page: Page) -> None:
    asked(page, "A trip that is declined")
    address = page.url
    page.goto("/inbox")
    expect(questions(page)).to_have_count(1)
    page.get_by_role("button", name="Decline", exact=True).click()
    page.get_by_role("button", name="Decline, and stop the work?").press("Shift+Tab")
    expect(page.get_by_role("button", name="Decline", exact=True)).to_be_visible()
    page.get_by_role("button", name="Decline", exact=True).click()
    page.get_by_role("button", name="Decline, and stop the work?").click()
    expect(questions(page)).to_have_count(0)
    expect(page.locator("#inbox-title")).to_be_focused()
    expect(page.locator(f".recent [data-session='{address.rsplit('/', 1)[1]}'] .sign-canceled")).to_be_visible()


def test_a_credential_is_given_on_its_own_page(page: Page) -> None:
    asked(page, "When am I free?", "calendar")
    page.goto("/inbox")
    expect(questions(page).locator("form, textarea")).to_have_count(0)
    questions(page).get_by_role("link", name="Give it, or decline").click()
    expect(page).to_have_url(re.compile(r"/credentials/"))
