"""Plans are started, followed, answered, paused, and edited beside their picture."""

import re

from playwright.sync_api import expect

from tests.browser.doing import Held

RUN = re.compile(r"/plans/runs/[0-9a-f-]{36}$")
COMPLETED = "#standing[data-state=completed]"
WELLS = """
name: Two wells
description: Two readings, by a person each.
steps:
  left: {title: Left well, person: {ask: "What is in the left well?"}}
  right: {title: Right well, person: {ask: "What is in the right well?"}}
"""


def test_plans_run_pause_and_are_edited(page, complaints):
    page.goto("/plans")
    script = Held(page, "**/pages/plan.*.js")
    page.locator("main a[href='/plans/trip']").first.click()
    page.get_by_role("button", name="Start").click()  # before its script has loaded
    page.get_by_label("Where to?").fill("Lisbon")
    script.let_go()
    expect(page.get_by_label("From where?")).to_be_focused()
    for label, value in {"From where?": "Oslo", "When do you arrive?": "2027-05-03", "How many nights?": "3"}.items():
        page.get_by_label(label).fill(value)
    page.get_by_label("How many nights?").press("Enter")
    page.wait_for_url(RUN)
    expect(page.locator(COMPLETED)).to_be_visible()
    expect(page.locator(".task-state")).to_contain_text("4 of 4 steps done")
    page.locator("#plan-step-hotel").click()
    page.wait_for_url("**/tasks/*")
    page.get_by_role("link", name="a run of the plan").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Run of Travel plan")

    # Answered, paused and stopped by keyboard
    page.goto("/plans/research")
    page.get_by_label("Message").fill("lung fibrosis")
    page.get_by_role("button", name="Start").press("Enter")
    page.wait_for_url(RUN)
    question = page.locator(".inbox-item form.question")
    for answer in ("small molecules", "MRC-5"):
        choice = question.locator(f"input[value='{answer}']")
        choice.check()
        question.get_by_role("button", name="Send answer").press("Enter")
        expect(choice).to_have_count(0)
    page.locator("#pause-it").press("Enter")
    expect(page.locator(".task-state .word")).to_have_text("Paused")
    page.locator("#resume-it").press("Enter")
    expect(page.locator("#pause-it")).to_be_visible()
    page.locator("#cancel-it").press("Enter")
    expect(page.locator("#standing[data-state=canceled]")).to_be_visible()

    # A plan is made on its picture, tried, and written as text
    page.goto("/plans")
    page.get_by_role("link", name="New plan").click()
    review = page.locator(".plan-starts li", has_text="Draft and review")
    for role in ("Writer", "Reviewer"):
        review.get_by_label(role).select_option("echo")
    review.get_by_role("button").click()
    page.locator("#plan-step-draft").press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#panel-title")).to_have_text("New step")
    page.get_by_label("Title").fill("Translation")
    page.get_by_label("Title").press("Tab")
    expect(page.locator("#plan-step-step")).to_contain_text("Translation")
    text = page.get_by_label("Definition (YAML)")
    page.locator("#plan-step-final").press("Enter")
    page.get_by_label("Translation", exact=True).check()
    expect(text).to_have_value(re.compile(r"depends_on:\n\s+- step\n"))
    page.locator("#panel-title").press("Control+z")
    expect(text).not_to_have_value(re.compile("depends_on"))
    page.locator("#step-trial summary").click()
    page.get_by_label("Result of Review").fill("shorter, please")
    page.get_by_role("button", name="Try", exact=True).click()
    expect(page.locator("#trial-answer")).to_contain_text("shorter, please")
    written = text.input_value()
    text.fill(written.replace("agent: echo", "agent: no-such-agent", 1))
    expect(page.locator("#problems")).to_contain_text("steps.draft.agent")
    text.fill(written.replace("title: Draft", "title: The very first"))
    expect(page.locator("#problems")).to_contain_text("No problems. 4 steps.")
    expect(page.locator("#plan-step-draft")).to_contain_text("The very first")
    text.fill(WELLS)
    page.get_by_label("Short name").fill("two-wells")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/plans/two-wells")
    expect(page.get_by_role("heading", level=1)).to_have_text("Two wells")

    # Questions are answered in any order, here and in the inbox; input in progress stays
    inbox = page.context.new_page()
    inbox.goto("/inbox")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(RUN)
    here, there = page.locator(".inbox-item"), inbox.locator(".inbox-item", has_text="step of Two wells")
    expect(here).to_have_count(2)
    left = here.filter(has_text="Left well").get_by_label("Your answer")
    left.fill("half of an answer")
    right = there.filter(has_text="Right well")
    right.get_by_label("Your answer").fill("water")
    right.get_by_role("button", name="Send answer").click()
    for forms in (here, there):
        expect(forms).to_have_count(1)
    expect(left).to_have_value("half of an answer")
    expect(left).to_be_focused()
    there.get_by_label("Your answer").fill("sand")
    there.get_by_role("button", name="Send answer").click()
    expect(page.locator(COMPLETED)).to_be_visible()
    # A notification may look for the session of the trial, which is deleted by then
    complaints[:] = [one for one in complaints if "404" not in str(one)]
