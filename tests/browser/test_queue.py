"""Queued messages can be edited, deleted and sent."""

from pathlib import Path

from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.doing import Held, act, begin, heard, say, session_of, settled, stop
from tests.browser.people import Person


def waiting(page: Page) -> Locator:
    return page.locator("#queue li[data-id]")


def words_that_wait(page: Page) -> Locator:
    return waiting(page).locator(".queue-text [dir]")


def row(page: Page, words: str) -> Locator:
    return waiting(page).filter(has_text=words)


def test_queued_messages_are_changed_deleted_and_restored(
    page: Page, ada: Person, go: Path, csv: Path, complaints: list[str]
) -> None:
    begin(page, "long", "before")
    heard(page, "Done with before.")
    settled(page)
    script = Held(page, "**/js/session/queue.*")
    page.reload()  # a slow page has loaded it for the first message
    say(page, f"until {go}")
    expect(page.locator(".composer .stop")).to_be_visible()
    act(page, "before", "Reply to this")
    page.locator("#files").set_input_files([csv])
    say(page, "the second")
    say(page, "the third")  # before the queue's script has loaded
    script.let_go()
    say(page, "the fourth")
    expect(words_that_wait(page)).to_have_text(["the second", "the third", "the fourth"])
    other = page.context.new_page()
    other.goto(page.url)
    expect(waiting(other)).to_have_count(3)

    # Edited by keyboard only; the draft stays
    edit = row(page, "the third").get_by_role("button", name="Edit")
    field = page.get_by_role("textbox", name="Queued message")
    edit.press("Enter")
    field.fill("the changed")
    page.keyboard.press("Escape")
    expect(edit).to_be_focused()
    page.reload()
    edit.click()
    expect(field).to_have_value("the changed")
    page.keyboard.press("Enter")
    expect(row(page, "the changed").get_by_role("button", name="Edit")).to_be_focused()
    expect(row(other, "the changed")).to_be_visible()

    # Deleted, then restored in place with file and reference, though the connection breaks
    row(page, "the second").get_by_role("button", name="Delete").click()
    for tab in (page, other):
        expect(waiting(tab)).to_have_count(2)
    page.route("**/restore", lambda route: route.abort())
    page.get_by_role("button", name="Undo").click()
    lost = page.locator(".toast", has_text="The server cannot be reached.")
    expect(lost).to_be_visible()
    page.unroute_all()
    lost.get_by_role("button", name="Undo").click()
    for tab in (page, other):
        expect(words_that_wait(tab)).to_have_text(["the second", "the changed", "the fourth"])

    # A double press acts once, and deleting a deleted message is no error
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method) if "/queue/" in request.url else None)
    address = f"/sessions/{session_of(page)}/queue/{row(page, 'the fourth').get_attribute('data-id')}"

    def too_late(route: Route) -> None:
        ada.api("DELETE", address)
        route.continue_()

    page.route("**/queue/*", too_late)
    row(page, "the fourth").get_by_role("button", name="Delete").evaluate("one => { one.click(); one.click(); }")
    expect(page.locator("#toasts")).to_contain_text("Queued message deleted.")
    expect(waiting(page)).to_have_count(2)
    assert asked.count("DELETE") == 1
    expect(page.locator(".composer-error")).to_be_hidden()
    page.unroute_all()
    complaints.clear()

    # After Stop the person decides; then the rest is sent.
    stop(page)
    expect(page.locator(".queue-head")).to_contain_text("You stopped the task")
    row(page, "the second").get_by_role("button", name="Send now").click()
    heard(page, "Done with the second.")
    heard(page, "Done with the changed.")
    for tab in (page, other):
        expect(waiting(tab)).to_have_count(0)
    said = page.locator(".from-user", has_text="the second")
    expect(said).to_contain_text("depths.csv")
    expect(said.locator("a.chip", has_text="before")).to_be_visible()


def test_queue_is_sent_after_the_tab_closed(page: Page, go: Path, complaints: list[str]) -> None:
    begin(page, "long", f"until {go}")
    expect(page.locator(".composer .stop")).to_be_visible()
    say(page, "the second")
    expect(waiting(page)).to_have_count(1)
    page.route("**/queue", lambda route: route.abort())
    say(page, "without a line")
    pending = page.locator("#queue li.pending", has_text="without a line")
    expect(pending).to_be_visible()
    page.reload()
    expect(pending).to_be_visible()
    page.unroute("**/queue")
    complaints.clear()
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(words_that_wait(page)).to_have_text(["the second", "without a line"])
    page.locator("#words").fill("the urgent")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".from-user", has_text="the urgent")).to_contain_text("Queued")
    address = page.url
    page.goto("about:blank")
    go.touch()
    page.goto(address)
    heard(page, "Done with without a line.")
    expect(waiting(page)).to_have_count(0)
    expect(page.locator(".mark")).to_have_count(0)
    said = [words.split("\n")[0] for words in page.locator(".from-user .prose").all_text_contents()]
    assert said[1:] == ["the urgent", "the second", "without a line"]

    # Messages for stopped work were not read
    begin(page, "talking", "Go on")
    page.locator("#words").fill("One thing more")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".mark", has_text="Queued")).to_have_count(1)
    stop(page)
    expect(page.locator(".mark", has_text="Not read")).to_have_count(1)
