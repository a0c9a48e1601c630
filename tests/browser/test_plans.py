"""Plans in a browser: one is started from its page and seen to its end; one is written with its picture beside it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.conftest import PHONE, WIDE
from tests.browser.doing import until
from tests.browser.test_reachable import MOVING, STICKS_OUT, axe

RUN = re.compile(r"/plans/runs/[0-9a-f-]{36}$")


def start_the_trip(page: Page, **more: str) -> None:
    page.goto("/plans")
    page.locator("main a[href='/plans/trip']").first.click()
    for label, value in {"Where to?": "Lisbon", "From where?": "Oslo", "When?": "2027-05-03", **more}.items():
        page.get_by_label(label).fill(value)
    page.get_by_role("button", name="Start").click()


def test_a_trip_is_started_and_seen_to_its_end(page: Page) -> None:
    start_the_trip(page)
    wrong = page.get_by_label("How many nights?")
    expect(wrong).to_be_focused()  # it is missing
    wrong.fill("3")
    wrong.press("Enter")
    page.wait_for_url(RUN)
    expect(page.locator("#standing[data-state=completed]")).to_be_visible()
    expect(page.locator(".task-state")).to_contain_text("4 of 4 steps done")
    assert page.locator(".plan-box a").count() == 4
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    page.locator("summary", has_text="itinerary.md").first.click()
    expect(page.locator(".look .preview-file").first).to_be_visible()
    page.locator("#plan-step-hotel").click()
    page.wait_for_url("**/tasks/*")
    page.get_by_role("link", name="a run of plan").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Run of Travel plan")
    page.get_by_label("From the step").select_option("hotel")
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_role("link", name="an earlier run", exact=True)).to_be_visible()
    expect(page.locator("#standing[data-state=completed]")).to_be_visible()


def test_who_starts_a_plan_before_its_script_is_there_is_told_what_is_missing(page: Page) -> None:
    page.goto("/plans")
    held: list[Route] = []
    page.route("**/js/plan.*.js", lambda route: held.append(route))
    page.locator("main a[href='/plans/trip']").first.click()
    page.get_by_role("button", name="Start").click()
    page.get_by_label("Where to?").fill("Lisbon")
    held[0].continue_()
    expect(page.get_by_label("From where?")).to_be_focused()
    expect(page.get_by_label("Where to?")).to_have_value("Lisbon")
    assert page.url.endswith("/plans/trip")


def test_a_run_is_answered_paused_and_stopped_by_keyboard(page: Page, complaints: list[str]) -> None:
    page.goto("/plans/research")
    page.get_by_label("Message").fill("lung fibrosis")
    page.get_by_role("button", name="Start").press("Enter")
    page.wait_for_url(RUN)
    question = page.locator(".inbox-item form.question")
    expect(question).to_be_visible()
    asked = page.locator(".inbox-item .prose").inner_text()
    question.locator("input[type=radio], textarea").first.focus()
    if question.locator("input[type=radio]").count():
        page.keyboard.press("Space")
    else:
        page.keyboard.type("small molecules")
    question.get_by_role("button", name="Send answer").press("Enter")
    expect(page.locator(".inbox-item .prose", has_text=asked)).to_have_count(0)
    page.route("**/control", lambda route: route.abort())
    page.locator("#pause-it").press("Enter")
    expect(page.locator("#controls [role=alert]")).to_contain_text(
        "The run goes on. Press Pause again when the line is"
    )
    page.unroute_all()
    complaints.clear()
    page.locator("#pause-it").press("Enter")
    expect(page.locator("#resume-it")).to_be_visible()
    expect(page.locator(".task-state .word")).to_have_text("Paused")
    page.locator("#resume-it").press("Enter")
    expect(page.locator("#pause-it")).to_be_visible()
    page.locator("#stop-it").press("Enter")
    expect(page.locator("#standing[data-state=canceled]")).to_be_visible()
    expect(page.locator("#run-news")).to_have_text("Stopped")


WELLS = """
name: Two wells
description: Two readings, by a person each.
steps:
  left: {title: Left well, person: {ask: "What is in the left well?"}}
  right: {title: Right well, person: {ask: "What is in the right well?"}}
"""


def save_wells(page: Page, slug: str) -> None:
    page.goto("/plans/new")
    page.get_by_label("Definition (YAML)").fill(WELLS)
    page.get_by_label("Short name").fill(slug)
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(f"**/plans/{slug}")


def test_what_steps_ask_is_answered_side_by_side_in_any_order(page: Page) -> None:
    save_wells(page, "two-wells")
    inbox = page.context.new_page()
    inbox.goto("/inbox")
    wells = inbox.locator(".inbox-item", has_text="a step of Two wells")
    expect(wells).to_have_count(0)
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(RUN)
    expect(page.locator(".inbox-item")).to_have_count(2)
    expect(wells).to_have_count(2)

    # What is being written in one form stays while the other question is answered elsewhere
    left = page.locator(".inbox-item", has_text="Left well").get_by_label("Your answer")
    left.fill("half of an answer")
    left.focus()
    right = wells.filter(has_text="Right well")
    right.get_by_label("Your answer").fill("water")
    right.get_by_role("button", name="Send answer").click()
    expect(wells).to_have_count(1)
    expect(page.locator(".inbox-item")).to_have_count(1)
    expect(left).to_have_value("half of an answer")
    expect(left).to_be_focused()
    page.reload()
    expect(left).to_have_value("half of an answer")
    assert [*axe(page), *page.evaluate(STICKS_OUT)] == []
    page.get_by_role("button", name="Send answer").click()
    expect(page.locator("#standing[data-state=completed]")).to_be_visible()
    expect(page.locator(".inbox-item")).to_have_count(0)
    expect(wells).to_have_count(0)


def test_who_reads_a_run_by_keyboard_stays_where_they_are(page: Page) -> None:
    save_wells(page, "wells-to-read")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(RUN)
    expect(page.locator(".inbox-item")).to_have_count(2)
    other = page.context.new_page()
    other.goto(page.url)
    page.locator("#plan-table summary").press("Enter")
    for well, place in (
        ("Left well", page.locator("#plan-table").get_by_role("link", name="Right well")),
        ("Right well", page.locator("#gantt-table summary")),
    ):
        place.focus()
        asked = other.locator(".inbox-item", has_text=well)
        asked.get_by_label("Your answer").fill("water")
        page.locator("#standing").evaluate("element => { element.isOld = true; }")
        asked.get_by_role("button", name="Send answer").click()
        until(page, "() => !document.getElementById('standing').isOld")
        expect(place).to_be_focused()


def test_a_plan_is_written_with_its_picture_beside_it(page: Page) -> None:
    page.goto("/plans/new")
    text = page.get_by_label("Definition (YAML)")
    written = text.input_value()
    text.fill(written.replace("AGENT", "nobody"))
    expect(page.locator("#problems")).to_contain_text("steps.draft.agent")
    text.fill(written.replace("AGENT", "echo").replace("First draft", "The very first"))
    expect(page.locator("#problems")).to_contain_text("It can be saved: 3 steps.")
    expect(page.locator("#plan-step-draft")).to_contain_text("The very first")
    page.get_by_label("Short name").fill("my-story")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/plans/my-story")
    expect(page.get_by_role("heading", level=1)).to_have_text("Short story")


@pytest.mark.parametrize(
    ("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide and light", "phone and dark"]
)
def test_axe_finds_nothing_on_pages_of_plans(open_browser, size, scheme) -> None:
    context: BrowserContext = open_browser(size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    start_the_trip(page, **{"How many nights?": "2"})
    page.wait_for_url(RUN)
    expect(page.locator("#standing[data-state=completed]")).to_be_visible()
    found = {}
    for address in (page.url, "/plans", "/plans/research", "/plans/trip", "/plans/new"):
        page.goto(address)
        found[address] = [*axe(page), *page.evaluate(STICKS_OUT), *page.evaluate(MOVING)]
    assert {name: problems for name, problems in found.items() if problems} == {}
