"""Questions of agents: in the inbox, for a key, and on a phone."""

import re
from datetime import date, timedelta

from playwright.sync_api import expect

from tests.browser.conftest import PHONE
from tests.browser.doing import FITS, SESSION, begin, heard, say, settled, wait

GIVE = "Enter credential"
SECRET = "k-5f1d2a90-secret"


def questions(page):
    return page.locator(".inbox-item")


def test_only_a_press_approves_a_tool_call(page):
    begin(page, "clerk", "Write to Bob")
    card = page.locator("form.approval")
    approve = card.get_by_role("button", name="Approve")
    pressed_by_script = (
        "button => (button.click(), Boolean(document.querySelector('form.approval [role=alert]:not([hidden])')))"
    )
    wait(page, lambda: approve.evaluate(pressed_by_script))  # what watches the card may still be loading
    expect(card.get_by_role("alert")).to_contain_text("Press the button yourself")
    approve.click()
    heard(page, "Sent to bob.")
    settled(page)
    expect(card).to_have_count(0)


def test_inbox_answers_and_declines_all_questions(page, ada):
    inbox = page.context.new_page()
    session, _ = ada.begin("asking", "The first trip")
    inbox.goto("/inbox")
    expect(questions(inbox)).to_have_count(1)
    begin(page, "asking", "The second trip")
    expect(questions(inbox)).to_have_count(2)
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
    item.get_by_role("button", name="Send answer").focus()
    inbox.keyboard.press("Enter")
    expect(questions(inbox)).to_have_count(1)
    expect(inbox.locator("#toasts")).to_contain_text("Answer sent.")
    heard(page, "Noted.")

    # A question answered in its session leaves the inbox
    address = questions(inbox).first.locator(".who a").get_attribute("href") or ""
    assert re.search(rf"{session}#m-\d+$", address)
    page.goto(address)
    say(page, "Anywhere")
    expect(questions(inbox)).to_have_count(0)


def test_trip_is_planned_and_paid_on_a_phone(open_browser):
    page = open_browser(PHONE, has_touch=True, is_mobile=True, color_scheme="dark").new_page()
    page.goto("/")
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
