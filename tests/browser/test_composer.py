"""Where people write: the keyboard does all of it, and what cannot be sent is said before it is sent."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, SESSION
from tests.browser.doing import begin, heard, say, settled, until


def test_everything_can_be_done_by_keyboard(page: Page) -> None:
    page.goto("/")
    page.locator("main a[href='/agents/asking']").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/agents/asking")
    expect(page.locator("#words")).to_be_focused()
    page.keyboard.type("A trip,")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("please")
    page.keyboard.press("Enter")
    page.wait_for_url(SESSION)
    expect(page.get_by_role("radio", name="First")).to_be_focused()  # the question has the focus
    page.keyboard.press("ArrowDown")  # Second
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # Yes
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")  # 3 people
    page.keyboard.press("Enter")
    heard(page, "Noted.")
    expect(page.locator(".from-user").last).to_contain_text("And back again?")
    values = page.locator(".from-user").last.locator("dd").all_text_contents()
    assert values == ["Second", "Yes", "3"]
    expect(page.locator(".from-user").first.locator(".verbatim")).to_have_text("A trip,\nplease")


def test_an_answer_that_is_missing_is_named_and_found(page: Page) -> None:
    begin(page, "asking", "A trip")
    page.get_by_role("button", name="Send answer").click()
    expect(page.locator("[data-field=answer-class] .field-error")).to_be_visible()
    expect(page.get_by_role("radio", name="First")).to_be_focused()


def test_the_server_has_the_last_word_on_an_answer(page: Page, complaints: list[str]) -> None:
    begin(page, "asking", "A trip")
    page.get_by_role("radio", name="First").check()
    page.get_by_role("radio", name="No").check()
    page.locator("[name=answer-people]").evaluate("field => field.removeAttribute('max')")
    page.locator("[name=answer-people]").fill("12")
    page.get_by_role("button", name="Send answer").click()
    expect(page.locator(".question-error")).to_have_text("How many people: the number must be from 1 to 9.")
    expect(page.locator(".pending")).to_have_count(0)
    page.locator("[name=answer-people]").fill("2")
    page.get_by_role("button", name="Send answer").click()
    heard(page, "Noted.")
    complaints.clear()


SEEN_TO = """async () => {
  const known = performance.getEntriesByType("resource").find(({ name }) => name.includes("/session/asked."));
  if (!known) return false;
  await import(known.name);
  await new Promise((done) => setTimeout(done));
  return true;
}"""
"""Whether what a page does with a question that comes was done."""


def test_a_question_takes_the_focus_from_nobody_who_is_writing(page: Page) -> None:
    begin(page, "interviewer", "Ask me something")
    heard(page, "Let me")
    words = page.locator("#words")
    words.press_sequentially("let me think")
    expect(page.locator("form.question")).to_have_count(0)  # it comes while somebody writes
    expect(page.locator("form.question")).to_be_visible()
    until(page, SEEN_TO)
    expect(words).to_be_focused()
    expect(words).to_have_value("let me think")


def test_a_question_has_the_focus_of_who_writes_nothing(page: Page) -> None:
    begin(page, "interviewer", "Ask me something")
    heard(page, "Let me")
    expect(page.locator("#words")).to_be_focused()
    expect(page.get_by_label("Colour")).to_be_focused()


def test_a_question_pulls_nobody_away_from_what_they_read(page: Page) -> None:
    begin(page, "echo", "\n".join(f"line {number}" for number in range(120)))
    heard(page, "line 119")
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_role("button", name="Switch").click()
    other.locator("[data-switch=asking]").click()
    expect(page.locator("#with")).to_contain_text("Asking")
    page.locator("#transcript").evaluate("element => element.scrollTop = 100")
    say(other, "A trip")
    expect(page.locator("form.question")).to_have_count(1)
    expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
    page.wait_for_timeout(500)
    assert page.locator("#transcript").evaluate("element => element.scrollTop") == 100
    assert not page.evaluate("Boolean(document.activeElement.closest('form.question'))")


def test_a_file_comes_along_and_can_be_left_behind(page: Page, csv: Path) -> None:
    page.goto("/agents/echo")
    page.locator("#files").set_input_files(csv)
    page.locator("#files").set_input_files({"name": "b.txt", "mimeType": "text/plain", "buffer": b"b"})
    page.get_by_role("button", name="Remove b.txt").click()
    expect(page.locator(".chosen li")).to_have_count(1)
    page.locator("#words").press("Enter")  # a file alone is enough
    page.wait_for_url(SESSION)
    expect(page.locator(".from-user .chip")).to_contain_text("depths.csv")
    with page.expect_download() as downloaded:
        page.locator(".from-user .chip").click()
    assert Path(downloaded.value.path()).read_bytes() == csv.read_bytes()


def test_a_file_that_was_chosen_before_the_page_was_ready_is_not_forgotten(page: Page, csv: Path) -> None:
    held = []
    page.route("**/js/agent.*.js", lambda route: held.append(route))
    page.goto("/agents/echo", wait_until="commit")
    page.locator("#files").set_input_files(csv)
    expect(page.get_by_role("button", name="Send")).to_be_disabled()  # the browser would send the form by itself
    held.pop().continue_()
    expect(page.locator(".chosen")).to_contain_text("depths.csv")
    page.get_by_role("button", name="Send").click()
    page.wait_for_url(SESSION)


def test_a_file_can_be_dropped_onto_the_page(page: Page) -> None:
    page.goto("/agents/echo")
    page.evaluate(
        """async () => {
          const carried = new DataTransfer();
          carried.items.add(new File(["dropped"], "dropped.txt", {type: "text/plain"}));
          const isTaken = (type) => {
            const event = new DragEvent(type, {dataTransfer: carried, bubbles: true, cancelable: true});
            return !document.querySelector("main").dispatchEvent(event);
          };
          isTaken("dragenter");
          while (!isTaken("dragover")) await new Promise(requestAnimationFrame);
          isTaken("drop");
        }"""
    )
    expect(page.locator(".chosen")).to_contain_text("dropped.txt")


PASTE = """([types, name]) => {
  const carried = new DataTransfer();
  for (const type of types) carried.setData(type, "a");
  carried.items.add(new File(["drawn"], name, { type: "image/png" }));
  const event = new ClipboardEvent("paste", { clipboardData: carried, bubbles: true });
  document.getElementById("words").dispatchEvent(event);
}"""


def test_a_picture_is_pasted_and_that_of_pasted_cells_is_left_out(page: Page) -> None:
    page.goto("/agents/echo")
    page.evaluate(PASTE, [["text/plain", "text/html"], "cells.png"])
    page.evaluate(PASTE, [[], "picture.png"])
    expect(page.locator(".chosen li")).to_have_text([re.compile("picture.png")])


def test_where_fingers_type_enter_begins_a_line(open_browser: Any) -> None:
    page = open_browser(PHONE, has_touch=True, is_mobile=True).new_page()
    page.goto("/agents/hello")
    page.locator("#words").fill("one")
    page.keyboard.press("Enter")
    page.keyboard.type("two")
    expect(page.locator("#words")).to_have_value("one\ntwo")
    page.get_by_role("button", name="Send").tap()
    page.wait_for_url(SESSION)
    heard(page, "two")


def test_an_empty_file_is_refused_by_name(page: Page) -> None:
    page.goto("/agents/echo")
    page.locator("#files").set_input_files({"name": "nothing.csv", "mimeType": "text/csv", "buffer": b""})
    expect(page.get_by_role("alert")).to_have_text("“nothing.csv” is empty. Choose a file that has something in it.")
    expect(page.locator(".chosen li")).to_have_count(0)


def test_an_example_is_a_beginning(page: Page) -> None:
    page.goto("/agents/countdown")
    page.get_by_role("button", name="Count down from 20").click()
    expect(page.locator("#words")).to_have_value("Count down from 20")
    expect(page.locator("#words")).to_be_focused()
    page.locator("#words").fill("ten lines of my own")
    page.get_by_role("button", name="Count down from 20").click()
    expect(page.locator("#words")).to_have_value("Count down from 20")
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.locator("#words")).to_have_value("ten lines of my own")


def test_nothing_is_not_sent(page: Page) -> None:
    page.goto("/agents/echo")
    page.locator("#words").fill("   ")
    page.keyboard.press("Enter")
    expect(page).to_have_url(page.url)
    expect(page.locator("#words")).to_be_focused()


def test_what_was_begun_is_kept_by_session_until_it_is_sent(page: Page) -> None:
    page.goto("/agents/echo")
    page.locator("#words").fill("for another day")
    begin(page, "hello", "before")
    heard(page, "before")
    session = page.url
    page.locator("#words").fill("half a")
    page.goto("/agents/echo")
    expect(page.locator("#words")).to_have_value("for another day")
    page.goto(session)
    expect(page.locator("#words")).to_have_value("half a")
    page.locator("#words").press("End")
    page.keyboard.type(" thought")
    page.keyboard.press("Escape")
    expect(page.locator("#words")).not_to_be_focused()
    page.reload()
    expect(page.locator("#words")).to_have_value("half a thought")
    page.locator("#words").press("Enter")
    heard(page, "half a thought")
    page.reload()
    expect(page.locator("#words")).to_have_value("")


GONE = "The files of this draft are gone; choose them again."


@pytest.mark.parametrize("place", ["/agents/echo", "a session"])
def test_a_draft_says_that_its_files_are_gone(page: Page, csv: Path, place: str) -> None:
    if place == "a session":
        begin(page, "echo", "before")
        heard(page, "before")
        place = page.url
    page.goto(place)
    page.locator("#words").fill("look at this")
    page.locator("#files").set_input_files(csv)
    expect(page.locator(".chosen")).to_contain_text("depths.csv")
    page.reload()
    expect(page.get_by_role("alert")).to_have_text(GONE)
    expect(page.locator("#words")).to_have_value("look at this")
    page.reload()
    expect(page.get_by_role("alert")).to_have_text(GONE)  # until something is done about it
    page.locator("#files").set_input_files(csv)
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("button", name="Remove depths.csv").click()
    page.reload()
    expect(page.locator("#words")).to_have_value("look at this")
    page.locator("#words").press("End")
    page.keyboard.type(" again")  # by now the page would have said it
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_draft_that_was_given_up_tells_of_no_files(page: Page, csv: Path) -> None:
    page.goto("/agents/hello")
    page.locator("#words").fill("look at this")
    page.locator("#files").set_input_files(csv)
    expect(page.locator(".chosen")).to_contain_text("depths.csv")
    page.reload()
    expect(page.get_by_role("alert")).to_have_text(GONE)
    page.locator("#words").fill("")
    page.locator("#words").fill("something else")
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.endsWith(':with'))") == []


def test_a_draft_keeps_what_it_refers_to(page: Page) -> None:
    begin(page, "echo", "the first")
    heard(page, "the first")
    settled(page)
    page.locator(".from-user").first.hover()
    page.locator(".from-user").first.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Refer to this").click()
    page.locator("#words").fill("and this?")
    page.reload()
    chip = page.locator("#composer-notes [data-reference]")
    expect(chip).to_contain_text("the first")
    page.locator("#words").press("Enter")
    expect(chip).to_have_count(0)
    said = page.locator(".from-user", has_text="and this?")
    expect(said.locator("a.chip")).to_contain_text("the first")
    page.reload()
    heard(page, "and this?")
    expect(chip).to_have_count(0)
