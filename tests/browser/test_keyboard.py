"""The keyboard can do all of it: one sees where the focus is, and it is never lost when something closes or goes."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.conftest import PHONE, SESSION
from tests.browser.doing import artifact, begin, heard, settled
from tests.browser.test_sidebar import entry, live, session_of
from tests.faults.calling import Caller
from tests.stack import Stack

MOST = 400  # presses of Tab to get anywhere on a page: other tests leave agents and sessions
ON_SOMETHING = "() => document.activeElement && document.activeElement !== document.body"
# Of what Tab goes to: a ring on it, or on what it stands in.
IS_SEEN = """() => {
  const one = document.activeElement;
  const rings = (element) => [null, "::after"].some((piece) => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element, piece);
    return (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none";
  });
  const { width, height } = one.getBoundingClientRect();
  const around = [one, one.parentElement, one.parentElement.parentElement, ...(one.labels ?? [])];
  return { isSeen: around.some(rings) && width + height > 0, what: one.outerHTML.slice(0, 200) };
}"""


def reach(page: Page, place: Locator, key: str = "Tab") -> None:
    """Go there by Tab; at each stop one sees where one is."""
    expect(place).to_be_visible()
    for _ in range(MOST):
        if place.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press(key)
        if page.evaluate(ON_SOMETHING):
            stop = page.evaluate(IS_SEEN)
            assert stop["isSeen"], stop["what"]
    raise AssertionError(f"{place} cannot be reached by {key}")


def kept(page: Page) -> None:
    """The focus is somewhere, also once the page was drawn again."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate(ON_SOMETHING), "the focus is lost"


def chosen(page: Page, name: str) -> None:
    """Go to an entry of the menu that is open, by arrows, and take it."""
    wanted = page.locator(":popover-open").get_by_text(name, exact=True)
    for _ in range(12):
        if wanted.evaluate("element => document.activeElement.contains(element)"):
            break
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def test_a_conversation_is_led_by_keyboard(page: Page) -> None:
    page.goto("/")
    live(page)
    page.keyboard.press("Control+Shift+o")
    page.keyboard.type("storyteller")
    expect(page.locator("[role=option][aria-selected=true]")).to_contain_text("Storyteller")
    page.keyboard.press("Enter")
    page.wait_for_url("**/agents/storyteller")
    reach(page, page.locator("#words"))
    page.keyboard.type("Tell me a story")
    page.keyboard.press("Enter")
    page.wait_for_url(SESSION)
    heard(page, "river")
    settled(page)
    expect(page.locator("#words")).to_be_focused()
    first = page.url

    # What was done, and what one can do with an answer
    fold = page.locator(".work summary")
    reach(page, fold, "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".work .steps")).to_be_visible()
    expect(fold).to_be_focused()
    more = page.locator(".from-agent [data-act=more]")
    reach(page, more)
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(more).to_be_focused()
    star = page.get_by_role("button", name="4 of 5")
    reach(page, star)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Why?")).to_be_visible()
    expect(star).to_be_focused()

    # Say it differently, and go back to how it was
    mine = page.locator(".from-user [data-act=more]")
    reach(page, mine, "Shift+Tab")
    page.keyboard.press("Enter")
    chosen(page, "Edit")
    expect(page.get_by_label("Your message")).to_be_focused()
    page.keyboard.press("Escape")
    expect(mine).to_be_focused()
    page.keyboard.press("Enter")
    chosen(page, "Edit")
    expect(page.get_by_label("Your message")).to_be_focused()
    page.keyboard.type(", please")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(lambda address: address != first and bool(SESSION.search(address)))
    heard(page, "river")
    settled(page)
    kept(page)
    reach(page, page.get_by_role("link", name="Previous branch"), "Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{first}#m-*")
    expect(page.get_by_role("link", name="Next branch")).to_be_focused()


def test_what_opens_over_a_session_closes_with_escape_and_gives_the_focus_back(page: Page) -> None:
    begin(page, "echo", "open and close")
    heard(page, "open and close")
    settled(page)
    more = page.get_by_role("button", name="More about this session")
    for choice, title in (("Branches", "Branches"), ("Share by a link…", "Share this session")):
        reach(page, more, "Shift+Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#session-menu a").first).to_be_focused()
        page.keyboard.press("Escape")
        expect(more).to_be_focused()
        page.keyboard.press("Enter")
        chosen(page, choice)
        dialog = page.get_by_role("dialog", name=title)
        expect(dialog.locator(":focus")).to_have_count(1)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(more).to_be_focused()
    words = page.locator("#words")
    words.focus()
    for keys, shown in (("Control+/", "Keyboard shortcuts"), ("Control+k", "Search")):
        page.keyboard.press(keys)
        expect(page.get_by_role("dialog", name=shown)).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog", name=shown)).to_be_hidden()
        expect(words).to_be_focused()
    page.keyboard.press("Escape")
    kept(page)


def test_a_question_is_answered_and_its_file_looked_at_and_verified(page: Page, parley: Stack) -> None:
    sign = "from apps.agents.models import Agent; Agent.objects.filter(slug='asking').update(sign_artifacts=True)"
    parley.manage("shell", "-v0", "-c", sign)
    begin(page, "asking", "A trip")
    expect(page.get_by_label("First")).to_be_focused()
    page.keyboard.press("Space")
    reach(page, page.get_by_label("Yes"))
    page.keyboard.press("Space")
    reach(page, page.get_by_role("button", name="Send answer"))
    page.keyboard.press("Enter")
    heard(page, "Noted.")
    settled(page)
    kept(page)
    file = artifact(page, "trip").get_by_role("button")
    reach(page, file)
    page.keyboard.press("Enter")
    expect(page.locator("#preview h3")).to_be_focused()
    line = page.locator("#preview summary.signature-line")
    reach(page, line)
    page.keyboard.press("Enter")
    verify = page.locator("#verify")
    reach(page, verify)
    with page.expect_response("**/signature*"):
        page.keyboard.press("Enter")
    expect(page.locator("#announcer")).to_contain_text("Signature holds")
    expect(verify).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#preview")).to_be_hidden()
    expect(file).to_be_focused()


def test_files_over_a_conversation_give_the_focus_back(
    open_browser: Callable[..., BrowserContext], watched: Callable[[Page], list[str]]
) -> None:
    page = open_browser(PHONE).new_page()
    watched(page)
    begin(page, "echo", "on a phone")
    heard(page, "on a phone")
    settled(page)
    reach(page, page.locator("#to-panel"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#panel")).to_be_focused()
    reach(page, page.locator("#artifacts button").first)
    page.keyboard.press("Enter")
    expect(page.locator("#preview h3")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#to-panel")).to_be_focused()


def test_sessions_are_put_away_and_deleted_and_taken_back(page: Page, parley: Stack) -> None:
    keys = [str(Caller(parley, "echo").send(words)["contextId"]) for words in ("The one below", "The one to go")]
    below, key = keys
    page.goto("/agents")
    live(page)
    for name, tells in (("Archive", "is archived"), ("Delete", "is deleted")):
        reach(page, entry(page, key))
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        chosen(page, name)
        expect(entry(page, below)).to_be_focused()
        expect(entry(page, key)).to_have_count(0)
        expect(page.locator(".toast")).to_contain_text(tells)
        reach(page, page.locator(".toast").get_by_role("button", name="Undo"), "Shift+Tab")
        page.keyboard.press("Enter")
        expect(entry(page, key)).to_be_visible()
        expect(page.locator(".toast")).to_have_count(0)
        kept(page)
        page.locator("#main").focus()


def test_the_button_that_goes_when_the_work_is_done_leaves_the_focus_where_one_writes(page: Page) -> None:
    begin(page, "long", "3 this")
    reach(page, page.get_by_role("button", name="Stop"))
    heard(page, "Done with this.")
    settled(page)
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(page.locator("#words")).to_be_focused()


def test_the_inbox_and_the_player_by_keyboard(page: Page) -> None:
    begin(page, "asking", "A trip to answer elsewhere")
    expect(page.locator("form.question")).to_be_visible()
    session = session_of(page)
    page.goto("/inbox")
    item = page.locator(".inbox-item", has_text="A trip to answer elsewhere")
    reach(page, item.get_by_label("First"))
    page.keyboard.press("Space")
    reach(page, item.get_by_label("Yes"))
    page.keyboard.press("Space")
    reach(page, item.get_by_role("button", name="Send answer"))
    page.keyboard.press("Enter")
    expect(item).to_have_count(0)
    kept(page)
    page.goto(f"/sessions/{session}")
    expect(page.locator("#items")).to_contain_text("Noted.")  # a replay shows what there was when it was opened
    page.goto(f"/sessions/{session}/replay")
    place = page.locator("#place-index")
    expect(place).to_contain_text("Event 0 of")
    reach(page, page.locator("#place"))
    page.keyboard.press("ArrowRight")
    expect(place).to_contain_text("Event 1 of")
    page.keyboard.press("End")
    expect(page.locator("#items")).to_contain_text("Noted.")
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    expect(page.locator("#play-word")).to_have_text("Pause")
    page.keyboard.press("Space")
    expect(page.locator("#play-word")).to_have_text("Play")
    expect(page.locator("#place")).to_be_focused()
