"""What agents stream is shown while it comes, and stays."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.doing import begin, heard, stop

FRAMES = """
  window.frames = [];
  const look = () => {
    requestAnimationFrame(look);
    const text = (place) => document.querySelector(place)?.textContent ?? "";
    const answers = [...document.querySelectorAll(".from-agent .prose")];
    frames.push([
      answers.some((answer) => answer.textContent.includes("Lift-off")),
      !text("#head-state").includes("Working"),
      Boolean(text("#panel-timeline .drawn")) && !text("#panel-timeline .drawn").includes("so far"),
      Boolean(document.querySelector(".sidebar [aria-current=page] .sign-quiet")),
    ]);
  };
  requestAnimationFrame(look);
"""


def test_a_text_grows_in_the_conversation_and_stays_when_it_is_stopped(page: Page) -> None:
    begin(page, "countdown", "Count down from 900")
    made = page.locator("#items .made")
    expect(made).to_contain_text("900\n899\n")
    expect(made).to_contain_text("880\n")
    stop(page)
    expect(made).to_contain_text("Unfinished")
    expect(page.locator(".work")).to_contain_text("Stopped")
    seen = made.locator(".made-body").inner_text().split()
    assert seen[:21] == [str(number) for number in range(900, 879, -1)]
    page.reload()
    expect(made).to_contain_text("Unfinished")
    assert made.locator(".made-body").inner_text().split() == seen
    expect(page.locator("#artifacts .artifact")).to_have_count(0)


def test_the_head_the_timeline_and_the_sidebar_change_with_the_answer(page: Page) -> None:
    page.route("**/timeline", lambda route: None)  # it is never answered
    page.add_init_script(FRAMES)
    begin(page, "countdown", "Count down from 60")
    expect(page.locator(".sidebar [aria-current=page] .sign-working")).to_be_visible()
    heard(page, "Lift-off.")
    frames = page.evaluate("frames")
    after = [frame for frame in frames if frame[0]]
    assert all(all(frame) for frame in after), after[:3]
