"""What leaves a session: copied words, links to read it by, and what a message says it is about."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, WIDE
from tests.browser.doing import begin, heard, messages, say, settled, until
from tests.browser.test_branches import act
from tests.stack import Stack


@pytest.fixture
def page(open_browser, watched) -> Page:
    page = open_browser(permissions=["clipboard-read", "clipboard-write"]).new_page()
    watched(page)
    return page


def clipboard(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_a_message_is_copied_as_it_is_read_and_as_it_was_written(page: Page) -> None:
    begin(page, "storyteller", "Tell me a story")
    story = heard(page, "river")
    settled(page)
    story.hover()
    page.locator(".from-agent").get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("Copied.")
    assert clipboard(page).startswith("A story\n")
    assert "a time there was a river." in clipboard(page)
    act(page, "river", "Copy as Markdown", role="agent")
    until(page, "() => navigator.clipboard.readText().then((words) => words.startsWith('#'))")
    assert clipboard(page).startswith("# A story\n\nOnce upon a *time* there was a **river**.")
    act(page, "river", "Copy link", role="agent")
    expect(page.locator("#toasts")).to_contain_text("The link to this message is in the clipboard.")
    assert re.fullmatch(re.escape(page.url) + r"#m-\d+", clipboard(page))


def test_a_piece_of_code_is_copied_alone(page: Page) -> None:
    begin(page, "echo", "Run this:\n\n```python\nprint(1)\n```\n\nand no more.")
    heard(page, "and no more")
    settled(page)
    page.locator(".from-agent .copy-code").click()
    expect(page.locator("#toasts")).to_contain_text("Copied.")
    assert clipboard(page).strip() == "print(1)"


def test_the_whole_session_is_copied_and_downloaded_as_markdown(page: Page) -> None:
    begin(page, "echo", "keep *this*")
    heard(page, "keep")
    settled(page)
    page.get_by_role("button", name="More about this session").click()
    page.get_by_role("button", name="Copy as Markdown").click()
    expect(page.locator("#toasts")).to_contain_text("as Markdown")
    assert re.match(r"# keep \\\*this\\\*\n\n## You · [-\d]+ [:\d]+\n\nkeep \*this\*\n\n## Echo · ", clipboard(page))
    copied = clipboard(page)
    page.get_by_role("button", name="More about this session").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as Markdown").click()
    assert download.value.suggested_filename == "keep-this.md"
    assert download.value.path().read_text() == copied


def test_a_reference_is_shown_and_recorded(page: Page, parley: Stack) -> None:
    begin(page, "echo", "the measurements of May")
    heard(page, "the measurements of May")
    settled(page)
    say(page, "something between")
    heard(page, "something between")
    settled(page)
    act(page, "the measurements of May", "Refer to this", role="agent")
    chip = page.locator("#composer-notes .chip")
    expect(chip).to_contain_text("the measurements of May")
    expect(page.locator("#words")).to_be_focused()
    act(page, "something between", "Refer to this", role="agent")
    expect(chip).to_have_count(2)
    page.get_by_role("button", name="Do not refer to something between").click()
    expect(chip).to_have_count(1)
    say(page, "and once more")
    heard(page, "and once more")
    settled(page)
    expect(chip).to_have_count(0)
    for _ in range(2):  # as it happens, and as it is read later
        shown = messages(page).filter(has_text="and once more").first.locator("a.chip")
        expect(shown).to_contain_text("the measurements of May")
        page.reload()
    session = page.url.rsplit("/", 1)[1]
    tasks = page.request.get(f"/api/v1/sessions/{session}?include=tasks").json()["tasks"]
    by_age = sorted(tasks, key=lambda task: task["createdAt"])
    assert shown.get_attribute("href") == f"/tasks/{by_age[0]['id']}"
    told = parley.manage(
        "shell", "-v0", "-c",
        f"from apps.conversations.models import Task; print(Task.objects.get(pk='{by_age[-1]['id']}').references)",
    )  # fmt: skip
    assert told.stdout.strip() == f"['{by_age[0]['id']}']"
    say(page, "without")
    heard(page, "without")
    expect(messages(page).filter(has_text="without").first.locator("a.chip")).to_have_count(0)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_link_is_made_read_signed_out_and_taken_back(open_browser, watched, size) -> None:
    page = open_browser(size).new_page()
    watched(page)
    begin(page, "echo", "for everybody to read")
    heard(page, "for everybody to read")
    settled(page)
    page.get_by_role("button", name="More about this session").click()
    page.get_by_role("button", name="Share by a link…").click()
    dialog = page.get_by_role("dialog", name="Share this session")
    expect(dialog).to_contain_text("There is no link to this session.")
    dialog.get_by_label("The link works for").select_option("a week")
    dialog.get_by_role("button", name="Make a link").dblclick()
    link = dialog.get_by_label("The link", exact=True)
    expect(link).to_be_focused()
    expect(dialog.get_by_role("listitem")).to_contain_text("Just made, works until")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    stranger = open_browser(storage_state=None).new_page()
    address = link.input_value()
    stranger.goto(address[address.index("/shared/") :])
    expect(stranger.get_by_text("for everybody to read").first).to_be_visible()
    dialog.get_by_role("button", name="Take back").click()
    expect(dialog).to_contain_text("The link was taken back.")
    expect(dialog.get_by_role("listitem")).to_have_count(0)
    stranger.reload()
    expect(stranger.get_by_text("There is nothing at this link.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="More about this session")).to_be_focused()
