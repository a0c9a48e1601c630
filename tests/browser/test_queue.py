"""Queued messages can be edited, deleted and sent."""

from playwright.sync_api import expect

from tests.browser.doing import Held, act, begin, heard, say, settled, stop
from tests.browser.test_accessibility import axe


def waiting(page):
    return page.locator("#queue li[data-id]")


def words_that_wait(page):
    return waiting(page).locator(".queue-text [dir]")


def row(page, words):
    return waiting(page).filter(has_text=words)


def test_queued_messages_are_changed_deleted_and_restored(page, go, csv, complaints):
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

    row(page, "the fourth").get_by_role("button", name="Delete").click()
    expect(waiting(page)).to_have_count(2)
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


def test_work_reads_a_message_and_stops(page, go):
    begin(page, "listening", f"listen {go}")
    expect(page.locator(".work").get_by_text("Looking around")).to_be_visible()
    after = page.get_by_role("button", name="After this step")
    expect(after).to_be_visible()
    say(page, "the first")
    message = page.locator(".from-user", has_text="the first")
    expect(message).to_contain_text("Waiting to be read")
    page.locator("#words").fill("the later")
    page.locator("#words").press("Control+Enter")
    expect(words_that_wait(page)).to_have_text(["the later"])
    page.locator("#words").fill("a draft")
    assert axe(page) == []
    page.reload()
    expect(message).to_contain_text("Waiting to be read")
    go.touch()
    expect(message).to_contain_text("Read at step 2")
    after.click()
    heard(page, "Heard the first.")
    heard(page, "Done with the later.")
    page.reload()
    expect(message).to_contain_text("Read at step 2")
