"""The files beside a conversation: listed by name and version, looked at as what they are, taken along."""

from __future__ import annotations

import zipfile
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

from tests.browser.conftest import MEDIUM, PHONE, SESSION, WIDE
from tests.browser.doing import artifact, begin, heard, say
from tests.browser.filing import LINES, PAGE
from tests.stack import Stack

OpenBrowser = Callable[..., BrowserContext]

# How far things moved that nobody moved.
NOTE_SHIFTS = """
  window.shifts = [];
  new PerformanceObserver((list) => shifts.push(...list.getEntries().map(({ value, sources }) =>
    [value, ...sources.map(({ node }) => node?.className ?? "")]))).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="module", autouse=True)
def filing(parley: Stack) -> None:
    """The agent, which signs what it files."""
    register = "call_command('register_agent', 'filing', handler='tests.browser.filing:Filing')"
    sign = "Agent.objects.filter(slug='filing').update(sign_artifacts=True)"
    lines = ["from django.core.management import call_command", "from apps.agents.models import Agent", register, sign]
    parley.manage("shell", "-v0", "-c", "\n".join(lines))


@pytest.fixture
def filed(page: Page) -> Page:
    """A session with a file of every kind, and two versions of some."""
    begin(page, "filing", "file all")
    heard(page, "Filed.")
    say(page, "file again")
    heard(page, "Filed again.")
    expect(artifact(page, "rows.csv").first).to_contain_text("v2")
    return page


def preview(page: Page) -> Locator:
    return page.locator("#preview")


def look(page: Page, name: str) -> None:
    artifact(page, name).first.get_by_role("button").click()
    expect(preview(page).get_by_role("heading", name=name)).to_be_focused()


def test_files_are_looked_at_and_left_by_keyboard(filed: Page) -> None:
    page = filed
    expect(page.locator("#panel-count")).to_have_text("10")
    newest = artifact(page, "rows.csv").first
    expect(newest).to_contain_text("v2")
    expect(artifact(page, "rows.csv").last).not_to_be_visible()
    older = page.locator(".older", has_text="rows.csv").locator("summary")
    older.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the first version
    expect(preview(page).get_by_role("heading")).to_be_focused()
    expect(preview(page)).to_contain_text("v1")
    page.keyboard.press("Escape")
    expect(preview(page)).not_to_be_visible()
    expect(artifact(page, "rows.csv").last.get_by_role("button")).to_be_focused()

    chip = page.locator(".chip", has_text="sites.json")
    chip.focus()
    page.keyboard.press("Enter")
    expect(preview(page).get_by_role("heading", name="sites.json")).to_be_focused()
    branch = preview(page).locator("summary", has_text="sites")
    north = preview(page).get_by_text("North")
    expect(north).not_to_be_visible()
    branch.locator("xpath=../ul//summary").first.focus()
    page.keyboard.press("Enter")
    expect(north).to_be_visible()
    page.keyboard.press("Escape")
    expect(chip).to_be_focused()


def test_a_table_is_sorted_by_its_heads(filed: Page) -> None:
    page = filed
    look(page, "rows.csv")
    cells = preview(page).locator("tbody tr td:nth-child(2)")
    expect(preview(page)).to_contain_text("200 of 300 rows")
    expect(cells).to_have_count(200)
    depth = preview(page).get_by_role("button", name="depth")
    head = preview(page).get_by_role("columnheader", name="depth")
    for order, first in (("ascending", "0"), ("descending", "299"), ("none", "0")):
        depth.focus()
        page.keyboard.press("Enter")
        expect(head).to_have_attribute("aria-sort", order)
        expect(cells.first).to_have_text(first)
        expect(depth).to_be_focused()
    preview(page).get_by_role("button", name="Source").click()
    expect(preview(page).locator("pre")).to_contain_text("site,depth,note")
    expect(preview(page).get_by_role("button", name="Source")).to_be_focused()


def test_nothing_of_a_file_leaves_its_frame(filed: Page, complaints: list[str]) -> None:
    page = filed
    title = page.title()
    look(page, "page.html")
    expect(page.frame_locator(".preview-frame").locator("h1")).to_have_text("A page")
    assert page.title() == title
    assert any("Blocked script execution" in complaint for complaint in complaints)
    complaints.clear()
    preview(page).get_by_role("button", name="Source").click()
    expect(preview(page).locator("pre")).to_have_text(PAGE)
    look(page, "drawing.svg")
    expect(preview(page).locator("img")).to_have_js_property("complete", True)
    assert preview(page).locator("img").evaluate("(img) => img.naturalWidth") > 0
    assert preview(page).locator("svg:not(.icon)").count() == 0


def test_a_pdf_is_shown_by_the_browsers_own_viewer_in_a_frame(filed: Page, whole_chromium: Browser) -> None:
    page = whole_chromium.new_context(storage_state=filed.context.storage_state()).new_page()
    page.goto(filed.url)
    look(page, "sheet.pdf")
    expect(preview(page).locator("iframe")).to_be_visible()
    while not any(frame.url.startswith("chrome-extension://") for frame in page.frames):
        page.wait_for_event("framenavigated")


def test_a_signature_is_verified_and_what_was_tampered_with_is_broken(filed: Page, parley: Stack) -> None:
    page = filed
    expect(artifact(page, "notes.md").first).to_contain_text("Signed")
    look(page, "notes.md")
    line = preview(page).locator(".signature-line")
    expect(line).to_have_text("Signature holds · Filing")
    line.press("Enter")
    expect(preview(page).locator(".signature-details")).to_contain_text("did:web:")
    session = SESSION.search(page.url)[0].rpartition("/")[2]
    parley.manage(
        "shell", "-v0", "-c",
        "from apps.conversations.models import Artifact\n"
        f"found = Artifact.objects.filter(task__context='{session}', name='notes.md').last()\n"
        "found.parts[0]['text'] += ' and more'\nfound.save()",
    )  # fmt: skip
    preview(page).get_by_role("button", name="Verify again").click()
    expect(line).to_have_text("Signature broken")
    expect(preview(page)).to_contain_text("Do not rely on it.")
    expect(preview(page).get_by_role("button", name="Verify again")).to_be_focused()
    expect(page.locator("#announcer")).to_contain_text("Signature broken")


def test_files_are_taken_along_one_or_all(filed: Page) -> None:
    page = filed
    with page.expect_download() as one:
        artifact(page, "sites.json").get_by_role("link", name="Download sites.json").click()
    assert one.value.suggested_filename == "sites.json"
    with page.expect_download() as whole:
        page.locator("#panel-zip").click()
    archive = zipfile.ZipFile(whole.value.path())
    assert archive.testzip() is None
    assert sorted(archive.namelist()) == [
        "archive.zip", "dot.png", "drawing.svg", "notes.md", "page.html", "rows.csv", "sheet.pdf", "sites.json",
    ]  # fmt: skip
    assert "file again" in archive.read("notes.md").decode()


def test_a_picture_is_small_in_the_answer_and_opens_in_the_panel(filed: Page) -> None:
    page = filed
    chip = page.locator(".chip", has_text="drawing.svg")
    chip.scroll_into_view_if_needed()
    picture = chip.locator("img")
    expect(picture).to_have_js_property("complete", True)
    assert picture.evaluate("(img) => [img.naturalWidth > 0, img.width, img.height]") == [True, 160, 120]
    chip.click()
    expect(preview(page).locator("img")).to_be_visible()


@pytest.mark.parametrize("size", [PHONE, MEDIUM], ids=["phone", "medium"])
def test_over_the_conversation_focus_goes_in_and_comes_back(
    open_browser: OpenBrowser, watched: Callable[[Page], list[str]], size: tuple[int, int]
) -> None:
    page = open_browser(size).new_page()
    watched(page)
    begin(page, "filing", "file all")
    heard(page, "Filed.")
    page.get_by_role("button", name="Files 8").press("Enter")
    expect(page.locator("#panel")).to_be_focused()
    assert page.locator("#main").evaluate("main => main.inert")
    if size == MEDIUM:
        assert page.evaluate("panel.offsetLeft - main.offsetLeft") > 160, "what one was reading stays in sight"
    look(page, "rows.csv")
    expect(preview(page).locator("table")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    preview(page).get_by_role("button", name="Close the preview").click()
    expect(artifact(page, "rows.csv").get_by_role("button")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).not_to_be_visible()
    expect(page.locator("#to-panel")).to_be_focused()
    chip = page.locator(".chip", has_text="notes.md")
    chip.press("Enter")
    expect(preview(page).get_by_role("heading", name="notes.md")).to_be_focused()
    page.keyboard.press("Escape")
    expect(chip).to_be_focused()


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (WIDE, "dark"), (PHONE, "light"), (PHONE, "dark")])
def test_axe_finds_nothing(open_browser: OpenBrowser, size: tuple[int, int], scheme: str) -> None:
    page = open_browser(size, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce").new_page()
    begin(page, "filing", "file all")
    heard(page, "Filed.")
    if size == PHONE:
        page.locator("#to-panel").click()
    for name in ("rows.csv", "sites.json", "notes.md", "drawing.svg"):
        look(page, name)
        expect(preview(page).locator(".signature-line")).to_contain_text("Signature holds")
        preview(page).locator(".signature-line").click()
        expect(preview(page).locator(".signature-details")).to_be_visible()
        found = Axe().run(page, context="#panel").response["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [], name


def test_what_is_being_made_is_seen_growing_and_nothing_jumps(page: Page) -> None:
    page.add_init_script(NOTE_SHIFTS)
    begin(page, "filing", "slowly")
    expect(artifact(page, "log.txt")).to_contain_text("being made")
    look(page, "log.txt")
    growing = preview(page).locator(".preview-so-far")
    expect(growing).to_contain_text("line 5")
    page.evaluate("shifts.length = 0")
    expect(growing).to_contain_text("line 12")
    assert [shift for shift in page.evaluate("shifts") if any("preview" in str(node) for node in shift[1:])] == []
    growing.focus()
    heard(page, "Slowly done.")
    expect(preview(page).locator("pre.wrapped")).to_contain_text(f"line {LINES - 1}")
    expect(artifact(page, "log.txt")).not_to_contain_text("being made")
    expect(preview(page).get_by_role("heading", name="log.txt")).to_be_focused()


def test_a_preview_that_does_not_come_can_be_tried_again(filed: Page, complaints: list[str]) -> None:
    page = filed
    page.route("**/look", lambda route: route.abort())
    artifact(page, "notes.md").first.get_by_role("button").click()
    expect(preview(page)).to_contain_text("The preview could not be loaded.")
    preview(page).get_by_role("button", name="Try again").press("Enter")
    expect(preview(page)).to_contain_text("The preview could not be loaded.")
    expect(preview(page).get_by_role("heading", name="notes.md")).to_be_focused()
    page.unroute("**/look")
    preview(page).get_by_role("button", name="Try again").press("Enter")
    expect(preview(page).locator("h1")).to_have_text("Notes")
    expect(preview(page).get_by_role("heading", name="notes.md")).to_be_focused()
    expect(preview(page).get_by_text("The preview could not be loaded.")).to_have_count(0)
    complaints.clear()


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")])
def test_what_led_to_a_file_is_a_click_away_and_for_everybody(
    open_browser: OpenBrowser, size: tuple[int, int], scheme: str
) -> None:
    may_copy = ["clipboard-read", "clipboard-write"]
    page = open_browser(size, color_scheme=scheme, bypass_csp=True, permissions=may_copy).new_page()
    begin(page, "filing", "file all")
    heard(page, "Filed.")
    if size == PHONE:
        page.locator("#to-panel").click()
    look(page, "rows.csv")
    preview(page).get_by_role("link", name="What led to it").click()
    expect(page.get_by_role("heading", name="What led to rows.csv")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the picture scrolls in its box"
    assert [found["id"] for found in Axe().run(page).response["violations"]] == []
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    assert '"wasGeneratedBy"' in page.evaluate("navigator.clipboard.readText()")


def test_a_file_that_comes_leaves_folds_focus_and_the_look_as_they_are(filed: Page) -> None:
    page = filed
    look(page, "sites.json")
    folded = page.locator(".older", has_text="rows.csv")
    folded.locator("summary").click()
    download = artifact(page, "rows.csv").last.get_by_role("link")
    download.focus()
    other = page.context.new_page()
    other.goto(page.url)
    say(other, "file again")
    expect(artifact(page, "rows.csv").first).to_contain_text("v3")
    expect(folded.locator("summary")).to_have_text("2 older versions")
    expect(download).to_be_visible()
    expect(download).to_be_focused()
    expect(artifact(page, "sites.json").get_by_role("button")).to_have_attribute("aria-pressed", "true")
    expect(preview(page).get_by_role("heading", name="sites.json")).to_be_visible()
    for count in ("#panel-count", "#file-count"):
        expect(page.locator(count)).to_have_text("12")

    folded.locator("summary").focus()
    versions = artifact(page, "sites.json").locator(".artifact-open")
    say(other, "file all")  # also a second version of what is looked at
    expect(artifact(page, "rows.csv").first).to_contain_text("v4")
    expect(folded.locator("summary")).to_be_focused()
    expect(folded).to_have_attribute("open", "")
    expect(preview(page)).to_contain_text("v1")
    expect(versions.last).to_have_attribute("aria-pressed", "true")
    expect(versions.first).to_have_attribute("aria-pressed", "false")

    alone = artifact(page, "drawing.svg").first.get_by_role("button")
    key = alone.get_attribute("data-key")
    alone.focus()
    say(other, "file all")
    expect(artifact(page, "drawing.svg").first).to_contain_text("v3")
    focused = page.locator(f'#artifacts [data-key="{key}"]')
    expect(focused).to_be_focused()
    expect(focused).to_be_visible()  # in the fold below the newest


def test_what_is_being_made_hands_its_focus_to_what_is_delivered(page: Page) -> None:
    begin(page, "filing", "slowly")
    expect(artifact(page, "log.txt")).to_contain_text("being made")
    artifact(page, "log.txt").get_by_role("button").focus()
    heard(page, "Slowly done.")
    expect(artifact(page, "log.txt").get_by_role("link", name="Download log.txt")).to_be_visible()
    expect(artifact(page, "log.txt")).to_have_count(1)
    expect(page.locator("#artifacts .artifact-open")).to_be_focused()
    expect(page.locator("#panel-count")).to_have_text("1")


def test_what_is_pressed_while_it_is_made_opens_though_it_is_delivered_meanwhile(page: Page) -> None:
    held: list[Route] = []
    page.route("**/session/panel.*.js", lambda route: held.append(route))
    begin(page, "filing", "slowly")
    expect(artifact(page, "log.txt")).to_contain_text("being made")
    artifact(page, "log.txt").get_by_role("button").click()
    heard(page, "Slowly done.")
    expect(artifact(page, "log.txt").get_by_role("link", name="Download log.txt")).to_be_visible()
    expect(page.locator("#making li")).to_have_count(0)
    for route in held:
        route.continue_()
    expect(preview(page).get_by_role("heading", name="log.txt")).to_be_visible()
    expect(preview(page).locator(".preview-text")).to_be_visible()


def test_what_is_pressed_beside_a_conversation_is_not_drawn_anew_meanwhile(page: Page) -> None:
    begin(page, "countdown", "Count down from 900")
    expect(artifact(page, "countdown")).to_contain_text("being made")
    page.wait_for_timeout(2000)  # the turn's beginning was drawn
    page.locator("#panel-timeline a").hover()
    page.mouse.down()
    with page.expect_response("**/timeline"):
        page.evaluate("htmx.trigger(document.getElementById('panel-timeline'), 'turned')")
    page.wait_for_timeout(200)
    page.mouse.up()
    page.wait_for_url("**/tasks/*")
    page.get_by_role("button", name="Stop").click()


def test_a_list_that_does_not_come_is_read_again_when_its_file_is_wanted(page: Page, complaints: list[str]) -> None:
    begin(page, "filing", "slowly")
    heard(page, "Slowly done.")
    expect(page.locator("#panel-count")).to_have_text("1")
    page.route("**/files", lambda route: route.abort())
    say(page, "file again")
    heard(page, "Filed again.")
    chip = page.locator(".chip", has_text="rows.csv")
    chip.click()
    expect(page.locator(".composer-error")).to_contain_text("This file could not be found.")
    expect(page.locator("#panel-count")).to_have_text("1")
    page.unroute("**/files")
    chip.click()
    expect(preview(page).get_by_role("heading", name="rows.csv")).to_be_focused()
    expect(page.locator("#panel-count")).to_have_text("3")
    complaints.clear()
