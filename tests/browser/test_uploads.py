"""Large files: they go while one still writes, one sees how far they are, and what was cut off goes on where it was."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.browser.conftest import SESSION
from tests.browser.doing import until

MEGABYTES = 20
PIECES = "**/api/v1/uploads/*"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large.txt"
    path.write_bytes(b"0123456789abcde\n" * (MEGABYTES * 65536))
    return path


def test_a_large_file_is_seen_to_go_and_goes_on_after_a_lost_line(page: Page, large: Path, complaints: Any) -> None:
    sent: list[Request] = []
    held: list[Route] = []

    def cut_off_the_third_piece(route: Route) -> None:
        if route.request.method != "PATCH":
            return route.continue_()
        sent.append(route.request)
        if len(sent) == 3:
            return held.append(route)
        return route.continue_()

    page.route(PIECES, cut_off_the_third_piece)
    page.goto("/agents/echo")
    with page.expect_request(lambda request: request.method == "PATCH" and len(sent) == 2):
        page.locator("#files").set_input_files(large)
    progress = page.get_by_role("progressbar", name="Uploading large.txt")
    expect(progress).to_be_visible()
    until(page, "() => document.querySelector('.chosen progress').value > 0")
    page.locator("#words").fill("keep this")
    page.keyboard.press("Enter")  # it waits for its file
    expect(page.locator("#composer")).to_contain_class("is-due")
    page.keyboard.press("Escape")  # and is not sent, after all
    expect(page.locator("#composer")).not_to_contain_class("is-due")
    held.pop().abort()
    expect(page.locator(".chosen")).to_contain_text("Waiting for the line")
    expect(progress).to_be_hidden(timeout=60_000)  # all of it is there
    offsets = [int(request.headers["upload-offset"]) for request in sent]
    assert offsets[2] == offsets[3] > 0  # it went on where it was
    page.get_by_role("button", name="Send").click()
    page.wait_for_url(SESSION)
    chip = page.locator(".from-user .chip")
    expect(chip).to_contain_text("large.txt")
    with page.expect_download() as downloaded:
        chip.click()
    assert Path(downloaded.value.path()).stat().st_size == large.stat().st_size
    complaints.clear()  # of the piece that was cut off


def test_a_large_file_can_be_left_behind_while_it_goes(page: Page, large: Path) -> None:
    page.route(PIECES, lambda route: None if route.request.method == "PATCH" else route.continue_())
    page.goto("/agents/echo")
    with page.expect_request(lambda request: request.method == "PATCH"):  # the server knows of it by then
        page.locator("#files").set_input_files(large)
    expect(page.get_by_role("progressbar")).to_be_visible()
    with page.expect_request(lambda request: request.method == "DELETE") as given_up:
        page.get_by_role("button", name="Remove large.txt").click()
    assert given_up.value.response().status == 204
    expect(page.locator(".chosen li")).to_have_count(0)
    expect(page.locator("#words")).to_be_focused()


def test_too_large_a_file_is_refused_before_it_is_sent(page: Page, tmp_path: Path) -> None:
    huge = tmp_path / "huge.bin"
    with huge.open("wb") as file:
        file.truncate(201 * 1024 * 1024)
    page.goto("/agents/echo")
    page.locator("#words").fill("my words")
    page.locator("#files").set_input_files(huge)
    expect(page.get_by_role("alert")).to_have_text("“huge.bin” has 210.8 MB. A file may have 209.7 MB.")
    expect(page.locator(".chosen li")).to_have_count(0)
    expect(page.locator("#words")).to_have_value("my words")
