"""What somebody writes anywhere is there again when they come back, until it is sent or given up."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from agentkit import Completed, InputRequired, Outcome, SkillHandler, TaskContext
from tests.browser.conftest import SESSION, sign_in, sign_out
from tests.browser.doing import begin, heard, until
from tests.browser.test_branches import act
from tests.stack import Stack

DRAFTS = "Object.keys(localStorage).filter((key) => key.startsWith('draft:'))"


class Locksmith(SkillHandler):
    """Asks for things of which some are secret."""

    name = "Locksmith"

    async def on_request(self, task: TaskContext) -> Outcome:
        shown, secret = {"type": "string"}, {"type": "string", "format": "password"}
        fields = {"door": shown, "code": secret, "phrase": {"type": "string", "writeOnly": True, "maxLength": 500}}
        return InputRequired("Which door?", slot="door", schema={"type": "object", "properties": fields})

    async def on_input_received(self, task: TaskContext) -> Outcome:
        return Completed("Open.")


def drafts(page: Page, kind: str) -> list[str]:
    return [key for key in page.evaluate(DRAFTS) if key.startswith(f"draft:{kind}:")]


def kept(page: Page, words: str) -> None:
    """Wait until that is kept: its script comes with the first of what is filled in."""
    until(page, "(words) => JSON.stringify(localStorage).includes(words)", words)


def asked(page: Page, words: str, agent: str = "asking") -> str:
    begin(page, agent, words)
    expect(page.locator("form.question :focus")).to_be_attached()  # its script is there
    return page.url


def test_a_question_is_filled_in_here_and_there_until_it_is_answered(page: Page, complaints: list[str]) -> None:
    session = asked(page, "A trip to think over")
    page.get_by_role("radio", name="Second").check()
    page.get_by_role("radio", name="No").check()
    page.get_by_label("A wish").fill("a window")
    kept(page, "a window")
    page.reload()
    expect(page.get_by_role("radio", name="Second")).to_be_checked()
    expect(page.get_by_role("radio", name="No")).to_be_checked()
    expect(page.get_by_label("A wish")).to_have_value("a window")

    page.goto("/inbox")
    item = page.locator(".inbox-item", has_text="A trip to think over")
    expect(item.get_by_role("radio", name="Second")).to_be_checked()
    expect(item.get_by_label("A wish")).to_have_value("a window")
    item.get_by_label("How many people").evaluate("field => field.removeAttribute('max')")
    item.get_by_label("How many people").fill("12")
    item.get_by_label("A wish").fill("a view")
    kept(page, "a view")
    page.reload()
    expect(item.get_by_label("How many people")).to_have_value("12")

    # What is refused stays, and what is sent goes
    page.goto(session)
    expect(page.get_by_label("A wish")).to_have_value("a view")
    page.get_by_label("How many people").evaluate("field => field.removeAttribute('max')")
    page.get_by_role("button", name="Send answer").click()
    expect(page.locator(".question-error")).to_have_text("How many people: the number must be from 1 to 9.")
    page.reload()
    expect(page.get_by_label("How many people")).to_have_value("12")
    page.get_by_label("How many people").fill("2")
    page.get_by_role("button", name="Send answer").click()
    heard(page, "Noted.")
    assert drafts(page, "answer") == []
    complaints.clear()  # of what was refused


def test_an_answer_in_the_inbox_is_kept_until_it_is_sent_or_declined(page: Page) -> None:
    words = ["A trip to be answered", "A trip to be declined"]
    for one in words:
        asked(page, one)
    page.goto("/inbox")
    answered, declined = (page.locator(".inbox-item", has_text=one) for one in words)
    for item in (answered, declined):
        item.get_by_role("radio", name="First").check()
        item.get_by_role("radio", name="Yes").check()
    until(page, f"() => {DRAFTS}.filter((key) => key.startsWith('draft:answer:')).length === 2")
    page.reload()
    expect(declined.get_by_role("radio", name="First")).to_be_checked()
    expect(answered.get_by_role("radio", name="First")).to_be_checked()
    answered.get_by_role("button", name="Send answer").click()
    expect(answered).to_have_count(0)
    declined.get_by_role("button", name="Decline").click()
    declined.get_by_role("button", name="Decline, and stop the work?").click()
    expect(declined).to_have_count(0)
    assert drafts(page, "answer") == []


def test_a_question_says_that_its_file_is_gone(page: Page, csv) -> None:
    asked(page, "A trip with a list")
    page.get_by_label("Passenger list").set_input_files(csv)
    page.get_by_label("A wish").fill("a window")
    kept(page, "a window")
    page.reload()
    expect(page.get_by_label("A wish")).to_have_value("a window")
    expect(page.locator(".question-error")).to_have_text("The files of this draft are gone; choose them again.")


@pytest.mark.parametrize("place", ["its session", "the inbox"])
def test_what_is_secret_is_kept_nowhere(page: Page, parley: Stack, place: str) -> None:
    parley.manage("register_agent", "locksmith", "--handler", f"{__name__}:Locksmith")
    asked(page, "Let me in", "locksmith")
    if place == "the inbox":
        page.goto("/inbox")
    form = page.locator("form.question", has_text="Phrase").first
    form.get_by_label("Door").fill("the blue one")
    form.get_by_label("Code").fill("hush-1234")
    form.get_by_label("Phrase").fill("hush-open-sesame")
    kept(page, "the blue one")
    assert "hush" not in page.evaluate("JSON.stringify(localStorage)")
    page.reload()
    expect(form.get_by_label("Door")).to_have_value("the blue one")
    expect(form.get_by_label("Code")).to_have_value("")
    form.get_by_role("button", name="Send answer").click()
    until(page, f"() => !{DRAFTS}.some((key) => key.startsWith('draft:answer:'))")


def test_an_edit_is_there_again_until_it_is_saved_or_cancelled(page: Page) -> None:
    begin(page, "echo", "the first words")
    heard(page, "the first words")
    session = page.url
    words = page.get_by_label("Your message")
    act(page, "the first words", "Edit")
    words.fill("quite other words")
    words.press("Escape")
    expect(page.locator(".editor")).to_have_count(0)
    act(page, "the first words", "Edit")
    expect(words).to_have_value("quite other words")
    page.reload()
    act(page, "the first words", "Edit")
    expect(words).to_have_value("quite other words")
    page.locator(".editor").get_by_role("button", name="Cancel").click()
    act(page, "the first words", "Edit")
    expect(words).to_have_value("the first words")
    words.fill("better words")
    page.get_by_role("button", name="Save as a fork and run").click()
    page.wait_for_url(lambda address: address != session and bool(SESSION.search(address)))
    heard(page, "better words")
    assert drafts(page, "edit") == []


def test_what_is_kept_goes_with_whoever_signs_out(open_browser: Callable[..., BrowserContext], parley: Stack) -> None:
    page = open_browser(storage_state=None).new_page()
    sign_in(page, parley)
    asked(page, "A trip that nobody else may see")
    page.get_by_label("A wish").fill("a secret wish")
    kept(page, "a secret wish")
    act(page, "A trip that nobody else may see", "Edit")
    page.get_by_label("Your message").fill("a secret edit")
    assert drafts(page, "answer")
    assert drafts(page, "edit")
    sign_out(page)
    until(page, f"() => !{DRAFTS}.length")
