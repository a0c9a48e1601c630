"""What a conversation does while one looks: words stream in place, work can be stopped, messages queue."""

from contextlib import suppress

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.agents import STORY
from tests.browser.conftest import LOOKS, SESSION
from tests.browser.doing import artifact, begin, heard, messages, say, settled

NOTE_WHAT_STREAMS = """
  window.streamed = [];
  new MutationObserver(() => {
    const stream = document.querySelector(".streaming");
    if (stream && streamed.at(-1) !== stream.textContent) streamed.push(stream.textContent);
  }).observe(document, {subtree: true, childList: true, characterData: true});
"""


def test_words_appear_as_they_are_spoken_and_end_laid_out_in_the_same_place(page: Page) -> None:
    page.add_init_script(NOTE_WHAT_STREAMS)
    begin(page, "patient", "the second")  # a session that is open before the story begins
    settled(page)
    page.goto("/agents/storyteller")
    say(page, "Tell me a story")
    page.wait_for_url(SESSION)
    expect(page.locator(".from-agent strong")).to_have_text("river")
    say(page, "And once more")
    expect(page.locator(".from-agent strong")).to_have_count(2)
    streamed = page.evaluate("streamed")
    grown = [text for text in streamed if STORY.startswith(text)]
    assert len(grown) > 3
    assert grown[-4:] == sorted(grown[-4:], key=len)
    expect(messages(page)).to_have_count(4)  # each text stands once, as one message
    spoken = page.locator("#announcer p").all_text_contents()
    assert 1 <= sum("river" in words for words in spoken) <= 2  # the first may have been there when the page was loaded


@LOOKS
def test_words_stream_work_stops_and_is_done_again_at_every_size(look, size, scheme) -> None:
    page = look(size, scheme)
    page.add_init_script(NOTE_WHAT_STREAMS)
    begin(page, "interviewer", "Ask me something")
    streams = page.locator(".streaming.caret")
    expect(streams).to_contain_text("Let me **think**")
    expect(streams).to_be_in_viewport()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".work")).to_contain_text("Stopped")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(streams).to_have_count(0)
    page.get_by_role("button", name="Send again").click()
    expect(page.locator(".from-user")).to_have_count(2)
    expect(streams).to_contain_text("for as long as")
    expect(streams).to_be_in_viewport()
    expect(page.get_by_label("Colour")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert len(page.evaluate("streamed")) > 1
    page.get_by_role("button", name="Stop").click()
    settled(page)


def test_tool_calls_and_thoughts_are_folded_below_the_work(page: Page) -> None:
    begin(page, "storyteller", "Tell me a story")
    heard(page, "river")
    folded = ("Rivers run to the sea.", "A river would be nice.")
    for words in folded:
        expect(page.get_by_text(words)).to_be_hidden()
    page.locator(".work summary").click()
    for words in folded:
        expect(page.get_by_text(words)).to_be_visible()


def test_a_countdown_is_seen_being_made_and_stops_when_told(page: Page) -> None:
    begin(page, "countdown", "Count down from 900")
    expect(artifact(page, "countdown")).to_contain_text("being made")
    opened = page.locator(".preview-so-far")
    for _ in range(3):  # on a busy machine the page may not be ready for the first click
        artifact(page, "countdown").get_by_role("button").click()
        with suppress(AssertionError):
            expect(opened).to_be_visible(timeout=7_000)
            break
    expect(opened).to_contain_text("895")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".work")).to_contain_text("Stopped")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(artifact(page, "countdown")).to_have_count(0)
    page.reload()
    expect(page.locator(".work")).to_contain_text("Stopped")
    expect(page.get_by_role("button", name="Send again")).to_be_visible()


def test_a_countdown_delivers_all_it_counted(page: Page) -> None:
    begin(page, "countdown", "30")
    heard(page, "Lift-off.")
    artifact(page, "countdown").get_by_role("button").click()
    shown = page.locator(".preview-text").inner_text().split()
    assert shown == [str(number) for number in range(30, 0, -1)]


def test_the_picture_of_work_that_goes_on_is_drawn_again_now_and_then(page: Page) -> None:
    begin(page, "long", "60 a while")
    expect(page.locator("#head-state")).to_contain_text("Working")
    page.wait_for_timeout(3000)  # by then it was drawn for the beginning of the work
    with page.expect_request("**/timeline", timeout=20_000):
        pass
    page.get_by_role("button", name="Stop").click()
    settled(page)


def test_ones_own_long_message_is_folded_until_all_of_it_is_wanted(page: Page) -> None:
    begin(page, "hello", "\n\n".join(f"Paragraph {number} of a long message." for number in range(300)))
    heard(page, "Paragraph")
    said = page.locator(".from-user")
    expect(said.locator(".prose")).to_have_css("max-height", "384px")  # 24rem
    said.get_by_role("button", name="Show all").press("Enter")
    expect(said.get_by_role("button", name="Show all")).to_have_count(0)
    expect(said.locator(".prose")).to_have_css("max-height", "none")
    expect(said).to_be_focused()


def test_what_is_sent_while_an_agent_works_is_queued_and_then_read(page: Page) -> None:
    begin(page, "patient", "the first")
    expect(page.locator(".work")).to_contain_text("Taking my time…")
    page.locator("#words").fill("the second")
    page.keyboard.press("Control+Enter")  # now, into the work that goes on
    expect(page.locator(".mark", has_text="Queued")).to_be_visible()
    heard(page, "That was the first message.")
    heard(page, "That was the second message.")
    expect(page.locator(".mark")).to_have_count(0)


def test_what_was_said_into_work_that_is_stopped_was_not_read(page: Page) -> None:
    begin(page, "long", "60 seconds")
    expect(page.locator(".work")).to_contain_text("At it…")
    page.locator("#words").fill("One thing more")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".mark")).to_have_text("Queued")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".mark")).to_have_text("Not read")
    page.reload()
    expect(page.locator(".mark")).to_have_text("Not read")


def test_a_failure_says_why_and_can_be_sent_again(page: Page) -> None:
    begin(page, "failing", "Measure")
    heard(page, "The instrument did not answer.")
    expect(page.locator(".work").last).to_contain_text("Failed")
    page.get_by_role("button", name="Send again").click()
    expect(page.locator(".from-user")).to_have_count(2)
    expect(page.locator(".from-agent")).to_have_count(2)
    expect(page.locator(".from-user").last).to_contain_text("Measure")


def test_an_agent_that_declines_is_told_apart_from_one_that_fails(page: Page) -> None:
    begin(page, "failing", "decline this")
    heard(page, "I only do what I can do.")
    expect(page.locator(".work").last).to_contain_text("Declined")


def test_an_agent_that_answers_at_once_leaves_no_work_behind(page: Page) -> None:
    begin(page, "hello", "I am Ada")
    heard(page, "I am Ada")
    expect(page.locator(".work")).to_have_count(0)
    say(page, "Still me")
    heard(page, "Still me")


def test_hostile_words_stay_words(page: Page) -> None:
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    hostile = '<img src=x onerror="alert(1)"><script>alert(2)</script> [x](javascript:alert(3))'
    begin(page, "echo", hostile)
    expect(heard(page, "onerror")).to_contain_text("<script>alert(2)</script>")
    expect(page.locator(".transcript img, .transcript script, .transcript a[href^=javascript]")).to_have_count(0)
    assert dialogs == []


@pytest.mark.parametrize("text", ["مرحبا بالعالم", "שלום עולם"])
def test_text_from_right_to_left_stands_on_the_right(page: Page, text: str) -> None:
    begin(page, "hello", text)
    say(page, "and now in English, which stands on the left")
    heard(page, "English")
    direction = "element => getComputedStyle(element.closest('.prose')).direction"
    assert page.locator(".from-user p").first.evaluate(direction) == "rtl"
    assert page.locator(".from-user p").last.evaluate(direction) == "ltr"


def test_the_reader_is_not_pulled_away_from_what_they_read(page: Page) -> None:
    begin(page, "echo", "\n".join(f"line {number}" for number in range(120)))
    heard(page, "line 119")
    scrolled = page.locator("#transcript")
    scrolled.evaluate("element => element.scrollTop = 100")
    expect(page.locator("#to-end")).to_be_hidden()
    page.evaluate("document.querySelector('#words').value = 'more'")
    page.locator("#transcript").evaluate("element => element.scrollTop = 100")
    other = page.context.new_page()
    other.goto(page.url)
    say(other, "from another window")
    expect(page.locator("#to-end")).to_be_visible()
    assert scrolled.evaluate("element => element.scrollTop") == 100
    page.get_by_role("button", name="Jump to latest").click()
    expect(page.locator("#to-end")).to_be_hidden()
    assert scrolled.evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight") < 2


def test_earlier_messages_come_as_one_scrolls_and_nothing_moves(page: Page, complaints: list[str]) -> None:
    begin(page, "hello", "message 0")
    heard(page, "message 0")
    for number in range(1, 33):
        say(page, f"message {number}")
        heard(page, f"“message {number}”")
    page.reload()
    expect(messages(page).last).to_contain_text("message 32")
    expect(page.get_by_role("button", name="Show earlier messages")).to_be_visible()
    scrolled = page.locator("#transcript")
    asked: list[str] = []

    def lost(route: Route) -> None:
        asked.append(route.request.url)
        route.abort()

    page.route("**/earlier?*", lost)
    for _ in range(5):
        scrolled.evaluate("element => { element.scrollTop = 1; element.scrollTop = 0; }")
        page.wait_for_timeout(100)
    expect(page.locator(".composer-error")).to_contain_text("What was said before could not be loaded.")
    assert len(asked) == 1  # not at each step of the wheel
    page.unroute_all()
    complaints.clear()
    first = messages(page).first.get_attribute("data-message")
    seen = page.locator(f"[data-message='{first}']")
    before = seen.bounding_box()
    page.get_by_role("button", name="Show earlier messages").click()
    expect(page.locator("#items")).to_contain_text("“message 0”")
    expect(page.locator("#earlier")).to_be_hidden()
    expect(page.locator(".composer-error")).to_be_hidden()
    assert abs(seen.bounding_box()["y"] - before["y"]) < 60  # the button itself went away
