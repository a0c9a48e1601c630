"""Without a line: what was read can be read, what is written is sent once, and nothing stays of who signs out."""

import re
from difflib import unified_diff
from typing import Any

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import PHONE, SESSION, sign_in, sign_out
from tests.browser.doing import begin, heard, messages, say, settled
from tests.stack import Stack

OFFLINE = "You are offline. You can read on; what you write is sent when the line is back."
ELSEWHERE = (
    "You are offline. You can read on; what you say to agents, and what you answer, is sent when the line is back."
)
KEEPS = """async () => {
  const pages = (await caches.keys()).filter((name) => name.startsWith("pages-"));
  const databases = (await indexedDB.databases()).map(({name}) => name);
  return [...pages, ...databases, ...Object.keys(localStorage)];
}"""


KEPT_TEXT = "caches.match('{}').then((kept) => kept?.text())"


def is_kept(page: Page) -> None:
    """Wait until the service worker has the page."""
    until(page, "Boolean(await caches.match(location.href))")


def until(page: Page, holds: str) -> None:
    """Wait until something holds that is only known later."""
    page.evaluate(f"async () => {{ while (!({holds})) await new Promise((done) => setTimeout(done, 100)); }}")


def waiting(page: Page, words: str) -> None:
    expect(page.locator(".pending", has_text=words)).to_contain_text("Waiting for the line")


def test_what_is_written_without_a_line_outlives_a_reload_and_is_said_once(open_browser: Any) -> None:
    context: BrowserContext = open_browser(service_workers="allow")
    page, other = context.new_page(), context.new_page()
    begin(page, "hello", "before")
    heard(page, "before")
    is_kept(page)
    other.goto(page.url)
    heard(other, "before")
    context.set_offline(True)
    expect(page.locator("#line-state")).to_have_text(OFFLINE)
    page.reload()
    heard(page, "before")
    expect(page.locator("#line-state")).to_have_text(OFFLINE)
    say(page, "the first")
    say(page, "the second")
    waiting(page, "the second")
    page.locator("#words").fill("the third, which is only begun")
    page.reload()
    waiting(page, "the first")
    waiting(page, "the second")
    expect(page.locator("#words")).to_have_value("the third, which is only begun")
    page.get_by_role("button", name="Take back").last.click()
    expect(page.locator("#words")).to_have_value("the second\n\nthe third, which is only begun")
    page.locator("#words").press("Enter")
    waiting(page, "the third")
    context.set_offline(False)
    for tab in (page, other):
        heard(tab, "the third")
        expect(tab.locator(".pending")).to_have_count(0)
        said = tab.locator(".from-user .prose").all_text_contents()
        assert [words.split("\n")[0] for words in said] == ["before", "the first", "the second"]
    expect(page.locator("#line-state")).to_be_hidden()


def test_what_waits_is_sent_from_another_page_when_the_server_is_back(open_browser: Any, parley: Stack) -> None:
    context: BrowserContext = open_browser(PHONE, service_workers="allow")
    page = context.new_page()
    begin(page, "hello", "before")
    heard(page, "before")
    is_kept(page)
    session = page.url
    page.goto("/")
    page.goto(session)
    parley.kill()
    try:
        expect(page.locator("#line-state")).to_have_text(OFFLINE)
        say(page, "while it was dead")
        waiting(page, "while it was dead")
        page.goto("/")
        expect(page.locator("#offline")).to_have_text(ELSEWHERE)
        page.goto("/agents/echo")
        expect(page.get_by_role("heading", name="You are offline")).to_be_visible()
        expect(page.get_by_role("link", name="before")).to_have_attribute("href", session)
    finally:
        parley.start()
    expect(page.get_by_role("heading", name="Echo", level=1)).to_be_visible()  # it came by itself
    until(page, "!localStorage.unsent")  # sent from here
    page.goto(session)
    heard(page, "while it was dead")
    expect(messages(page)).to_have_count(4)


def test_what_cannot_be_sent_any_more_is_told_once_and_can_be_let_go(open_browser: Any) -> None:
    context: BrowserContext = open_browser()
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    begin(page, "hello", "before")
    heard(page, "before")
    session = page.url
    page.route("**/messages", lambda route: route.abort())
    say(page, "for nobody")
    waiting(page, "for nobody")
    token = page.locator("[name=csrfmiddlewaretoken]").first.input_value()
    page.goto("/agents")
    gone = page.request.delete(
        session.replace("/sessions/", "/api/v1/sessions/"), headers={"X-CSRFToken": token, "Referer": session}
    )
    assert gone.ok, gone.text()
    page.unroute_all()
    page.evaluate("dispatchEvent(new Event('online'))")
    told = page.locator(".toast", has_text="A message could not be sent.")
    expect(told).to_have_count(1)
    for _ in range(2):
        page.evaluate("document.querySelector('.sidebar').dataset.line = 'live'")
        page.wait_for_timeout(300)
    expect(told).to_have_count(1)
    told.get_by_role("button", name="Copy it, and let it go").click()
    assert page.evaluate("navigator.clipboard.readText()") == "for nobody"
    page.evaluate("document.querySelector('.sidebar').dataset.line = 'live'")
    until(page, "!localStorage.unsent")


def test_the_first_message_to_an_agent_is_sent_when_the_line_is_back(open_browser: Any) -> None:
    context: BrowserContext = open_browser(service_workers="allow")
    page, other = context.new_page(), context.new_page()
    page.goto("/agents/hello")
    page.locator("#words").fill("written")  # with which the script for sending comes
    other.goto("/agents/echo")
    page.bring_to_front()
    context.set_offline(True)
    expect(page.locator("#offline")).to_have_text(ELSEWHERE)
    say(page, "not this one")
    page.locator(".toast", has_text="Sent when the line is back: not this one").get_by_role("button").click()
    expect(page.locator("#words")).to_have_value("not this one")
    say(page, "the first to hello")
    note = page.locator(".toast", has_text="Sent when the line is back: the first to hello")
    expect(note).to_be_visible()
    say(page, "the second to hello")
    expect(page.locator(".toast", has_text="the second to hello")).to_have_count(1)
    page.locator("#words").fill("begun")
    context.set_offline(False)
    sent = page.locator(".toast", has_text=re.compile("^Sent: the second to hello"))
    for tab in (page, other):
        expect(tab.locator(".sidebar").get_by_role("link", name="the second to hello")).to_have_count(1)
        expect(tab.locator(".sidebar").get_by_role("link", name="the first to hello")).to_have_count(1)
    expect(note).to_have_count(0)
    expect(page.locator("#words")).to_have_value("begun")
    until(page, "!localStorage.unsent")
    sent.get_by_role("button", name="Open").click()  # whichever tab was the one to send it
    heard(page, "the second to hello")
    expect(messages(page)).to_have_count(2)


def test_what_is_taken_back_in_one_tab_waits_in_no_other(open_browser: Any) -> None:
    context: BrowserContext = open_browser()
    page, other = context.new_page(), context.new_page()
    context.route("**/messages", lambda route: route.abort())
    page.goto("/agents/hello")
    say(page, "never mind")
    note = page.locator(".toast", has_text="Sent when the line is back: never mind")
    expect(note).to_be_visible()
    other.goto("/agents/hello")
    expect(other.locator(".toast", has_text="never mind")).to_be_visible()
    note.get_by_role("button", name="Take back").click()
    expect(page.locator("#words")).to_have_value("never mind")
    expect(other.locator(".toast", has_text="never mind")).to_have_count(0)


def test_a_page_goes_to_the_session_that_it_began_without_a_line(open_browser: Any) -> None:
    context: BrowserContext = open_browser()
    page = context.new_page()
    page.goto("/agents/hello")
    page.locator("#words").fill("written")
    page.route("**/messages", lambda route: route.abort())
    page.locator("#words").press("Enter")
    expect(page.locator(".toast", has_text="Sent when the line is back: written")).to_be_visible()
    page.unroute_all()
    page.wait_for_url(SESSION)
    heard(page, "written")
    expect(messages(page)).to_have_count(2)


def test_a_first_message_outlives_its_page_and_comes_back_if_it_is_refused(open_browser: Any) -> None:
    context: BrowserContext = open_browser()
    page = context.new_page()
    page.goto("/agents/hello")
    page.route("**/messages", lambda route: route.abort())
    page.locator("#files").set_input_files({"name": "cat.png", "mimeType": "image/png", "buffer": b"meow"})
    say(page, "look at this")
    expect(page.locator(".toast", has_text="Sent when the line is back: look at this")).to_be_visible()
    page.goto("/agents")
    page.unroute_all()
    page.evaluate("dispatchEvent(new Event('online'))")
    page.locator(".toast", has_text="Hello does not take “cat.png”").get_by_role("button", name="Open").click()
    page.wait_for_url("**/agents/hello")
    expect(page.locator(".composer-error")).to_contain_text("Hello does not take “cat.png”")
    expect(page.locator("#words")).to_have_value("look at this")
    expect(page.locator(".chosen")).to_contain_text("cat.png")
    page.get_by_role("button", name="Remove cat.png").click()
    page.locator("#words").press("Enter")
    heard(page, "look at this")


def test_who_was_signed_out_meanwhile_loses_nothing_of_what_waits(open_browser: Any) -> None:
    context: BrowserContext = open_browser()
    page = context.new_page()
    page.goto("/agents/hello")
    page.route("**/messages", lambda route: route.abort())
    say(page, "kept")
    expect(page.locator(".toast", has_text="Sent when the line is back: kept")).to_be_visible()
    page.goto("/agents")
    page.unroute_all()
    cookies = context.cookies()
    context.clear_cookies()
    with page.expect_response("**/messages") as refused:
        page.evaluate("dispatchEvent(new Event('online'))")
    assert refused.value.status in (401, 403)
    context.add_cookies(cookies)
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(page.locator(".sidebar").get_by_role("link", name="kept")).to_have_count(1)
    until(page, "!localStorage.unsent")
    expect(page.locator(".toast", has_text="could not be sent")).to_have_count(0)


BEFORE_ITS_SCRIPT = """
  document.addEventListener("readystatechange", () => {
    window.atFirst ??= document.querySelector("#items")?.innerText;
  });
"""


def test_what_was_shown_is_there_again_before_the_script_of_the_page(open_browser: Any) -> None:
    context: BrowserContext = open_browser(service_workers="allow")
    page = context.new_page()
    begin(page, "hello", "<i>before</i>")
    heard(page, "<i>before</i>")
    until(page, "navigator.serviceWorker.controller")
    is_kept(page)
    session = page.url
    page.goto("/agents")
    until(page, f"(await {KEPT_TEXT.format(session)})?.includes('inert><li')")
    page.add_init_script(BEFORE_ITS_SCRIPT)
    page.goto(session)
    heard(page, "<i>before</i>")
    assert page.evaluate("window.atFirst").count("<i>before</i>") == 2  # what was said, and its echo
    expect(messages(page)).to_have_count(2)
    expect(page.locator("#items")).not_to_have_attribute("inert", "")


def test_a_kept_page_lists_the_files_that_came_after_it_was_loaded(open_browser: Any) -> None:
    context: BrowserContext = open_browser(service_workers="allow")
    page = context.new_page()
    begin(page, "countdown", "1")
    settled(page)
    until(page, "navigator.serviceWorker.controller")
    is_kept(page)
    say(page, "2")
    files = page.locator("#artifacts .artifact")
    expect(files).to_have_count(2)
    session = page.url
    page.goto("/agents")
    until(page, f"(await {KEPT_TEXT.format(session)})?.includes('1 older version')")
    context.set_offline(True)
    page.goto(session)
    expect(page.locator("#line-state")).to_have_text(OFFLINE)
    expect(files).to_have_count(2)
    expect(page.locator("#panel-count")).to_have_text("2")
    expect(page.locator("#panel-zip")).to_be_visible()
    files.first.get_by_role("button").click()
    expect(page.locator("#preview")).to_contain_text("The preview could not be loaded.")
    context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#preview .preview-text")).to_contain_text("2")


def loaded(page: Page) -> set[str]:
    """The scripts of a session's page that it has, without their hashes."""
    names = page.evaluate("performance.getEntriesByType('resource').map(({name}) => name)")
    return {name.rpartition("/")[2].partition(".")[0] for name in names if "/js/session/" in name}


def test_a_page_that_was_left_is_kept_as_it_was_by_then(open_browser: Any) -> None:
    page = open_browser(service_workers="allow").new_page()
    begin(page, "countdown", "1")
    settled(page)
    until(page, "navigator.serviceWorker.controller")
    is_kept(page)
    say(page, "2")
    expect(page.locator("#artifacts .artifact")).to_have_count(2)
    settled(page)
    session = page.url
    page.goto("/agents")
    kept = KEPT_TEXT.format(session)  # nothing, for a moment, when another takes its place
    until(page, f"/data-last.*Lift-off.*Lift-off/s.test(await {kept})")
    until(page, f"(await {kept})?.split('\"opensTask\": true').length === 3")
    before = page.evaluate(f"() => {kept}")
    page.goto(session)
    expect(page.locator(".from-user")).to_have_count(2)
    expect(page.locator("#artifacts .artifact")).to_have_count(2)
    page.wait_for_timeout(1500)
    needless = loaded(page) & {"old", "cache", "kept", "beside", "standing", "renewing", "files"}
    assert not needless, "\n".join(unified_diff(before.split("\n"), page.evaluate(f"() => {kept}").split("\n"), n=0))


def begun_and_left(page: Page, words: str) -> str:
    """Say something to `hello` and leave; gives the session's address once the service worker has all of that."""
    begin(page, "hello", words)
    heard(page, words)
    until(page, "navigator.serviceWorker.controller")
    is_kept(page)
    session = page.url
    left(page, session)
    return session


def left(page: Page, session: str) -> None:
    """Go on to another page; wait until the worker has what was shown, and has asked for the rest."""
    page.goto("/agents")
    until(page, f"(await {KEPT_TEXT})?.includes('<!--shown-->')".format(session))
    until(page, f"(await caches.match('{session}'))?.headers.has('x-says')")


def test_a_page_that_is_kept_anew_still_begins_with_what_was_shown(open_browser: Any) -> None:
    page = open_browser(service_workers="allow").new_page()
    session = begun_and_left(page, "before")
    nonce = f"(await {KEPT_TEXT})?.match(/nonce=.([-\\w]+)/)[1]".format(session)
    before = page.evaluate(f"async () => {nonce}")
    page.goto(session)
    until(page, f"({nonce} ?? '{before}') !== '{before}'")
    kept = page.evaluate(f"() => {KEPT_TEXT}".format(session))
    assert re.search(r'id="items" data-last="\d+" inert>.*before.*</ol><!--shown-->', kept, re.DOTALL)


def test_a_page_is_kept_whole_whatever_is_said_in_it(open_browser: Any) -> None:
    page = open_browser(service_workers="allow").new_page()
    words = 'the list is id="artifacts">, the other one id="items"></ol><!--shown-->'
    session = begun_and_left(page, words)
    page.goto(session)
    heard(page, words)
    say(page, "more of it")
    heard(page, "more of it")
    left(page, session)
    kept = page.evaluate(f"() => {KEPT_TEXT}".format(session))
    assert kept.count('id="artifacts" data-address') == kept.count('id="to-end"') == kept.count('id="composer"') == 1
    assert kept.count("<!--shown-->") == 1
    page.goto(session)
    heard(page, "more of it")


def test_a_kept_page_that_is_old_by_now_is_brought_up_to_date(open_browser: Any) -> None:
    page = open_browser(service_workers="allow").new_page()
    begin(page, "long", "0 the first")
    heard(page, "Done with the first.")
    settled(page)
    until(page, "navigator.serviceWorker.controller")
    is_kept(page)
    session = page.url
    page.goto("/agents")
    other = open_browser().new_page()
    other.goto(session)
    say(other, "60 the second")
    expect(other.get_by_role("button", name="Send now")).to_be_visible()
    say(other, "0 the third")
    expect(other.locator("#queue li[data-id]")).to_have_count(1)
    page.goto(session)
    expect(page.locator(".from-user")).to_have_count(2)
    expect(page.locator("#queue li[data-id]")).to_contain_text("0 the third")
    expect(page.locator("#head-state")).to_contain_text("Working")
    assert "old" in loaded(page)
    page.goto("/agents")
    other.get_by_role("button", name="Delete").click()  # which is no event of the session's
    expect(other.locator("#queue li[data-id]")).to_have_count(0)
    page.goto(session)
    expect(page.locator("#queue li[data-id]")).to_have_count(0)
    page.get_by_role("button", name="Stop").click()
    settled(page)


def test_a_turn_that_goes_on_can_be_read_without_a_line(open_browser: Any) -> None:
    context: BrowserContext = open_browser(service_workers="allow")
    page = context.new_page()
    begin(page, "countdown", "2")
    settled(page)
    is_kept(page)
    say(page, "600")
    expect(page.locator("#head-state")).to_contain_text("Working")
    expect(page.locator(".from-user.pending")).to_have_count(0)
    context.set_offline(True)
    expect(page.locator("#line-state")).to_have_text(OFFLINE)
    page.wait_for_timeout(3000)  # what is kept is written behind
    page.reload()
    expect(page.locator("#line-state")).to_have_text(OFFLINE)
    expect(page.locator(".from-user")).to_have_text([re.compile("2"), re.compile("600")])
    context.set_offline(False)
    page.get_by_role("button", name="Stop").click()
    settled(page)


def test_what_is_refused_after_all_is_given_back(open_browser: Any) -> None:
    context: BrowserContext = open_browser()
    page = context.new_page()
    begin(page, "hello", "before")
    heard(page, "before")
    with page.expect_response("**/js/unsent.*"), page.expect_response("**/js/uploading.*"):
        page.locator("#files").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"})
    page.get_by_role("button", name="Remove a.txt").click()
    context.set_offline(True)
    page.locator("#files").set_input_files({"name": "cat.png", "mimeType": "image/png", "buffer": b"meow"})
    say(page, "look at this")
    waiting(page, "look at this")
    context.set_offline(False)
    expect(page.locator(".composer-error")).to_contain_text("Hello does not take “cat.png”")
    expect(page.locator("#words")).to_have_value("look at this")
    expect(page.locator(".chosen")).to_contain_text("cat.png")
    expect(page.locator(".pending")).to_have_count(0)
    page.reload()
    expect(page.locator(".pending")).to_have_count(0)


def test_nothing_stays_of_who_signs_out(chromium: Any, parley: Stack) -> None:
    context = chromium.new_context(base_url=parley.url)
    page = context.new_page()
    sign_in(page, parley)
    begin(page, "hello", "a secret")
    heard(page, "a secret")
    is_kept(page)
    session = page.url
    page.locator("#words").fill("another one")
    assert any("pages-" in name for name in page.evaluate(KEEPS))
    other = context.new_page()
    other.goto("/")
    sign_out(page)
    until(page, f"!(await ({KEEPS})()).length")
    expect(other).to_have_url(re.compile("/sign-in"))  # other tabs are led there too
    page.goto(session)
    expect(page).to_have_url(re.compile("/sign-in"))
    context.set_offline(True)
    page.goto("/")
    expect(page.get_by_role("heading", name="You are offline")).to_be_visible()
    expect(page.get_by_text("a secret")).to_have_count(0)
    context.close()


def test_a_page_that_is_older_than_the_sign_in_can_still_send(page: Page, complaints: list[str]) -> None:
    begin(page, "hello", "before")
    heard(page, "before")
    page.evaluate(
        "document.querySelectorAll('[name=csrfmiddlewaretoken]').forEach((one) => one.value = 'x'.repeat(64))"
    )
    say(page, "after")
    heard(page, "after")
    complaints.clear()  # of the first try
    expect(page).to_have_url(SESSION)
