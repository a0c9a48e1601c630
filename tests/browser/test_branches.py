"""Edit, retry, fork, the tree of forks, and exports."""

import re

from playwright.sync_api import expect

from tests.browser.doing import (
    act,
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


def edit(page, words, other):
    before = page.url
    act(page, words, "Edit")
    page.get_by_label("Your message").fill(other)
    page.get_by_role("button", name="Save and run").click()
    fork = elsewhere(page, before)
    heard(page, other)
    settled(page)
    return fork


def test_edit_is_kept_and_leads_to_a_branch(page, complaints):
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
    expect(page.locator(".from-user").get_by_role("button", name="Edit")).to_be_focused()
    page.reload()
    page.locator("#words").press("ArrowUp")  # edits the last own message
    expect(words).to_have_value("quite another way")
    page.locator(".editor").get_by_role("button", name="Cancel").click()
    edit(page, "the first way", "the second way")
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('draft:edit:'))") == []

    place = page.locator(".from-user .branches")
    expect(place).to_contain_text("2/2")
    place.get_by_role("link", name="Previous branch").click()
    page.wait_for_url(re.compile(re.escape(original) + "#m-"))
    heard(page, "the first way")
    expect(place).to_contain_text("1/2")
    expect(page.get_by_role("link", name="Next branch")).to_be_focused()

    # A fork made elsewhere appears by itself
    other = page.context.new_page()
    other.goto(original)
    edit(other, "the first way", "the third way")
    expect(place).to_contain_text("1/3")
    expect(page.get_by_role("link", name="Next branch")).to_be_focused()


def test_answer_is_retried_and_forked_once(page, complaints):
    original = echoed(page, "one")
    act(page, "one", "Try again", role="agent")
    elsewhere(page, original)
    heard(page, "one")
    settled(page)
    expect(page.locator(".from-user .branches")).to_contain_text("2/2")
    page.goto(original)
    keys = []
    held = []

    def hold(route):
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
    say(page, "and from here")
    heard(page, "and from here")
    assert messages(page).count() == 4

    # The keyboard moves through the tree's picture
    of_session(page, "Branches", "link")
    dialog = page.get_by_role("dialog", name="Branches")
    expect(dialog.locator("a.tree-line")).to_have_count(3)
    expect(dialog.locator("a.tree-line[aria-current]")).to_be_focused()
    page.keyboard.press("Escape")
    of_session(page, "Branches", "link")
    dialog.locator("a.tree-line").first.press("Enter")
    page.wait_for_url(original)


def test_words_are_copied_referred_to_and_shared(page, open_browser, ada, complaints):
    echoed(page, "Run *this*:\n\n```python\nprint(1)\n```\n\nand no more.")
    page.locator("#transcript").focus()
    page.keyboard.press("Control+Shift+Semicolon")
    expect(page.locator("#toasts")).to_contain_text("Last code block copied.")
    assert clipboard(page).strip() == "print(1)"
    act(page, "no more", "Copy as Markdown", role="agent")
    until(page, "() => navigator.clipboard.readText().then((words) => words.startsWith('Run *this*'))")

    # A reference is shown and recorded, also after a reload; the next message has none
    say(page, "something between")
    heard(page, "something between")
    settled(page)
    chip = page.locator("#composer-notes .chip")
    for words in ("and no more", "something between"):
        act(page, words, "Reply to this", role="agent")
    page.get_by_role("button", name="Do not reply to something between").click()
    expect(chip).to_have_count(1)
    page.locator("#words").fill("and once more")
    page.reload()
    expect(chip).to_contain_text("Run")
    say(page, "and once more")
    heard(page, "and once more")
    settled(page)
    expect(chip).to_have_count(0)
    told = ada.api("GET", f"/sessions/{session_of(page)}?include=tasks")["tasks"]
    first = min(told, key=lambda task: task["createdAt"])
    said = messages(page).filter(has_text="and once more").first.locator("a.chip")
    for _ in range(2):
        expect(said).to_have_attribute("href", f"/tasks/{first['id']}")
        page.reload()

    # The whole session, by a link
    of_session(page, "Share…")
    dialog = page.get_by_role("dialog", name="Share this session")
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
