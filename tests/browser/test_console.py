"""The consoles of agents and of the client API."""

from playwright.sync_api import expect

from tests.browser.doing import clipboard, sign_in, sign_out
from tests.browser.people import PASSWORD


def choose(page, method):
    page.get_by_label("Method").select_option(label=method)


def send(page):
    before = page.locator(".exchange").count()
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".exchange")).to_have_count(before + 1)
    return page.locator(".exchange").first


def ended(exchange, words):
    expect(exchange.locator(".exchange-state")).to_contain_text(words)
    expect(exchange.get_by_role("button", name="Stop reading")).to_be_hidden()


def test_console_sends_requests_and_shows_answers(open_browser, ada, complaints):
    page = open_browser(storage_state=None, permissions=["clipboard-read", "clipboard-write"]).new_page()
    page.goto("/sign-in?next=/agents/echo/try")
    sign_in(page, ada.email, PASSWORD)
    made = []
    page.on("request", lambda request: made.append(request) if "/a2a/" in request.url else None)
    choose(page, "SendMessage")
    page.get_by_label("Message").fill('<b>it\'s</b> "me"')
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.locator("#toasts")).to_contain_text("Copied.")
    assert "Bearer YOUR-KEY" in clipboard(page)
    assert "it'\\''s" in clipboard(page)
    exchange = send(page)
    ended(exchange, "200 OK")
    expect(exchange.locator(".came")).to_contain_text("<b>it's</b>")
    headers = made[0].all_headers()
    assert "cookie" not in headers
    assert headers["authorization"].startswith("Bearer try_")
    assert headers["a2a-version"] == "1.0"
    exchange.locator(".leg summary").first.click()
    expect(exchange).to_contain_text("Bearer try_")
    assert headers["authorization"].removeprefix("Bearer ") not in page.content()
    choose(page, "GetTask")

    # Errors are shown unchanged, and invalid JSON is not sent
    page.locator("#task").fill("no-such-task")
    exchange = send(page)
    ended(exchange, "error -32001")
    expect(exchange.locator(".sign-failed")).to_be_visible()

    # A stream is shown live; after Stop, Cancel ends the task
    page.goto("/agents/countdown/try")
    page.get_by_label("Message").fill("Count down from 600")
    exchange = send(page)
    expect(exchange.locator(".event").nth(3)).to_be_visible()
    exchange.get_by_role("button", name="Stop reading").press("Enter")
    expect(exchange.locator(".exchange-note")).to_contain_text("The agent continues.")
    page.get_by_role("button", name="Cancel task").click()
    canceled = page.locator(".exchange").first
    expect(canceled.locator(".came")).to_contain_text("TASK_STATE_CANCELED")

    # Signing out elsewhere ends the token
    page.goto("/agents/echo/try")
    ended(send(page), "200 OK")
    elsewhere = open_browser(storage_state=page.context.storage_state()).new_page()
    elsewhere.goto("/agents")
    sign_out(elsewhere)
    exchange = send(page)
    ended(exchange, "401")
    expect(exchange.locator(".came")).to_contain_text("Open the agent’s page for a new one")
    complaints.clear()
