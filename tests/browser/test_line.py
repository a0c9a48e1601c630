"""A lost line shows at once and repairs itself; a message is neither lost nor said twice."""

from playwright.sync_api import Page, Route, expect

from tests.browser.doing import begin, heard, messages, say, settled
from tests.stack import Stack

UNREACHED, BACK = "The server cannot be reached.", "when the line is back."


def test_a_server_that_restarts_is_waited_for(page: Page, parley: Stack, complaints: list[str]) -> None:
    begin(page, "hello", "before")
    heard(page, "before")
    parley.kill()
    try:
        expect(page.locator("#line-state")).to_contain_text("You are offline. You can read on")
    finally:
        parley.start()
    expect(page.locator("#line-state")).to_be_hidden(timeout=30_000)
    say(page, "after")
    heard(page, "after")
    expect(messages(page)).to_have_count(4)
    complaints.clear()  # of refused connections, as it should be


def test_what_happened_while_the_line_was_lost_is_made_up_for(page: Page, open_browser, complaints) -> None:
    begin(page, "hello", "before")
    heard(page, "before")
    page.context.set_offline(True)
    expect(page.locator("#line-state")).to_be_visible()
    page.evaluate("document.getElementById('line-state').firstChild.isTheFirst = true")
    page.wait_for_timeout(3000)  # in which it is tried again some times
    assert page.evaluate("document.getElementById('line-state').firstChild.isTheFirst")  # nothing to be read out again
    other = open_browser().new_page()
    other.goto(page.url)
    say(other, "meanwhile")
    heard(other, "meanwhile")
    page.context.set_offline(False)
    heard(page, "meanwhile")
    expect(page.locator("#line-state")).to_be_hidden()
    expect(messages(page)).to_have_count(4)
    complaints.clear()


def test_a_message_whose_answer_was_lost_is_said_once(page: Page, complaints: list[str]) -> None:
    begin(page, "hello", "before")
    heard(page, "before")
    lost = []

    def lose_the_first_answer(route: Route) -> None:
        if lost:
            route.continue_()
        else:
            lost.append(route.fetch())
            route.abort()

    page.route("**/messages", lose_the_first_answer)
    with page.expect_response("**/messages") as second:
        say(page, "only once")
    assert second.value.status == 201
    assert second.value.json() == lost[0].json()
    expect(page.locator(".from-user", has_text="only once")).to_have_count(1)
    expect(page.locator(".pending")).to_have_count(0)
    complaints.clear()


def test_a_message_that_reaches_nobody_is_kept_and_can_be_sent_later(page: Page, complaints: list[str]) -> None:
    begin(page, "hello", "before")
    heard(page, "before")
    page.route("**/messages", lambda route: route.abort())
    say(page, "later")
    expect(page.locator(".pending", has_text="later")).to_contain_text("Waiting for the line")
    page.unroute("**/messages")
    page.get_by_role("button", name="Try again").click()
    heard(page, "later")
    expect(page.locator(".from-user", has_text="later")).to_have_count(1)
    complaints.clear()


def test_what_is_pressed_without_a_line_is_said_not_to_be_done(page: Page, complaints: list[str]) -> None:
    for act in ("stop", "agent", "feedback"):
        page.route(f"**/sessions/*/{act}", lambda route: route.abort())
    said = page.locator(".composer-error")
    begin(page, "echo", "before")
    heard(page, "before")
    settled(page)
    page.get_by_role("button", name="4 of 5").click()
    expect(page.locator(".rated")).to_have_text(f"{UNREACHED} Your rating was not taken. Choose it again {BACK}")
    expect(page.locator(".rating [aria-pressed=true]")).to_have_count(0)
    page.get_by_role("button", name="Switch").click()
    page.locator("#switch-to [data-switch=long]").click()
    expect(said).to_have_text(f"{UNREACHED} You go on with the agent that you have. Choose again {BACK}")

    begin(page, "long", "600 seconds")
    expect(page.locator(".work")).to_contain_text("At it…")
    stop = page.get_by_role("button", name="Stop")
    stop.click()
    expect(said).to_have_text(f"{UNREACHED} The work goes on. Press Stop again {BACK}")
    expect(page.locator("#head-state")).to_have_text("Working")
    page.unroute_all()
    stop.click()
    expect(page.locator(".work")).to_contain_text("Stopped")
    page.route("**/again", lambda route: route.abort())
    page.goto(f"{page.url}/task")
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#toasts")).to_have_text(
        f"{UNREACHED} It may not have arrived. Press Run again when the line is back: it is not sent twice."
    )
    complaints.clear()


def test_a_refused_message_goes_back_to_where_it_was_written(page: Page, complaints: list[str]) -> None:
    begin(page, "hello", "before")
    heard(page, "before")
    page.locator("#files").set_input_files({"name": "cat.png", "mimeType": "image/png", "buffer": b"meow"})
    say(page, "look at this")
    expect(page.locator(".composer-error")).to_contain_text("Hello does not take “cat.png”")
    expect(page.locator("#words")).to_have_value("look at this")
    expect(page.locator(".chosen")).to_contain_text("cat.png")
    expect(page.locator(".pending")).to_have_count(0)
    complaints.clear()


def test_who_was_signed_out_elsewhere_is_told_and_keeps_their_words(page: Page, complaints: list[str]) -> None:
    begin(page, "hello", "before")
    heard(page, "before")
    page.context.clear_cookies(name="sessionid")
    say(page, "after")
    expect(page.locator(".composer-error")).to_contain_text("Sign in again")
    expect(page.locator("#words")).to_have_value("after")
    complaints.clear()
