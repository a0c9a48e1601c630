"""Conversations: first answers, streaming, questions, other agents, and scrolling."""

import re

from playwright.sync_api import expect

from tests.browser.agents import STORY
from tests.browser.doing import SESSION, begin, echoed, heard, messages, say, settled, sign_in, sign_out, stop, until
from tests.browser.people import PASSWORD


def test_newcomer_signs_in_writes_and_signs_out(open_browser, ada):
    page = open_browser(storage_state=None).new_page()
    page.goto("/")
    sign_in(page, ada.email, PASSWORD)
    expect(page.locator("#words")).to_be_focused()
    expect(page.locator("[data-try]")).to_have_count(3)
    page.get_by_role("button", name="I want to go away").press("Enter")
    page.wait_for_url(SESSION)
    expect(messages(page).first).to_contain_text("I want to go away")
    page.goto("/")
    expect(page.get_by_role("textbox", name="Message Travel")).to_be_focused()
    sent = page.evaluate("fetch('/').then((answer) => answer.text())")
    assert f">{page.locator('#sessions time').first.inner_text()}</time>" in sent, "scripts write times as the server"

    # Empty messages are not sent; text is shown unchanged
    page.goto("/agents/hello")
    page.keyboard.type("   ")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/agents/hello$"))
    page.locator("#words").fill("")
    page.keyboard.type("One <b>line</b>,")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("and another")
    page.keyboard.press("Enter")
    page.wait_for_url(SESSION)
    heard(page, "and another")
    expect(page.locator(".from-user .verbatim")).to_have_text("One <b>line</b>,\nand another")
    session = page.url
    sign_out(page)
    page.goto(session)
    expect(page).to_have_url(re.compile("/sign-in"))


NOTE_WHAT_STREAMS = """
  window.streamed = [];
  new MutationObserver(() => {
    const stream = document.querySelector(".streaming");
    if (stream && streamed.at(-1) !== stream.textContent) streamed.push(stream.textContent);
  }).observe(document, {subtree: true, childList: true, characterData: true});
"""
APPLY = """async (patches) => {
  const { apply, begin } = await import("/static/js/session/state.js");
  const { items, open, ratings } = patches.reduce(apply, begin());
  const isSet = ([, value]) => value !== null;
  return [items.map((item) => Object.fromEntries(Object.entries(item).filter(isSet))), open, ratings];
}"""
LINE = """(path) => new Promise((done) => {
  const heard = [];
  const socket = new WebSocket(location.origin.replace("http", "ws") + path + "?after=0");
  socket.onmessage = ({ data }) => {
    const said = JSON.parse(data);
    if (said.patch) heard.push(said.patch);
    if (said.patch) socket.send(JSON.stringify({ seen: said.last }));
    if (heard.at(-1)?.index >= JSON.parse(document.getElementById("beginning").textContent).last) {
      socket.close();
      done(heard);
    }
  };
})"""


def assert_loaded_is_as_live(page):
    """What is fetched is what was fetched before, with all patches."""
    settled(page)
    page.reload()
    beginning = page.evaluate("JSON.parse(document.getElementById('beginning').textContent)")
    loaded = page.evaluate(APPLY, [beginning["patch"]])
    assert loaded[0], "there is something"
    patches = page.evaluate(LINE, beginning["line"])
    assert page.evaluate(APPLY, patches) == loaded
    assert page.evaluate(APPLY, [*patches, *patches]) == loaded, "what comes again changes nothing"


def test_words_stream_stop_and_fail_in_place(page):
    page.add_init_script(NOTE_WHAT_STREAMS)
    begin(page, "countdown", "Count down from 900")
    made = page.locator("#items .made")
    expect(made).to_contain_text("880\n")
    expect(made).to_be_in_viewport()
    expect(page.locator("#head-state")).to_have_text("Working")
    stop(page)
    expect(made).to_contain_text("Unfinished")
    seen = made.locator(".made-body").inner_text().split()
    assert seen[:21] == [str(number) for number in range(900, 879, -1)]
    page.reload()
    assert made.locator(".made-body").inner_text().split() == seen
    expect(page.locator(".work").last).to_contain_text("Stopped")
    page.get_by_role("button", name="Send again").click()
    expect(page.locator(".from-user")).to_have_count(2)
    stop(page)

    # Each text appears once: the streamed text is formatted in place when it is complete
    page.goto("/agents/storyteller")
    say(page, "Tell me a story")
    page.wait_for_url(SESSION)
    expect(page.locator(".from-agent strong")).to_have_text("river")
    say(page, "And once more")
    expect(page.locator(".from-agent strong")).to_have_count(2)
    settled(page)
    grown = [text for text in page.evaluate("streamed") if STORY.startswith(text)]
    assert len(grown) > 1
    expect(messages(page)).to_have_count(4)
    folded = page.get_by_text("Rivers run to the sea.").last
    expect(folded).to_be_hidden()
    page.locator(".work summary").last.click()
    expect(folded).to_be_visible()
    assert_loaded_is_as_live(page)

    # A failure gives its reason; a rejection looks different
    begin(page, "failing", "Measure")
    heard(page, "The instrument did not answer.")
    expect(page.locator(".work").last).to_contain_text("Failed")
    say(page, "decline this")
    heard(page, "I only do what I can do.")
    expect(page.locator(".work").last).to_contain_text("Not accepted")
    assert_loaded_is_as_live(page)


DRAFTS = "Object.keys(localStorage).filter((key) => key.startsWith('draft:answer:'))"
LIVE = "[aria-live]:not([aria-live=off]), [role=status], [role=alert]"
# Records additions and changes in live regions, also regions that are added with text.
LISTEN = f"""
  window.told = [];
  const tell = (region, text) => text.trim() && told.push([region.id || region.className, text.trim()]);
  new MutationObserver((changes) => {{
    for (const {{ type, target, addedNodes }} of changes) {{
      const element = target.nodeType === 1 ? target : target.parentElement;
      const region = element?.closest("{LIVE}");
      if (region && type === "characterData") tell(region, target.data);
      else if (region) addedNodes.forEach((node) => tell(region, node.textContent));
    }}
  }}).observe(document, {{ childList: true, characterData: true, subtree: true }});
"""
SEEN_TO = """async () => {
  const known = performance.getEntriesByType("resource").find(({ name }) => name.includes("/session/questions."));
  if (!known) return false;
  await import(known.name);
  await new Promise((done) => setTimeout(done));
  return true;
}"""
"""Whether what a page does with a question that comes was done."""


def told(page, words):
    until(page, "(words) => told.some(([, one]) => one.includes(words))", words)
    return [one for one in page.evaluate("told") if words in one[1]]


def kept(page, words):
    until(page, "(words) => JSON.stringify(localStorage).includes(words)", words)


def test_questions_and_answers_are_announced_once(page, go):
    page.add_init_script(LISTEN)
    begin(page, "interviewer", f"Ask me something {go}")
    heard(page, "Let me")
    words = page.locator("#words")
    words.press_sequentially("let me think")
    go.touch()
    expect(page.locator("form.question")).to_be_visible()
    until(page, SEEN_TO)
    expect(words).to_be_focused()
    expect(words).to_have_value("let me think")
    assert len(told(page, "favourite colour")) == 1
    assert len(told(page, "Let me")) == 1, "what streamed is read when it is whole"
    page.get_by_label("Colour").fill("green")
    page.get_by_role("button", name="Send answer").click()
    settled(page)
    assert [region for region, _ in told(page, "nothing else")] == ["announcer"]
    assert told(page, "green") == told(page, "nothing else"), "one knows what one said oneself"
    up = page.get_by_role("button", name="Good answer")
    up.press("Enter")
    page.get_by_label("What was good?").fill("well said")
    page.keyboard.press("Enter")
    expect(up).to_be_focused()
    assert len(told(page, "rating is saved")) == 1
    page.reload()
    expect(up).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("told") == [], "a page that is opened again is read by whoever reads it"


def test_answers_are_kept_until_sent_except_secrets(page, csv, complaints):
    begin(page, "asking", "A trip")
    first = page.get_by_role("radio", name="First")
    expect(first).to_be_focused()
    page.get_by_role("button", name="Send answer").press("Enter")
    expect(page.locator("[data-field=answer-class] .field-error")).to_be_visible()
    expect(first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    people = page.get_by_label("How many people")
    page.get_by_label("A wish").fill("a window")
    page.get_by_label("Passenger list").set_input_files(csv)
    people.evaluate("field => field.removeAttribute('max')")
    people.fill("12")
    kept(page, "a window")
    page.reload()
    expect(page.get_by_role("radio", name="Second")).to_be_checked()
    expect(page.get_by_role("radio", name="Yes")).to_be_checked()
    expect(page.get_by_label("A wish")).to_have_value("a window")
    expect(page.locator(".question-error")).to_have_text("The files of this draft are gone; choose them again.")

    # The server validates again; refused input stays
    people.evaluate("field => field.removeAttribute('max')")
    page.get_by_role("button", name="Send answer").click()
    expect(page.locator(".question-error")).to_have_text("How many people: the number must be from 1 to 9.")
    complaints.clear()
    expect(people).to_have_value("12")
    people.fill("3")
    page.get_by_label("Passenger list").set_input_files(csv)
    people.press("Enter")
    heard(page, "Noted.")
    assert page.locator(".from-user").last.locator("dd").all_text_contents()[:4] == ["Second", "Yes", "3", "a window"]
    expect(page.locator(".from-user").last).to_contain_text("depths.csv")
    assert page.evaluate(DRAFTS) == []

    begin(page, "locksmith", "Let me in")
    form = page.locator("form.question")
    form.get_by_label("Door").fill("the blue one")
    form.get_by_label("Code").fill("hush-1234")
    form.get_by_label("Phrase").fill("hush-open-sesame")
    kept(page, "the blue one")
    assert "hush" not in page.evaluate("JSON.stringify(localStorage)")
    page.reload()
    expect(form.get_by_label("Door")).to_have_value("the blue one")
    expect(form.get_by_label("Code")).to_have_value("")


def test_session_switches_agent_and_readers_stay(page):
    echoed(page, "\n".join(f"line {number}" for number in range(120)))
    page.get_by_role("button", name="Switch").press("Enter")
    page.locator("#switch-to").get_by_role("button", name="Asking").press("Enter")
    expect(page.locator(".switched")).to_contain_text("Continued with Asking")
    expect(page.locator("#words")).to_have_attribute("placeholder", "Message Asking…")
    expect(page.locator("#words")).to_be_focused()

    # Events of another window, even a question, do not scroll a reader
    other = page.context.new_page()
    other.goto(page.url)
    place = page.locator("#transcript")
    place.evaluate("element => element.scrollTop = 100")
    say(other, "A trip")
    expect(page.locator("form.question")).to_have_count(1)
    expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
    until(page, SEEN_TO)
    assert place.evaluate("element => element.scrollTop") == 100
    assert not page.evaluate("Boolean(document.activeElement.closest('form.question'))")
    page.get_by_role("button", name="Jump to latest").click()
    expect(page.locator("form.question")).to_be_in_viewport()
    page.get_by_role("radio", name="First").check()
    page.get_by_role("radio", name="No").check()
    page.get_by_role("button", name="Send answer").click()
    heard(page, "Noted.")
    assert page.locator(".from-agent .who").all_text_contents() == ["Echo", "Asking", "Asking"]

    # Who comes back finds their place
    place.evaluate("element => element.scrollTop = 300")
    expect(page.locator("#to-end")).to_be_hidden()
    until(page, "() => document.getElementById('transcript').scrollTop === 300")
    page.reload()
    until(page, "() => Math.abs(document.getElementById('transcript').scrollTop - 300) < 2")
