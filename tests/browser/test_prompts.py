"""Prompts in the composer, by keyboard alone and by touch."""

from playwright.sync_api import expect

from tests.browser.conftest import PHONE
from tests.browser.doing import messages

TEXT = "Summarize {{topic}} in {{tone: plain | formal = plain}} words."


def test_prompt_is_chosen_filled_in_and_inserted(open_browser, ada):
    ada.api("POST", "/prompts", name="Summary", text=TEXT)
    ada.api("POST", "/prompts", name="Greeting", text="Good morning, all.")
    session, _ = ada.begin("echo", "Hello")
    page = open_browser().new_page()
    page.goto(f"/sessions/{session}")
    words = page.locator("#words")
    words.fill("Please read:\n")
    page.keyboard.type("/")
    options = page.locator("#prompts [role=option]")
    expect(options).to_have_count(2)
    page.keyboard.type("sum")
    expect(options).to_have_count(1)
    expect(words).to_have_attribute("aria-activedescendant", "prompt-summary")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Summary").get_by_label("Topic")).to_be_focused()
    page.keyboard.press("Enter")  # something is missing
    expect(page.get_by_label("Topic")).to_have_attribute("aria-invalid", "true")
    page.keyboard.type("energy")
    page.keyboard.press("Enter")
    expect(words).to_be_focused()
    expect(words).to_have_value("Please read:\nSummarize energy in plain words.")
    expect(messages(page)).to_have_count(2)

    # By touch, and without variables
    phone = open_browser(PHONE, has_touch=True).new_page()
    phone.goto("/")
    phone.locator("#words").tap()
    phone.keyboard.type("/gre")
    phone.locator("#prompts [role=option]").tap()
    expect(phone.locator("#words")).to_have_value("Good morning, all.")
