"""The console: requests that people write, and all that goes over the line, with a token in place of their sign-in."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.browser.conftest import LOOKS, PHONE, WIDE, sign_in, sign_out


def choose(page: Page, method: str) -> None:
    page.get_by_label("Method").select_option(label=method)


def send(page: Page) -> Locator:
    """Press Send; the exchange that this begins."""
    before = page.locator(".exchange").count()
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".exchange")).to_have_count(before + 1)
    return page.locator(".exchange").first


def ended(exchange: Locator, words: str) -> None:
    expect(exchange.locator(".exchange-state")).to_contain_text(words)
    expect(exchange.get_by_role("button", name="Stop reading")).to_be_hidden()


@pytest.fixture
def calls():
    """The requests that a page sends to agents."""
    made: list[Request] = []

    def watch(page: Page) -> list[Request]:
        page.on("request", lambda request: made.append(request) if "/a2a/" in request.url else None)
        return made

    return watch


@LOOKS
def test_a_message_and_its_answer_without_the_cookie(look, calls, size, scheme) -> None:
    page = look(size, scheme)
    made = calls(page)
    page.goto("/agents/echo/try")
    choose(page, "SendMessage")
    page.get_by_label("Message").fill('<b>hello</b> "you"')
    exchange = send(page)
    ended(exchange, "200 OK")
    expect(exchange.locator(".came")).to_contain_text("TASK_STATE_COMPLETED")
    expect(exchange.locator(".came")).to_contain_text("<b>hello</b>")  # what an agent says is text
    expect(exchange.locator("b")).to_have_count(0)
    headers = made[0].all_headers()
    assert "cookie" not in headers
    assert headers["authorization"].startswith("Bearer try_")
    assert headers["a2a-version"] == "1.0"
    exchange.locator(".leg summary").first.click()
    expect(exchange).to_contain_text("Bearer try_")
    assert headers["authorization"].removeprefix("Bearer ") not in page.content()
    exchange.locator(".came .leg summary").first.click()
    expect(exchange.locator(".headers").last).to_contain_text("application/json")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    choose(page, "GetTask")
    sent = json.loads(page.locator("#body").input_value())["params"]["id"]
    shown = send(page)
    ended(shown, "200 OK")
    expect(shown.locator(".came")).to_contain_text(sent)
    choose(page, "ListTasks")
    ended(send(page), "200 OK")
    assert {request.all_headers()["authorization"] for request in made} == {headers["authorization"]}


def test_a_stream_is_shown_as_it_comes_and_cancel_ends_what_stop_left(page: Page) -> None:
    page.goto("/agents/countdown/try")
    page.get_by_label("Message").fill("Count down from 600")
    exchange = send(page)
    expect(exchange.locator(".event").nth(3)).to_be_visible()
    expect(exchange.get_by_role("button", name="Cancel task")).to_be_hidden()
    exchange.get_by_role("button", name="Stop reading").press("Enter")
    expect(exchange.locator(".exchange-note")).to_contain_text("What the agent does goes on.")
    expect(exchange.get_by_role("button", name="Cancel task")).to_be_focused()
    exchange.locator(".event summary").first.click()
    expect(exchange.locator(".event").first).to_contain_text("TASK_STATE_SUBMITTED")
    choose(page, "GetTask")
    looked = send(page)
    expect(looked.locator(".came")).to_contain_text("TASK_STATE_WORKING")
    page.get_by_role("button", name="Cancel task").click()
    canceled = page.locator(".exchange").first
    expect(canceled.get_by_role("heading")).to_have_text("CancelTask")
    expect(canceled.locator(".came")).to_contain_text("TASK_STATE_CANCELED")


def test_a_stream_that_ends_says_how_many_events_came(page: Page) -> None:
    page.goto("/agents/storyteller/try")
    page.get_by_label("Message").fill("a story")
    exchange = send(page)
    ended(exchange, "events in")
    expect(exchange.locator(".event").last).to_contain_text("completed")
    expect(page.locator("#try-said")).to_contain_text(re.compile(r"SendStreamingMessage: 200 OK, \d+ events"))


def test_version_0_3_has_its_own_words(page: Page) -> None:
    page.goto("/agents/echo/try")
    page.get_by_label("0.3").check()
    expect(page.get_by_label("Method").locator("option", has_text="ListTasks")).to_have_count(0)
    choose(page, "message/send")
    exchange = send(page)
    ended(exchange, "200 OK")
    expect(exchange.locator(".came")).to_contain_text('"completed"')
    page.get_by_label("1.0").check()
    assert json.loads(page.locator("#body").input_value())["method"] == "SendMessage"


def test_errors_are_shown_as_they_are_and_bad_json_is_not_sent(page: Page, calls) -> None:
    made = calls(page)
    page.goto("/agents/echo/try")
    choose(page, "GetTask")
    page.locator("#task").fill("no-such-task")
    exchange = send(page)
    ended(exchange, "error -32001")
    expect(exchange.locator(".sign-failed")).to_be_visible()
    count = len(made)
    page.locator("#body").fill("{oops")
    expect(page.locator("#body-problem")).to_contain_text("This is no JSON")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator("#body")).to_be_focused()
    assert len(made) == count
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#body-problem")).to_be_empty()
    page.locator("#body").fill('{"jsonrpc": "2.0", "id": "mine", "method": "Nonsense"}')
    page.locator("#body").press("Control+Enter")
    ended(page.locator(".exchange", has_text="Nonsense"), "error -32601")


def test_what_was_written_by_hand_stays_when_the_message_changes(page: Page) -> None:
    page.goto("/agents/echo/try")
    request = json.loads(page.locator("#body").input_value())
    request["params"]["message"] |= {"messageId": "my-own", "metadata": {"a": 1}}
    page.locator("#body").fill(json.dumps(request))
    page.get_by_label("Message").fill("other words")
    changed = json.loads(page.locator("#body").input_value())["params"]["message"]
    assert (changed["messageId"], changed["metadata"], changed["parts"]) == (
        "my-own",
        {"a": 1},
        [{"text": "other words"}],
    )
    send(page)
    assert json.loads(page.locator("#body").input_value())["params"]["message"]["messageId"] == "my-own"


def test_it_is_copied_as_curl_with_a_placeholder(look) -> None:
    page = look(WIDE, "light", permissions=["clipboard-read", "clipboard-write"])
    page.goto("/agents/echo/try")
    page.get_by_label("Message").fill("it's mine")
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.locator("#toasts")).to_contain_text("Copied.")
    command = page.evaluate("navigator.clipboard.readText()")
    assert "Bearer YOUR-KEY" in command
    assert "it'\\''s mine" in command


def test_no_line_and_no_sign_in_are_said(look, complaints: list[str]) -> None:
    page = look(PHONE, "light")
    page.goto("/agents/echo/try")
    ended(send(page), "200 OK")
    page.context.set_offline(True)
    exchange = send(page)
    ended(exchange, "No answer")
    expect(exchange.locator(".exchange-note")).to_contain_text("The line broke")
    page.goto("about:blank")  # with the line the page would ask who signs in no more
    page.context.set_offline(False)
    page.context.clear_cookies()
    page.goto("/agents/echo/try")
    expect(page).to_have_url(re.compile("/sign-in"))
    complaints[:] = [one for one in complaints if "ERR_INTERNET_DISCONNECTED" not in one]


def test_signing_out_elsewhere_ends_the_token(open_browser, watched, parley) -> None:
    page = open_browser(storage_state=None).new_page()
    complaints = watched(page)
    sign_in(page, parley)
    page.goto("/agents/echo/try")
    ended(send(page), "200 OK")
    # Another browser, where this page is not told of it
    elsewhere = open_browser(storage_state=page.context.storage_state()).new_page()
    elsewhere.goto("/agents")
    sign_out(elsewhere)
    exchange = send(page)
    ended(exchange, "401")
    expect(exchange.locator(".came")).to_contain_text("Open the agent’s page for a new one")
    complaints.clear()
