"""Search, shortcuts, keyboard use, the sidebar, agents, and notifications."""

import re

from playwright.sync_api import expect

from tests.browser.doing import SESSION, Held, artifact, echoed, entry, heard, live, say, settled, wait


def chosen(page):
    return page.locator("[role=option][aria-selected=true]")


def test_search_finds_everything_also_offline(page, complaints):
    key = echoed(page, "Zanzibar is a <img src=x onerror=alert(1)> title").rsplit("/", 1)[1]
    page.goto("/agents")
    live(page)
    script = Held(page, "**/shell/palette.*.js")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search sessions, messages, agents, people or an id")
    page.keyboard.type("title zanz")  # before its script has loaded
    script.let_go()
    expect(chosen(page)).to_contain_text("Zanzibar is a")
    said = page.locator("[role=group][aria-label='Messages and files'] [role=option]")
    expect(said.first.locator("mark").first).to_have_text(re.compile("zanz|title", re.IGNORECASE))
    expect(said.first).to_contain_text("<img src=x")
    page.keyboard.press("ArrowUp")  # to the last
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"/sessions/{key}#m-\d+$"))

    # An id leads to what has it
    page.keyboard.press("Control+k")
    page.keyboard.type(key[:8])
    named = page.get_by_role("group", name="With this id").get_by_role("option")
    expect(named).to_have_count(1)
    expect(named).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/sessions/{key}")

    # Offline, search uses local data, does not claim that nothing exists, and restores the focus
    page.goto("/agents")
    live(page)
    page.get_by_role("button", name="Search").first.press("Enter")
    expect(chosen(page)).to_have_count(1)
    page.wait_for_load_state("networkidle")
    page.context.set_offline(True)
    page.keyboard.type("zanz")
    expect(chosen(page)).to_contain_text("Zanzibar is a")
    state = page.locator(".palette-state")
    expect(state).to_have_text("The server cannot be reached. Only sessions known to this browser are listed.")
    page.context.set_offline(False)
    complaints.clear()
    field.fill("qxqxqxq")
    expect(state).to_have_text("No results. Try other words.")
    page.keyboard.press("Escape")
    expect(page.locator(".sidebar [data-open=palette]")).to_be_focused()


ON_SOMETHING = "() => document.activeElement && document.activeElement !== document.body"
# Whether a focused element, or its container, has a visible ring.
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


def reach(page, place, key="Tab"):
    """Go there by Tab; each stop must show its focus."""
    expect(place).to_be_visible()
    for _ in range(150):
        if place.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press(key)
        if page.evaluate(ON_SOMETHING):
            stop = page.evaluate(IS_SEEN)
            assert stop["isSeen"], stop["what"]
    raise AssertionError(f"{place} cannot be reached by {key}")


def test_keyboard_alone_leads_a_conversation(page):
    page.goto("/")
    live(page)
    reach(page, page.locator("#agent-picker"))
    page.keyboard.press("Enter")
    page.keyboard.type("asking")
    expect(chosen(page)).to_contain_text("Asking")
    page.keyboard.press("Enter")
    expect(page.locator("#words")).to_be_focused()
    page.keyboard.type("A trip")
    page.keyboard.press("Enter")
    page.wait_for_url(SESSION)
    expect(page.get_by_label("First")).to_be_focused()
    page.keyboard.press("Space")
    reach(page, page.get_by_label("Yes"))
    page.keyboard.press("Space")
    reach(page, page.get_by_role("button", name="Send answer"))
    page.keyboard.press("Enter")
    heard(page, "Noted.")
    settled(page)
    session = page.url
    file = artifact(page, "trip").get_by_role("button")
    reach(page, file)
    page.keyboard.press("Enter")
    expect(page.locator("#preview h3")).to_be_focused()
    verify = page.locator("#verify")
    reach(page, page.locator("#preview summary.signature-line"))
    page.keyboard.press("Enter")
    reach(page, verify)
    page.keyboard.press("Enter")
    expect(page.locator("#announcer")).to_contain_text("Signature valid")
    expect(verify).to_be_focused()
    page.keyboard.press("Escape")
    expect(file).to_be_focused()

    # Actions on an answer, and overlays, which restore the focus
    page.goto(session)
    heard(page, "Noted.")
    more, items = page.locator(".from-agent [data-act=more]").last, page.get_by_role("menuitem")
    reach(page, more, "Shift+Tab")
    page.keyboard.press("Enter")
    expect(items.first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(items.last).to_be_focused()
    page.keyboard.press("Escape")
    expect(more).to_be_focused()
    opener = page.get_by_role("button", name="More about this session")
    reach(page, opener, "Shift+Tab")
    page.keyboard.press("Enter")
    wanted = page.locator(":popover-open").get_by_text("Share…", exact=True)
    while not wanted.evaluate("element => document.activeElement.contains(element)"):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Share this session")
    expect(dialog.locator(":focus")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()


def do(page, session, name):
    row = page.locator(f".recent [data-key='{session}']")
    row.hover()
    row.locator("[data-more]").click()
    page.get_by_role("menuitem", name=name, exact=True).click()


def test_session_list_is_live_in_every_tab(page, ada, complaints):
    other = page.context.new_page()
    tabs = page, other
    for tab in tabs:
        tab.goto("/agents")
        live(tab)
    older, _ = ada.begin("echo", "The first name")
    younger, _ = ada.begin("asking", "A younger one")
    for tab in tabs:
        expect(tab.locator(".recent [data-session]").first).to_contain_text("A younger one")
        expect(entry(tab, younger).locator(".sign-waiting")).to_be_visible()
        expect(entry(tab, older).get_by_text("New", exact=True)).to_be_attached()
    entry(page, older).focus()
    ada.say(older, "once more")
    for tab in tabs:
        expect(tab.locator(".recent [data-session]").first).to_have_attribute("data-session", older)
    expect(entry(page, older)).to_be_focused()
    other.goto(f"/sessions/{older}")
    expect(entry(page, older).get_by_text("New", exact=True)).to_have_count(0)
    other.goto("/agents")

    # Renamed by keyboard only, and pinned
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_label("Session name").fill("A second name")
    page.keyboard.press("Enter")
    expect(entry(page, older)).to_be_focused()
    do(page, younger, "Pin")
    for tab in tabs:
        expect(entry(tab, older)).to_contain_text("A second name")
        expect(tab.locator(".recent h2").first).to_have_text("Pinned")
        expect(tab.locator(".recent [data-session]").first).to_have_attribute("data-session", younger)

    # Deleting can be undone, also on the next page
    do(page, older, "Delete")
    expect(entry(page, younger)).to_be_focused()
    for tab in tabs:
        expect(entry(tab, older)).to_have_count(0)
    toast = page.locator(".toast", has_text="deleted")
    toast.hover()
    assert ada.session(older), "it is not deleted while that can be taken back"
    page.goto("/settings/credentials")
    toast.hover()
    expect(entry(page, older)).to_have_count(0)
    page.keyboard.press("Control+z")
    for tab in tabs:
        expect(entry(tab, older)).to_be_visible()
    complaints[:] = [one for one in complaints if "404" not in one]


def test_agents_are_found_tried_and_added(page, parley):
    page.goto("/agents")
    cards = page.locator(".agent-card")
    page.locator("#q").press_sequentially("countd")
    expect(cards).to_have_count(1)
    expect(page.locator("#q")).to_be_focused()
    expect(page).to_have_url(re.compile(r"/agents\?q=countd$"))

    # An example replaces the draft, which can be restored
    page.goto("/agents/echo")
    page.locator("#words").fill("lines of my own")
    page.get_by_role("button", name="Anything at all", exact=True).click()
    expect(page.locator("#words")).to_have_value("Anything at all")
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.locator("#words")).to_have_value("lines of my own")

    # A remote agent, here at this address, is inspected before it is added
    page.goto("/agents/remote/add")
    page.get_by_label("Address").fill(f"{parley.url}/a2a/hello")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("The agent is not added yet.")).to_be_visible()
    page.get_by_label("Slug").fill("far-away")
    page.get_by_role("button", name="Add agent").click()
    page.wait_for_url("**/agents/far-away")
    say(page, "over there")
    page.wait_for_url(SESSION)
    heard(page, "over there")


BROWSER = """
window.shown = [];
const known = location.protocol === "http:" ? localStorage : {getItem: () => null};
window.Notification = class {
  static permission = known.getItem("test.permission") ?? "default";
  static async requestPermission() {
    localStorage.setItem("test.permission", window.answers);
    return (this.permission = window.answers);
  }
  constructor(title, about) { window.shown.push(Object.assign(this, { title, ...about })); }
  close() {}
};
window.answers = "granted";
Object.defineProperty(document, "hidden", { get: () => known.getItem("test.away") === "yes" });
"""


def told(pages, words):
    found = []
    wait(pages[0], lambda: found.extend(one for one in pages if one.locator(".toast", has_text=words).count()) or found)
    return found[0]


def test_one_page_or_the_browser_tells_news(open_browser, ada):
    context = open_browser()
    context.add_init_script(BROWSER)
    page, other = context.new_page(), context.new_page()
    echoed(page, "What I look at")
    other.goto("/agents")
    live(other)
    say(page, "And again")
    heard(page, "And again")
    session, _ = ada.begin("echo", "The thing that ends")
    told([page, other], "“The thing that ends” completed.")
    ada.begin("echo", "The thing after it")
    told([page, other], "“The thing after it” completed.")
    says = [one.locator(".toast", has_text="The thing that ends").count() for one in (page, other)]
    assert sorted(says) == [0, 1], "and the other page does not repeat it"
    assert not [one for one in (page, other) if one.locator(".toast", has_text="“What I look at”").count()]
    teller = told([page, other], "The thing that ends")
    teller.locator(".toast", has_text="The thing that ends").get_by_role("button", name="Open").click()
    teller.wait_for_url(f"**/sessions/{session}")

    # The browser notifies people who allowed it and are away
    switch = page.get_by_role("switch", name="Notify me")
    page.goto("/agents")
    page.locator(".sidebar [popovertarget=account]").click()
    switch.click()
    expect(switch).to_be_checked()
    other.goto("/agents")
    for one in (page, other):
        one.reload()
        live(one)
    page.evaluate("localStorage.setItem('test.away', 'yes')")
    session, _ = ada.begin("asking", "Where nobody looks")
    shown = []
    said = "shown.map(({ title, body }) => [title, body])"
    wait(page, lambda: shown.extend((one, *words) for one in (page, other) for words in one.evaluate(said)) or shown)
    [(teller, *words)] = shown
    assert words == ["“Where nobody looks” has a question", "Where to, and how?"]
    teller.evaluate("window.shown[0].onclick()")
    teller.wait_for_url(f"**/sessions/{session}")
