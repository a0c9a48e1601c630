"""The main journey: from signing in to a report, and to a shorter one."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import MEDIUM, PHONE, SESSION, WIDE, sign_in
from tests.browser.doing import artifact, heard, messages, say, settled
from tests.stack import Stack

# Notes every line of work and every state that the page ever shows.
NOTE_WHAT_IS_SHOWN = """
  window.shown = [];
  new MutationObserver(() => {
    for (const place of document.querySelectorAll(".work-line .text, #head-state .word")) {
      if (place.textContent && shown.at(-1) !== place.textContent) shown.push(place.textContent);
    }
  }).observe(document, {subtree: true, childList: true, characterData: true});
"""


def download(page: Page, link) -> tuple[str, bytes]:
    with page.expect_download() as downloaded:
        link.click()
    return downloaded.value.suggested_filename, Path(downloaded.value.path()).read_bytes()


def test_from_signing_in_to_a_shorter_report(page: Page, parley: Stack, csv: Path) -> None:
    page.context.clear_cookies()
    page.add_init_script(NOTE_WHAT_IS_SHOWN)
    sign_in(page, parley)
    page.locator("main").get_by_role("link", name="Report Turns a CSV file").click()
    page.locator("#files").set_input_files(csv)
    expect(page.locator(".chosen")).to_contain_text("depths.csv")
    page.get_by_label("Message Report").fill("make a report")
    page.get_by_role("button", name="Send").click()
    page.wait_for_url(SESSION)

    question = heard(page, "Which format would you like")
    expect(question).to_contain_text("90 rows and 3 columns")
    expect(page.locator("#head-state")).to_have_text("Waiting for you")
    page.get_by_role("radio", name="PDF").check()
    page.get_by_role("button", name="Send answer").click()

    heard(page, "Your report is ready")
    settled(page)
    shown = page.evaluate("shown")
    assert shown.index("Waiting for you") < shown.index("Drawing the chart…")
    assert "Working" in shown
    page.locator(".work summary").last.click()
    page.locator(".work summary").last.click()
    steps = page.locator(".work").last.locator(".steps li")
    expect(steps).to_have_text(["Reading 90 rows…", "Computing statistics…", "Drawing the chart…", "Writing the PDF…"])

    name, full = download(page, artifact(page, "report.pdf").get_by_role("link"))
    assert (name, full[:5]) == ("report.pdf", b"%PDF-")

    say(page, "Make it shorter")
    heard(page, "The short report is ready")
    settled(page)
    expect(artifact(page, "report.pdf")).to_have_count(2)
    expect(artifact(page, "report.pdf").first).to_contain_text("v2")
    addresses = {artifact(page, "report.pdf").locator("a").nth(n).get_attribute("href") for n in range(2)}
    assert len({address.split("/artifacts/")[1].split("/")[0] for address in addresses}) == 2  # two tasks
    _, short = download(page, artifact(page, "report.pdf").first.get_by_role("link"))
    assert short[:5] == b"%PDF-"
    assert len(short) < len(full)

    before = messages(page).all_inner_texts()
    page.reload()
    expect(messages(page)).to_have_count(len(before))
    assert messages(page).all_inner_texts() == before


@pytest.mark.parametrize("size", [WIDE, MEDIUM, PHONE], ids=["wide", "medium", "phone"])
def test_a_report_can_be_looked_at_beside_the_conversation(open_browser, watched, csv, size) -> None:
    page = open_browser(size).new_page()
    watched(page)
    page.goto("/agents/report")
    page.locator("#files").set_input_files(csv)
    say(page, "a short report as HTML")
    page.wait_for_url(SESSION)
    heard(page, "The short report is ready")
    chip = page.get_by_role("button", name="report.html").first
    chip.scroll_into_view_if_needed()
    chip.click()
    frame = page.frame_locator(".preview-frame")
    expect(frame.locator("h1")).to_contain_text("depths.csv")
    if size != WIDE:
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).not_to_be_visible()
        expect(chip).to_be_focused()


def test_what_is_no_table_is_asked_for_again(page: Page, tmp_path: Path) -> None:
    wrong = tmp_path / "picture.csv"
    wrong.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    page.goto("/agents/report")
    page.locator("#files").set_input_files(wrong)
    say(page, "make a report")
    page.wait_for_url(SESSION)
    heard(page, "Please send a CSV file")
    right = tmp_path / "right.csv"
    right.write_text("a,b\n1,2\n3,4\n")
    page.get_by_label("CSV file").set_input_files(right)
    page.get_by_role("button", name="Send answer").click()
    heard(page, "Which format would you like")
