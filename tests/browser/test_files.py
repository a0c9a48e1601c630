"""Files are sent with messages, delivered as artifacts, previewed, verified and downloaded."""

import re
import zipfile
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.agents import PAGE
from tests.browser.doing import SESSION, Held, artifact, begin, heard, say, session_of, until, wait

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


def download(page, link):
    with page.expect_download() as downloaded:
        link.click()
    return downloaded.value.suggested_filename, Path(downloaded.value.path()).read_bytes()


def test_files_are_chosen_dropped_pasted_and_refused(page, csv, tmp_path):
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


def test_large_file_resumes_after_a_cut(page, tmp_path, complaints):
    large = tmp_path / "large.txt"
    large.write_bytes(b"0123456789abcde\n" * (20 * 65536))
    sent = []
    held = []

    def cut_off_the_third_piece(route):
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

    # A message waits for its file
    pieces = Held(page, PIECES, "PATCH")
    page.locator("#files").set_input_files(large)
    say(page, "with a file")
    expect(page.locator("#composer")).to_contain_class("is-due")
    pieces.let_go()
    heard(page, "with a file")
    expect(page.locator(".from-user .chip")).to_have_count(2)


def preview(page):
    return page.locator("#preview")


def look(page, name):
    artifact(page, name).first.get_by_role("button").click()
    expect(preview(page).get_by_role("heading", name=name)).to_be_focused()


def test_files_are_looked_at_verified_and_downloaded(page, parley, complaints):
    begin(page, "filing", "file all")
    heard(page, "Filed.")
    say(page, "file again")
    heard(page, "Filed again.")
    expect(artifact(page, "rows.csv").first).to_contain_text("v2")
    expect(page.locator("#panel-count")).to_have_text("9")
    look(page, "rows.csv")
    cells = preview(page).locator("tbody tr td:nth-child(2)")
    expect(preview(page)).to_contain_text("200 of 300 rows")
    preview(page).get_by_role("button", name="depth").press("Enter")
    expect(preview(page).get_by_role("columnheader", name="depth")).to_have_attribute("aria-sort", "ascending")
    expect(cells.first).to_have_text("0")

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

    complaints.clear()
    look(page, "notes.md")

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

    with page.expect_download() as whole:
        page.locator("#panel-zip").click()
    assert len(zipfile.ZipFile(whole.value.path()).namelist()) == 7


def test_file_is_seen_while_made(page, go):
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


def test_pdf_is_shown_and_does_nothing(open_browser, whole_chromium, ada, parley):
    page = open_browser(of=whole_chromium).new_page()
    asked = []
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
