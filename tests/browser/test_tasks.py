"""A task's page is live, navigated, searched and copied; a session is replayed."""

import json
import re
import subprocess

from playwright.sync_api import expect

from tests.browser.doing import begin, clipboard, elsewhere, heard, messages, settled, until


def test_task_page_is_live_and_acts_once(page, ada, go, complaints):
    begin(page, "interviewer", f"Ask me something {go}")
    page.locator("#panel-timeline a").click()
    page.wait_for_url("**/tasks/*")
    state = page.locator(".task-state .word")
    expect(state).to_have_text("Working")
    page.get_by_text("Show as a table").first.press("Enter")
    go.touch()
    expect(state).to_have_text("Waiting for you")
    expect(page.locator("#timeline-table")).to_have_attribute("open", "")
    expect(page.locator("#timeline-table summary")).to_be_focused()
    expect(page.locator("#events")).to_contain_text("input-required: What is your")
    page.get_by_role("link", name="Answer").click()
    expect(page.get_by_label("Colour")).to_be_visible()

    # Stopped, and repeated once though the answer is lost
    begin(page, "countdown", "Count down from 900")
    page.locator("#panel-timeline a").click()
    page.wait_for_url("**/tasks/*")
    page.get_by_role("button", name="Stop").click()
    expect(state).to_have_text("Stopped")
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "task-title"

    def unheard(route):
        route.fetch()
        route.abort()

    page.route("**/again", unheard)
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#toasts")).to_contain_text("Press Run again when you are back online")
    page.unroute_all()
    complaints.clear()
    page.get_by_role("button", name="Run again").click()
    page.wait_for_url("**/sessions/*")
    expect(page.locator(".from-user")).to_have_count(2)

    # Copied documents are complete, and curl sends the same
    words = "it's $HOME, `whoami` and \\ \"quoted\"\n<<'REQUEST'\nREQUEST" + "x" * 30_000
    _, task = ada.begin("echo", words)
    page.goto(f"/tasks/{task}")
    request = page.locator("#document-request")
    request.locator("summary").click()
    expect(request).to_contain_text("Only the beginning is shown.")
    request.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert json.loads(clipboard(page))["parts"][0]["text"] == words
    page.locator("#document-curl summary").click()
    page.locator("#document-curl").get_by_role("button", name="Copy").click()
    until(page, "async () => (await navigator.clipboard.readText()).includes('YOUR-KEY')")
    script = clipboard(page).replace("YOUR-KEY", ada.key)
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=120, check=True)
    sent = json.loads(said.stdout)["result"]["task"]
    assert sent["id"] != task
    assert sent["artifacts"][0]["parts"][0]["text"] == words


def move(page, index):
    page.locator("#place").evaluate(
        "(place, index) => { place.value = index; place.dispatchEvent(new Event('input', {bubbles: true})); }", index
    )
    expect(page.locator("#place-index")).to_contain_text(f"Event {index} of")


SHOWN = "[...document.querySelectorAll('#items .who, #items .prose, #items form label')].map((one) => one.textContent)"


def test_player_shows_each_moment_and_forks(page, go):
    session = begin(page, "interviewer", f"Ask me something {go}")
    go.touch()
    page.get_by_label("Colour").fill("green")
    asking = page.evaluate(SHOWN)
    page.get_by_role("button", name="Send answer").click()
    heard(page, "nothing else")
    settled(page)
    ended = page.evaluate(SHOWN)
    page.goto(f"{session}/replay?at=1")
    place = page.locator("#place-index")
    expect(messages(page)).to_have_count(1)
    last = int((place.text_content() or "").split()[-1])
    seen = [(move(page, index), page.evaluate(SHOWN))[1] for index in range(1, last + 1)]
    assert asking in seen
    assert seen[-1] == ended
    move(page, seen.index(asking) + 1)
    expect(page.locator("form.question")).to_have_attribute("inert", "")

    # Played, moved and forked by keyboard
    move(page, 0)
    expect(messages(page)).to_have_count(0)
    expect(page.get_by_role("button", name="Fork from here")).to_be_disabled()
    page.get_by_label("Speed").select_option("100")
    page.locator("#transcript").focus()
    page.keyboard.press("Space")
    expect(place).to_have_text(re.compile(r"Event (\d+) of \1$"))
    move(page, 0)
    page.get_by_role("button", name="Next message").press("Enter")
    expect(messages(page)).to_have_count(1)
    page.get_by_role("button", name="Fork from here").press("Enter")
    elsewhere(page, session)
    expect(messages(page)).to_have_count(1)
    expect(page.locator(".from-user")).to_contain_text("Ask me something")


MANY = """
from benchmarks.sessions import make
from apps.accounts.models import User
from apps.record.models import Context
key = make(0, {messages}, 2)
owner = User.objects.get(email="{email}")
Context.objects.filter(pk=key).update(owner=owner, workspace=owner.membership.workspace)
print(key)
"""
MESSAGES, MOST = 1500, 200  # of the session, and in the page
MOST_ELEMENTS = """
  window.mostElements = 0;
  new MutationObserver(() => {
    window.mostElements = Math.max(mostElements, document.querySelectorAll("#items > li").length);
  }).observe(document, { subtree: true, childList: true });
"""
UP = """(id) => {
  document.getElementById("transcript").scrollTop = 60;
  return document.getElementById(id).getBoundingClientRect().top;
}"""


def test_long_session_keeps_page_small_and_readers_place(page, parley, ada):
    key = parley.manage("shell", "-v0", "-c", MANY.format(email=ada.email, messages=MESSAGES)).stdout.split()[-1]
    session = f"/sessions/{key}"
    page.add_init_script(MOST_ELEMENTS)
    page.goto(session)
    end = page.locator(f"#m-{MESSAGES}")
    expect(end).to_be_in_viewport()

    def go_up():
        first = str(messages(page).first.get_attribute("id"))
        before = page.evaluate(UP, first)
        expect(messages(page).first).not_to_have_id(first)
        box = page.locator(f"#{first}").bounding_box()
        assert box
        assert abs(box["y"] - before) < 3, "nothing moves"

    for _ in range(5):
        go_up()
    expect(end).to_have_count(0)
    page.evaluate("document.getElementById('to-end').click()")
    expect(end).to_be_in_viewport()

    # A link leads far up
    page.evaluate("location.hash = '#m-401'")
    expect(page.locator("#m-401")).to_be_in_viewport()
    expect(page.locator("#m-401")).to_be_focused()
    assert 0 < page.evaluate("mostElements") <= MOST
