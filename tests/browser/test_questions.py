"""Questions of agents: in the inbox, for a key, and on a phone."""

from __future__ import annotations

import re
from datetime import date, timedelta

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PHONE, OpenBrowser
from tests.browser.doing import FITS, SESSION, begin, heard, say, settled, until, wait
from tests.browser.people import Person

GIVE = "Enter credential"
SECRET = "k-5f1d2a90-secret"
SERVICE = "the calendar of the institute"


def questions(page: Page) -> Locator:
    return page.locator(".inbox-item")


def test_only_a_press_approves_a_tool_call(page: Page) -> None:
    begin(page, "secretary", "Write to Bob")  # whose clerk asks
    card = page.locator("form.approval")
    approve = card.get_by_role("button", name="Approve")
    expect(page.locator(".call")).to_contain_text("Clerk asks")
    pressed_by_script = (
        "button => (button.click(), Boolean(document.querySelector('form.approval [role=alert]:not([hidden])')))"
    )
    wait(page, lambda: approve.evaluate(pressed_by_script))  # what watches the card may still be loading
    expect(card.get_by_role("alert")).to_contain_text("Press the button yourself")
    approve.click()
    heard(page, "Sent to bob.")
    settled(page)
    expect(card).to_have_count(0)


def test_questions_of_all_sessions_are_answered_and_declined_where_they_are_listed(page: Page, ada: Person) -> None:
    inbox = page.context.new_page()
    session, _ = ada.begin("asking", "The first trip")
    inbox.goto("/inbox")
    expect(questions(inbox)).to_have_count(1)
    expect(inbox).to_have_title("(1) Inbox · Parley")
    begin(page, "asking", "The second trip")
    expect(questions(inbox)).to_have_count(2)
    expect(questions(inbox).first).to_contain_text("The second trip")
    expect(inbox).to_have_title("(2) Inbox · Parley")
    link = inbox.locator("a[href='/inbox']").filter(visible=True)
    expect(link).to_have_accessible_name("Inbox 2 waiting for you")

    # By keyboard: errors are beside their field, which has the focus
    item = questions(inbox).filter(has_text="The second trip")
    item.get_by_role("button", name="Send answer").focus()
    inbox.keyboard.press("Enter")
    expect(item.locator("[data-field='answer-class'] .field-error")).to_be_visible()
    expect(item.get_by_label("First")).to_be_focused()
    inbox.keyboard.press("Space")
    item.get_by_label("Yes").check()
    item.get_by_label("A wish").fill("a view")
    until(inbox, "() => JSON.stringify(localStorage).includes('a view')")
    inbox.reload()
    expect(item.get_by_label("A wish")).to_have_value("a view")
    expect(item.get_by_label("First")).to_be_checked()
    item.get_by_role("button", name="Send answer").focus()
    inbox.keyboard.press("Enter")
    expect(questions(inbox)).to_have_count(1)
    expect(inbox.locator("#toasts")).to_contain_text("Answer sent.")
    expect(questions(inbox).first.locator(":focus")).to_have_count(1)
    heard(page, "Noted.")
    expect(page.locator(".from-user").last).to_contain_text("a view")

    # A question answered in its session leaves the inbox
    address = questions(inbox).first.locator(".who a").get_attribute("href") or ""
    assert re.search(rf"{session}#m-\d+$", address)
    page.goto(address)
    say(page, "Anywhere")
    expect(questions(inbox)).to_have_count(0)
    expect(inbox.get_by_text("Nothing is waiting for you.")).to_be_visible()
    expect(inbox).to_have_title("Inbox · Parley")

    # Declining needs a confirmation, and ends the work
    declined, _ = ada.begin("asking", "A trip that is declined")
    expect(questions(inbox)).to_have_count(1)
    decline = inbox.get_by_role("button", name="Decline", exact=True)
    really = inbox.get_by_role("button", name="Decline and stop the task?")
    decline.click()
    really.press("Shift+Tab")
    expect(decline).to_be_visible()
    decline.click()
    really.click()
    expect(questions(inbox)).to_have_count(0)
    expect(inbox.locator("#inbox-title")).to_be_focused()
    expect(inbox.locator(f".recent [data-session='{declined}'] .sign-quiet")).to_be_attached()
    assert inbox.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('draft:'))") == []


def test_a_key_is_asked_for_given_used_again_taken_back_and_refused(page: Page, open_browser: OpenBrowser) -> None:
    begin(page, "calendar", "When am I free?")
    button = page.get_by_role("link", name=GIVE)
    expect(button).to_be_focused()
    expect(page.locator("#words")).to_be_disabled()
    watching = page.context.new_page()
    watching.goto(page.url)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Calendar asks for an API key")).to_be_visible()
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(SECRET)
    page.keyboard.press("Enter")
    page.wait_for_url(SESSION)
    for tab in (page, watching):
        heard(tab, f"I opened it with a key of {len(SECRET)} characters.")
        settled(tab)
        expect(tab.locator("#words")).to_be_enabled()
        expect(tab.get_by_role("link", name=GIVE)).to_have_count(0)
        assert SECRET not in tab.content()
    begin(page, "calendar", "And next week?")
    heard(page, "I opened it with a key")
    page.get_by_role("button", name="Ada", exact=True).click()
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("link", name="Credentials").click()
    page.get_by_role("button", name=f"Revoke {SERVICE} for Calendar").click()
    expect(page.get_by_text("No credentials yet.")).to_be_visible()

    # The credential is asked for again, also in the inbox, and refused
    begin(page, "calendar", "And now?")
    expect(button).to_be_visible()
    page.goto("/inbox")
    expect(questions(page)).to_have_count(1)
    expect(questions(page).locator("form, textarea")).to_have_count(0)
    questions(page).get_by_role("link", name=GIVE).click()
    page.get_by_role("button", name="Decline").click()
    heard(page, f"The credential for {SERVICE} was declined.")


def test_a_trip_is_asked_for_paid_for_and_planned_on_a_phone(open_browser: OpenBrowser) -> None:
    page = open_browser(PHONE, has_touch=True, is_mobile=True, color_scheme="dark").new_page()
    page.goto("/")
    bar = page.get_by_role("navigation", name="Pages")
    expect(bar.get_by_role("link", name="New")).to_have_attribute("aria-current", "page")
    bar.get_by_role("link", name="Sessions").tap()
    expect(bar.get_by_role("link", name="Sessions")).to_have_attribute("aria-current", "page")
    bar.get_by_role("link", name="New").tap()
    page.locator("#agent-picker").tap()
    page.get_by_role("combobox").fill("travel")
    page.locator("[role=option][data-href='/agents/travel']").tap()
    page.wait_for_url("**/?agent=travel")
    page.locator("#words").fill("I want")
    page.keyboard.press("Enter")  # on a touch screen, a new line
    page.keyboard.type("to go away")
    expect(page.locator("#words")).to_have_value("I want\nto go away")
    page.get_by_role("button", name="Send").tap()
    page.wait_for_url(SESSION)
    heard(page, "Where would you like to go?")
    assert page.evaluate(FITS)
    page.get_by_label("Destination").fill("Lisbon")
    page.keyboard.press("Enter")
    heard(page, "When would you like to be in Lisbon?")
    page.get_by_label("Date").fill("2020-01-01")
    page.keyboard.press("Enter")
    heard(page, "1 January 2020 is in the past")
    page.get_by_label("Date").last.fill(f"{date.today() + timedelta(100)}")
    page.keyboard.press("Enter")
    heard(page, "How many people will travel?")
    page.get_by_label("Travelers").fill("2")
    page.keyboard.press("Enter")
    heard(page, "Three days in Lisbon for 2 travelers")
    page.get_by_role("link", name=GIVE).tap()
    expect(page.get_by_text("This is a demo")).to_be_visible()
    assert page.evaluate(FITS)
    page.get_by_label("API key").fill(SECRET)
    page.keyboard.press("Enter")
    page.wait_for_url(SESSION)
    heard(page, "It would be paid with your key. This is a demo")
    settled(page)
    assert SECRET not in page.content()

    # Files open as a sheet over the conversation, and restore the focus
    expect(page.locator("#panel")).not_to_be_visible()
    page.get_by_role("button", name="Files 1").press("Enter")
    expect(page.locator("#panel")).to_be_focused()
    assert page.locator("#main").evaluate("main => main.inert")
    page.locator(".artifact-open").tap()
    preview = page.get_by_role("region", name="Preview")  # a conversation that saw the text arrive still shows it too
    expect(preview.get_by_role("heading", name="Three days in Lisbon")).to_be_visible()
    assert page.evaluate(FITS)
    page.get_by_role("button", name="Close the preview").tap()
    expect(page.locator(".artifact-open")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).not_to_be_visible()
    expect(page.locator("#to-panel")).to_be_focused()
    page.get_by_role("link", name="All sessions").tap()
    page.wait_for_url(lambda address: address.endswith("/?show=all"))
    page.get_by_role("button", name="Account", exact=True).tap()
    page.get_by_role("button", name="Keyboard shortcuts").tap()
    shown = page.get_by_role("dialog", name="Keyboard shortcuts")
    shown.get_by_role("button", name="Close").tap()
    expect(shown).to_be_hidden()
