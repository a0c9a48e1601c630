"""Edit, retry, fork, the tree of forks, and exports."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import OpenBrowser
from tests.browser.doing import (
    FITS,
    act,
    begin,
    clipboard,
    echoed,
    elsewhere,
    heard,
    messages,
    of_session,
    say,
    session_of,
    settled,
    until,
)
from tests.browser.people import Person


def edit(page: Page, words: str, other: str) -> str:
    before = page.url
    act(page, words, "Edit")
    page.get_by_label("Your message").fill(other)
    page.get_by_role("button", name="Save and run").click()
    fork = elsewhere(page, before)
    heard(page, other)
    settled(page)
    return fork


def test_an_edit_is_kept_until_it_is_saved_and_one_goes_back_and_forth_between_branches(
    page: Page, csv: Path, complaints: list[str]
) -> None:
    original = echoed(page, "the first way")
    words = page.get_by_label("Your message")
    act(page, "the first way", "Edit")
    expect(words).to_be_focused()
    expect(words).to_have_value("the first way")
    words.fill("quite another way")
    page.route("**/api/v1/sessions/*/messages/*", lambda route: route.abort())
    words.press("Control+Enter")
    expect(page.locator(".editor .error")).to_contain_text("cannot be reached")
    complaints.clear()  # from the connection that was cut
    page.unroute_all()
    words.press("Escape")
    expect(page.locator(".editor")).to_have_count(0)
    expect(page.locator(".from-user").get_by_role("button", name="Edit")).to_be_focused()
    page.reload()
    page.locator("#words").press("ArrowUp")  # edits the last own message
    expect(words).to_have_value("quite another way")
    words.fill(" ")
    page.get_by_role("button", name="Save and run").click()
    expect(page.locator(".editor .error")).to_contain_text("The message is empty")
    page.locator(".editor").get_by_role("button", name="Cancel").click()
    act(page, "the first way", "Edit")
    expect(words).to_have_value("the first way")
    page.keyboard.press("Escape")
    edit(page, "the first way", "the second way")
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('draft:edit:'))") == []

    place = page.locator(".from-user .branches")
    expect(place).to_contain_text("2/2")
    place.get_by_role("link", name="Previous branch").click()
    page.wait_for_url(re.compile(re.escape(original) + "#m-"))
    heard(page, "the first way")
    expect(place).to_contain_text("1/2")
    expect(page.get_by_role("link", name="Next branch")).to_be_focused()
    page.keyboard.press("Alt+ArrowRight")
    heard(page, "the second way")
    expect(page.get_by_role("link", name="Previous branch")).to_be_focused()
    page.keyboard.press("Alt+ArrowLeft")
    heard(page, "the first way")

    # The menu at the switcher names the branches
    page.get_by_role("button", name="Branch 1 of 2: all").click()
    menu = page.get_by_role("dialog", name="Branches here")
    expect(menu.get_by_role("link", name="Edited: the second way")).to_be_visible()
    expect(menu.locator("[aria-current]")).to_be_focused()
    menu.get_by_role("button", name="Rename Edited: the second way").click()
    menu.get_by_label("Branch name").fill("The better one")
    menu.get_by_label("Branch name").press("Enter")
    expect(menu.get_by_role("link", name="The better one")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Branch 1 of 2: all")).to_be_focused()
    page.get_by_role("link", name="Next branch").focus()

    # A fork made elsewhere appears by itself
    other = page.context.new_page()
    other.goto(original)
    expect(page.get_by_role("link", name="Next branch")).to_be_focused()
    edit(other, "the first way", "the third way")
    expect(place).to_contain_text("1/3")
    expect(page.get_by_role("link", name="Next branch")).to_be_focused()

    # An edit keeps the message's files
    begin(page, "asking", "A trip", csv)
    expect(page.locator("form.question")).to_be_visible()
    before = page.url
    act(page, "A trip", "Edit")
    expect(page.get_by_text("with the files")).to_be_visible()
    words.fill("Another trip")
    words.press("Control+Enter")
    elsewhere(page, before)
    expect(page.locator(".from-user .chip")).to_contain_text("depths.csv")
    expect(messages(page).first).to_contain_text("Another trip")

    # An answer is retried, and forked once
    original = echoed(page, "one")
    act(page, "one", "Try again", role="agent")
    elsewhere(page, original)
    heard(page, "one")
    settled(page)
    expect(page.locator(".from-user .branches")).to_contain_text("2/2")
    page.goto(original)
    keys: list[str | None] = []
    held: list[Route] = []

    def hold(route: Route) -> None:
        keys.append(route.request.headers.get("idempotency-key"))
        held.append(route)

    page.route("**/fork", hold)
    for _ in range(2):
        act(page, "one", "Fork from here", role="agent")
        expect(page.locator("#toasts")).to_contain_text("Making a fork…")
    held[0].abort()
    expect(page.locator(".composer-error")).to_contain_text("The server cannot be reached. Try again")
    complaints.clear()
    page.unroute_all()
    with page.expect_request("**/fork") as asked:
        act(page, "one", "Fork from here", role="agent")
    assert [asked.value.headers.get("idempotency-key")] == keys, "it would be made once"
    elsewhere(page, original)
    heard(page, "one")
    say(page, "and from here")
    heard(page, "and from here")
    assert messages(page).count() == 4

    # The keyboard moves through the tree's picture
    of_session(page, "Branches", "link")
    dialog = page.get_by_role("dialog", name="Branches")
    expect(dialog.locator("a.tree-line")).to_have_count(3)
    expect(dialog.locator("a.tree-line[aria-current]")).to_be_focused()
    dialog.get_by_text("Show as a table").click()
    expect(dialog.get_by_role("table")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate(FITS)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="More about this session")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Branches")).to_be_focused()
    page.keyboard.press("Enter")
    dialog.locator("a.tree-line").first.press("Enter")
    page.wait_for_url(original)


def test_words_are_copied_referred_to_and_shared_by_a_link(
    page: Page, open_browser: OpenBrowser, ada: Person, complaints: list[str]
) -> None:
    begin(page, "storyteller", "Tell me a story")
    story = heard(page, "river")
    settled(page)
    story.hover()
    page.locator(".from-agent").get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("Copied.")
    assert clipboard(page).startswith("A story\n")
    act(page, "river", "Copy as Markdown", role="agent")
    until(page, "() => navigator.clipboard.readText().then((words) => words.startsWith('#'))")
    assert clipboard(page).startswith("# A story\n\nOnce upon a *time* there was a **river**.")
    act(page, "river", "Copy link", role="agent")
    expect(page.locator("#toasts")).to_contain_text("Link copied")
    assert re.fullmatch(re.escape(page.url) + r"#m-\d+", clipboard(page))

    # A reference is shown and recorded, also after a reload; the next message has none
    echoed(page, "Run *this*:\n\n```python\nprint(1)\n```\n\nand no more.")
    page.locator(".from-agent .copy-code").click()
    until(page, "() => navigator.clipboard.readText().then((words) => words.trim() === 'print(1)')")
    say(page, "something between")
    heard(page, "something between")
    settled(page)
    chip = page.locator("#composer-notes .chip")
    for words in ("and no more", "something between"):
        act(page, words, "Reply to this", role="agent")
    expect(chip).to_have_count(2)
    page.get_by_role("button", name="Do not reply to something between").click()
    expect(chip).to_have_count(1)
    page.locator("#words").fill("and once more")
    page.reload()
    expect(chip).to_contain_text("Run")
    say(page, "and once more")
    heard(page, "and once more")
    settled(page)
    expect(chip).to_have_count(0)
    tasks = sorted(
        ada.api("GET", f"/sessions/{session_of(page)}?include=tasks")["tasks"], key=lambda task: task["createdAt"]
    )
    said = messages(page).filter(has_text="and once more").first.locator("a.chip")
    for _ in range(2):
        expect(said).to_have_attribute("href", f"/tasks/{tasks[0]['id']}")
        page.reload()
    say(page, "without")
    heard(page, "without")
    settled(page)
    expect(messages(page).filter(has_text="without").first.locator("a.chip")).to_have_count(0)

    # The whole session, as Markdown and by a link
    of_session(page, "Copy as Markdown")
    expect(page.locator("#toasts")).to_contain_text("as Markdown")
    copied = clipboard(page)
    assert "## You · " in copied
    assert "## Echo · " in copied
    page.get_by_role("button", name="More about this session").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as Markdown").click()
    assert download.value.path().read_text().splitlines() == copied.splitlines()
    page.keyboard.press("Escape")
    of_session(page, "Share…")
    dialog = page.get_by_role("dialog", name="Share this session")
    expect(dialog).to_contain_text("No links yet.")
    dialog.get_by_label("Link expires after").select_option("7 days")
    dialog.get_by_role("button", name="Create link").dblclick()
    link = dialog.get_by_label("The link", exact=True)
    expect(link).to_be_focused()
    expect(dialog.get_by_role("listitem")).to_have_count(1)
    stranger = open_browser(storage_state=None).new_page()
    stranger.goto(link.input_value())
    expect(stranger.get_by_text("and once more").first).to_be_visible()
    dialog.get_by_role("button", name="Revoke").click()
    expect(dialog).to_contain_text("Link revoked.")
    stranger.reload()
    expect(stranger.get_by_text("There is nothing at this link.")).to_be_visible()
    complaints.clear()  # from the 404


def test_an_edit_is_saved_without_running_and_keys_copy(page: Page) -> None:
    original = begin(page, "echo", "Try this:\n```\nprint(1)\n```")
    heard(page, "Try this:")
    settled(page)
    page.locator("#transcript").focus()
    page.keyboard.press("Control+Shift+Semicolon")
    expect(page.locator("#toasts")).to_contain_text("Last code block copied.")
    assert clipboard(page).strip() == "print(1)"
    page.keyboard.press("Control+Shift+C")
    expect(page.locator("#toasts")).to_contain_text("Last answer copied.")
    assert "Try this:" in clipboard(page)
    page.keyboard.press("Shift+Escape")
    expect(page.locator("#words")).to_be_focused()

    act(page, "Try this", "Edit")
    page.get_by_label("Your message").fill("Try that")
    page.get_by_role("button", name="Save", exact=True).click()
    saved = elsewhere(page, original)
    expect(page.locator(".edited summary")).to_contain_text("1 earlier version")
    expect(page.locator(".from-agent")).to_have_count(0)
    page.get_by_role("button", name="Run").click()
    elsewhere(page, saved)
    heard(page, "Try that")
    expect(page.locator(".edited summary")).to_contain_text("1 earlier version")
