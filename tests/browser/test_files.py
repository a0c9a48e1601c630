"""Files are sent with messages, delivered as artifacts, previewed, verified and downloaded."""

import re
import zipfile
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, Request, Route, expect

from tests.browser.agents import PAGE
from tests.browser.conftest import OpenBrowser
from tests.browser.doing import (
    SESSION,
    Held,
    artifact,
    begin,
    heard,
    say,
    session_of,
    until,
    wait,
)
from tests.browser.people import Person
from tests.stack import Stack

PIECES = "**/api/v1/uploads/*"
GONE = re.compile("draft were not kept")
DROP = """async () => {
  const carried = new DataTransfer();
  carried.items.add(new File(["dropped"], "dropped.txt", {type: "text/plain"}));
  const isTaken = (type) => {
    const event = new DragEvent(type, {dataTransfer: carried, bubbles: true, cancelable: true});
    return !document.querySelector("main").dispatchEvent(event);
  };
  isTaken("dragenter");
  while (!isTaken("dragover")) await new Promise(requestAnimationFrame);
  isTaken("drop");
}"""
PASTE = """([types, name]) => {
  const carried = new DataTransfer();
  for (const type of types) carried.setData(type, "a");
  carried.items.add(new File(["drawn"], name, { type: "image/png" }));
  const event = new ClipboardEvent("paste", { clipboardData: carried, bubbles: true });
  document.getElementById("words").dispatchEvent(event);
}"""
EMPTY_AND_FULL = [("empty", b""), ("full", b"x")]


def download(page: Page, link: Locator) -> tuple[str, bytes]:
    with page.expect_download() as downloaded:
        link.click()
    return downloaded.value.suggested_filename, Path(downloaded.value.path()).read_bytes()


def test_files_are_chosen_dropped_pasted_and_refused(page: Page, csv: Path, tmp_path: Path) -> None:
    script = Held(page, "**/pages/agent.*.js")
    page.goto("/agents/echo", wait_until="commit")
    page.locator("#files").set_input_files(csv)
    expect(page.get_by_role("button", name="Send")).to_be_disabled()  # the browser alone would send the form
    script.let_go()
    chosen = page.locator(".chosen li")
    expect(chosen).to_have_text([re.compile("depths.csv")])
    page.evaluate(DROP)
    expect(chosen).to_have_count(2)
    page.evaluate(PASTE, [["text/plain", "text/html"], "cells.png"])  # the text is meant, not the picture
    page.evaluate(PASTE, [[], "picture.png"])
    expect(chosen).to_have_count(3)
    page.get_by_role("button", name="Remove dropped.txt").click()
    page.get_by_role("button", name="Remove picture.png").click()
    huge = tmp_path / "huge.bin"
    with huge.open("wb") as file:
        file.truncate(201 * 1024 * 1024)
    page.locator("#files").set_input_files(huge)
    expect(page.get_by_role("alert")).to_have_text("“huge.bin” is 210.8 MB. The limit is 209.7 MB.")
    both = [{"name": f"{name}.txt", "mimeType": "text/plain", "buffer": text} for name, text in EMPTY_AND_FULL]
    page.locator("#files").set_input_files(both)
    expect(chosen).to_have_text([re.compile("depths.csv"), re.compile(r"empty\.txt\s*empty"), re.compile("full.txt")])
    page.locator("#words").press("Enter")
    page.wait_for_url(SESSION)
    expect(page.locator(".from-user .chip")).to_have_count(3)
    assert download(page, page.locator(".from-user .chip").first)[1] == csv.read_bytes()

    # A draft keeps its words, and says that its files are gone
    page.goto("/agents/hello")
    page.locator("#words").fill("look at this")
    page.locator("#files").set_input_files(csv)
    expect(chosen).to_have_count(1)
    page.reload()
    expect(page.get_by_role("alert")).to_have_text(GONE)
    expect(page.locator("#words")).to_have_value("look at this")

    # What the agent does not take is said at the file, and for whom the message is decides it
    page.locator("#files").set_input_files({"name": "cat.png", "mimeType": "image/png", "buffer": b"meow"})
    unfit = page.locator(".chosen .is-unfit")
    expect(unfit).to_contain_text("Hello takes text only.")
    page.locator("#words").press("Enter")
    expect(page.locator(".composer-error")).to_contain_text("Remove “cat.png”")
    page.locator("#words").fill("look at this @ech")
    page.get_by_role("option", name="Echo").wait_for()
    page.locator("#words").press("Tab")
    expect(page.locator("#words")).to_have_value("@echo look at this ")
    expect(unfit).to_have_count(0)


def test_large_file_resumes_after_a_cut(page: Page, tmp_path: Path, complaints: list[str]) -> None:
    large = tmp_path / "large.txt"
    large.write_bytes(b"0123456789abcde\n" * (20 * 65536))
    sent: list[Request] = []
    held: list[Route] = []

    def cut_off_the_third_piece(route: Route) -> None:
        if route.request.method != "PATCH":
            return route.continue_()
        sent.append(route.request)
        return held.append(route) if len(sent) == 3 else route.continue_()

    page.route(PIECES, cut_off_the_third_piece)
    page.goto("/agents/echo")
    with page.expect_request(lambda request: request.method == "PATCH" and len(sent) == 2):
        page.locator("#files").set_input_files(large)
    progress = page.get_by_role("progressbar", name="Uploading large.txt")
    until(page, "() => document.querySelector('.chosen progress').value > 0")
    wait(page, lambda: held)
    held.pop().abort()
    expect(page.locator(".chosen")).to_contain_text("Waiting for the connection")
    expect(progress).to_be_hidden()
    complaints.clear()
    offsets = [int(request.headers["upload-offset"]) for request in sent]
    assert offsets[2] == offsets[3] > 0
    page.locator("#words").fill("keep this")
    page.get_by_role("button", name="Send").click()
    page.wait_for_url(SESSION)
    assert download(page, page.locator(".from-user .chip"))[1] == large.read_bytes()
    page.unroute_all()

    # One that is removed is given up; a message waits for its file
    pieces = Held(page, PIECES, "PATCH")
    page.locator("#files").set_input_files(large)
    pieces.wait()
    with page.expect_request(lambda request: request.method == "DELETE") as given_up:
        page.get_by_role("button", name="Remove large.txt").click()
    answer = given_up.value.response()
    assert answer
    assert answer.status == 204
    pieces.routes.clear()
    page.locator("#files").set_input_files(large)
    say(page, "with a file")
    expect(page.locator("#composer")).to_contain_class("is-due")
    pieces.let_go()
    heard(page, "with a file")
    expect(page.locator(".from-user .chip")).to_have_count(2)


def preview(page: Page) -> Locator:
    return page.locator("#preview")


def look(page: Page, name: str) -> None:
    artifact(page, name).first.get_by_role("button").click()
    expect(preview(page).get_by_role("heading", name=name)).to_be_focused()


def test_files_are_looked_at_verified_and_downloaded(page: Page, parley: Stack, complaints: list[str]) -> None:
    begin(page, "filing", "file all")
    heard(page, "Filed.")
    say(page, "file again")
    heard(page, "Filed again.")
    expect(artifact(page, "rows.csv").first).to_contain_text("v2")
    expect(page.locator("#panel-count")).to_have_text("9")
    chip = page.locator("#items [data-artifact]", has_text="sites.json")
    chip.press("Enter")
    north = preview(page).get_by_text("North")
    expect(north).not_to_be_visible()
    preview(page).locator("summary", has_text="sites").locator("xpath=../ul//summary").first.press("Enter")
    expect(north).to_be_visible()
    page.keyboard.press("Escape")
    expect(chip).to_be_focused()

    look(page, "rows.csv")
    cells = preview(page).locator("tbody tr td:nth-child(2)")
    expect(preview(page)).to_contain_text("200 of 300 rows")
    depth = preview(page).get_by_role("button", name="depth")
    for order, first in (("ascending", "0"), ("descending", "299"), ("none", "0")):
        depth.press("Enter")
        expect(preview(page).get_by_role("columnheader", name="depth")).to_have_attribute("aria-sort", order)
        expect(cells.first).to_have_text(first)

    # A file cannot reach out of its frame
    title = page.title()
    look(page, "page.html")
    expect(page.frame_locator(".preview-frame").locator("h1")).to_have_text("A page")
    assert page.title() == title
    assert any("Blocked script execution" in complaint for complaint in complaints)
    preview(page).get_by_role("button", name="Source").click()
    expect(preview(page).locator("pre")).to_have_text(PAGE)
    look(page, "drawing.svg")
    until(page, "() => document.querySelector('#preview img')?.naturalWidth > 0")
    assert preview(page).locator("svg:not(.icon)").count() == 0

    page.route("**/look", lambda route: route.abort())
    artifact(page, "notes.md").first.get_by_role("button").click()
    expect(preview(page)).to_contain_text("The preview could not be loaded.")
    page.unroute_all()
    complaints.clear()
    preview(page).get_by_role("button", name="Try again").press("Enter")
    expect(preview(page).locator("h1")).to_have_text("Notes")

    # A signature is valid until the file changes
    line = preview(page).locator(".signature-line")
    expect(line).to_have_text("Signature valid · Filing")
    parley.manage(
        "shell", "-v0", "-c",
        "from apps.record.models import Artifact\n"
        f"found = Artifact.objects.filter(task__context='{session_of(page)}', name='notes.md').last()\n"
        "found.parts[0]['text'] += ' and more'\nfound.save()",
    )  # fmt: skip
    line.press("Enter")
    preview(page).get_by_role("button", name="Verify again").click()
    expect(line).to_have_text("Signature invalid")
    expect(page.locator("#announcer")).to_contain_text("Signature invalid")

    # A new file leaves folds, focus and preview unchanged
    look(page, "sites.json")
    page.locator(".older", has_text="rows.csv").locator("summary").click()
    link = artifact(page, "rows.csv").last.get_by_role("link")
    link.focus()
    other = page.context.new_page()
    other.goto(page.url)
    say(other, "file again")
    expect(artifact(page, "rows.csv").first).to_contain_text("v3")
    expect(page.locator(".older", has_text="rows.csv").locator("summary")).to_have_text("2 older versions")
    expect(link).to_be_focused()
    expect(artifact(page, "sites.json").get_by_role("button")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#panel-count")).to_have_text("11")
    with page.expect_download() as whole:
        page.locator("#panel-zip").click()
    assert len(zipfile.ZipFile(whole.value.path()).namelist()) == 7


def test_file_is_seen_while_made(page: Page, go: Path) -> None:
    script = Held(page, "**/session/panel.*.js")
    begin(page, "filing", f"slowly {go}")
    log = artifact(page, "log.txt")
    expect(log).to_contain_text("In progress")
    log.get_by_role("button").click()  # before its script has loaded
    script.let_go()
    growing = preview(page).locator(".preview-so-far")
    expect(growing).to_contain_text("line 5")
    seen = growing.inner_text()
    expect(growing).to_contain_text(f"line {seen.count('line') + 5}")
    growing.focus()
    go.touch()
    heard(page, "Slowly done.")
    expect(preview(page).locator("pre.wrapped")).to_contain_text("the last line")
    expect(log).not_to_contain_text("In progress")
    expect(preview(page).get_by_role("heading", name="log.txt")).to_be_focused()


def test_pdf_is_shown_and_does_nothing(
    open_browser: OpenBrowser, whole_chromium: Browser, ada: Person, parley: Stack
) -> None:
    page = open_browser(of=whole_chromium).new_page()
    asked: list[str] = []
    page.context.on("request", lambda request: asked.append(request.url))
    session, _ = ada.begin("hostile", "print")
    page.goto(f"/sessions/{session}")
    for _ in range(2):
        look(page, "sheet.pdf")
        wait(page, lambda: any(frame.url.startswith("chrome-extension://") for frame in page.frames))
        page.wait_for_timeout(1500)  # gives the preview time to misbehave
        page.locator("#preview iframe").click()
        session, _ = ada.begin("filing", "file all")
        page.goto(f"/sessions/{session}")
    own = (parley.url, "data:", "blob:", "chrome-extension:", "chrome:")
    assert [url for url in asked if not url.startswith(own)] == []
    assert page.context.pages == [page]
