"""Offline: pages can be read, messages are sent once, sign-out deletes everything."""

import re

from playwright.sync_api import expect

from tests.browser.doing import begin, echoed, entry, heard, live, messages, say, settled, sign_in, sign_out, until
from tests.browser.people import PASSWORD

UNREACHED = "The server cannot be reached."
OFFLINE = "You are offline. You can keep reading. Messages you write are sent when you are back online."
NOTHING_UNSENT = "() => !localStorage.unsent"
CONTROLLED = "() => Boolean(navigator.serviceWorker.controller)"
KEEPS = """async () => {
  const pages = (await caches.keys()).filter((name) => name.startsWith("pages-"));
  const databases = (await indexedDB.databases()).map(({name}) => name);
  return [...pages, ...databases, ...Object.keys(localStorage)];
}"""
KEPT = "async ([address, words]) => (await (await caches.match(address))?.text())?.includes(words)"


def is_kept(page):
    until(page, "async () => Boolean(await caches.match(location.href))")


def waiting(page, words):
    expect(page.locator(".pending", has_text=words)).to_contain_text("Waiting for connection")


def test_messages_wait_for_a_dead_server(open_browser, ada, parley, complaints):
    context = open_browser(service_workers="allow")
    page, inbox = context.new_page(), context.new_page()
    session = echoed(page, "before", "hello")
    asked, _ = ada.begin("asking", "A trip through a tunnel")
    inbox.goto("/inbox")
    form = inbox.locator(".inbox-item form.question")
    form.get_by_label("First").check()
    form.get_by_label("Yes").check()
    until(page, CONTROLLED)
    page.goto(session)
    is_kept(page)
    parley.kill()
    try:
        expect(page.locator("#line-state")).to_have_text(OFFLINE)
        form.get_by_role("button", name="Send answer").click()
        expect(inbox.locator("#toasts")).to_contain_text("Your answer will be sent when you are online.")
        expect(inbox.locator(".inbox-item")).to_have_count(0)
        say(page, "while it was dead")
        waiting(page, "while it was dead")
        page.goto("/agents/echo")
        expect(page.get_by_role("heading", name="You are offline")).to_be_visible()
        expect(page.get_by_role("link", name="before")).to_have_attribute("href", session)
    finally:
        parley.start()
    expect(page.get_by_role("heading", name="Echo", level=1)).to_be_visible()
    until(page, NOTHING_UNSENT)
    for address, words, count in ((session, "while it was dead", 4), (f"/sessions/{asked}", "Noted.", 4)):
        page.goto(address)
        heard(page, words)
        expect(messages(page)).to_have_count(count)
    complaints.clear()


def test_drafts_outlive_a_reload_without_a_line(open_browser, complaints):
    context = open_browser(service_workers="allow")
    page, other = context.new_page(), context.new_page()
    session = echoed(page, "before", "hello")
    is_kept(page)
    other.goto(session)
    heard(other, "before")
    context.set_offline(True)
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
    complaints.clear()


def test_lost_answer_leads_to_one_message(page, ada, complaints):
    session = echoed(page, "before")
    lost = []

    def lose(route):
        """The first answer is lost, the second is cut."""
        answer = route.fetch()
        lost.append(answer.text())
        if len(lost) == 1:
            route.abort()
        elif len(lost) == 2:
            route.fulfill(response=answer, body=lost[1][:5])
        else:
            route.fulfill(response=answer)

    page.route("**/messages", lose)
    say(page, "only once")
    heard(page, "only once")
    settled(page)
    until(page, NOTHING_UNSENT)
    assert lost[0] == lost[1] == lost[2]
    expect(messages(page).filter(has_text="only once")).to_have_count(2)
    page.unroute_all()

    # Events during the outage are fetched
    page.context.set_offline(True)
    expect(page.locator("#line-state")).to_have_text(OFFLINE)
    ada.say(session.rsplit("/", 1)[1], "meanwhile")
    page.context.set_offline(False)
    heard(page, "meanwhile")
    expect(messages(page)).to_have_count(6)

    # A page from before the sign-in can still send; a signed-out person is told, and keeps the draft
    page.goto(session)
    page.evaluate(
        "document.querySelectorAll('[name=csrfmiddlewaretoken]').forEach((one) => one.value = 'x'.repeat(64))"
    )
    say(page, "after all")
    heard(page, "after all")
    page.context.clear_cookies(name="sessionid")
    say(page, "after that")
    expect(page.locator(".composer-error")).to_contain_text("Sign in again")
    expect(page.locator("#words")).to_have_value("after that")
    page.close()  # it asks again
    complaints.clear()


BEFORE_ITS_SCRIPT = """
  document.addEventListener("readystatechange", () => {
    window.atFirst ??= document.querySelector("#items")?.innerText;
  });
"""


def test_kept_page_appears_first_and_is_updated(open_browser, ada, complaints):
    context = open_browser(service_workers="allow")
    page = context.new_page()
    words = 'the <i>list</i> is id="artifacts">, the other one id="items"></ol><!--shown-->'
    session = echoed(page, words, "hello")
    until(page, CONTROLLED)
    is_kept(page)
    page.goto("/agents")
    until(page, KEPT, [session, "inert><li"])
    page.add_init_script(BEFORE_ITS_SCRIPT)
    page.goto(session)
    heard(page, words)
    assert page.evaluate("window.atFirst").count(words) == 2
    expect(messages(page)).to_have_count(2)
    expect(page.locator("#items")).not_to_have_attribute("inert", "")
    page.goto("/agents")
    ada.say(session.rsplit("/", 1)[1], "said elsewhere")
    page.goto(session)
    heard(page, "said elsewhere")
    expect(messages(page)).to_have_count(4)
    complaints.clear()


def test_nothing_stays_of_who_signs_out(open_browser, ada, operator, complaints):
    context = open_browser(storage_state=None, service_workers="allow")
    page = context.new_page()
    page.goto("/sign-in")
    sign_in(page, ada.email, PASSWORD)
    page.locator("main").wait_for()
    deleted, _ = ada.begin("echo", "Gone with its owner")
    begin(page, "asking", "a secret")
    page.get_by_label("A wish").fill("a secret wish")
    until(page, "() => JSON.stringify(localStorage).includes('a secret wish')")
    session = echoed(page, "another secret")
    is_kept(page)
    page.locator("#words").fill("half a secret")
    live(page)
    page.locator(f".recent [data-key='{deleted}']").hover()
    page.locator(f".recent [data-key='{deleted}'] [data-more]").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(entry(page, deleted)).to_have_count(0)
    assert any("pages-" in name for name in page.evaluate(KEEPS))
    other = context.new_page()
    other.goto("/")
    page.bring_to_front()
    sign_out(page)
    until(page, f"async () => !(await ({KEEPS})()).length")
    assert ada.session(deleted) is None, "what was put off is done"
    expect(other).to_have_url(re.compile("/sign-in"))
    page.goto(session)
    expect(page).to_have_url(re.compile("/sign-in"))
    context.set_offline(True)
    page.goto("/")
    expect(page.get_by_role("heading", name="You are offline")).to_be_visible()
    expect(page.get_by_text("secret")).to_have_count(0)
    complaints.clear()

    # Another person comes without signing out
    context = open_browser(storage_state=None)
    page = context.new_page()
    page.goto("/sign-in")
    sign_in(page, ada.email, PASSWORD)
    page.locator("main").wait_for()
    session = echoed(page, "before")
    context.route("**/messages", lambda route: route.abort())
    say(page, "mine alone")
    waiting(page, "mine alone")
    page.close()
    mine = context.cookies()
    context.clear_cookies()
    context.add_cookies(operator.state["cookies"])
    context.unroute_all()
    page = context.new_page()
    sent = []
    page.on("request", lambda one: sent.append(one.url) if one.method == "POST" and "/messages" in one.url else None)
    page.goto("/agents")
    until(page, f"async () => !localStorage.unsent && !(await ({KEEPS})()).includes('unsent')")
    live(page)
    context.clear_cookies()
    context.add_cookies([one for one in mine if one["name"] == "sessionid"])
    page.goto(session)
    heard(page, "before")
    settled(page)
    expect(messages(page)).to_have_count(2)
    assert sent == []
    complaints.clear()
