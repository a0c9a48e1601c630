"""A finished task can be given stars and words, by mouse or keyboard; they are there when the page is opened again."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.doing import begin, heard, settled


def test_an_answer_is_given_stars_and_words(page: Page) -> None:
    begin(page, "echo", "please rate me")
    heard(page, "please rate me")
    settled(page)
    stars = page.get_by_role("group", name="Rate this answer")
    stars.get_by_role("button", name="4 of 5").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".rating .rated")).to_have_text("Good")
    expect(stars.get_by_role("button", name="4 of 5")).to_be_focused()
    page.get_by_label("Why?").fill("well said")
    page.keyboard.press("Enter")
    expect(page.locator(".rating .rated")).to_have_text("Thank you.")
    expect(stars.get_by_role("button", name="4 of 5")).to_be_focused()
    page.reload()
    expect(stars.get_by_role("button", name="4 of 5")).to_have_attribute("aria-pressed", "true")
    expect(stars.locator("button", has_text="★")).to_have_count(4)
