"""A message to two agents, from the composer to the branch that one goes on with."""

import re

from playwright.sync_api import expect

from tests.browser.doing import messages


def test_answers_are_compared_and_one_is_chosen(open_browser, ada):
    session, _ = ada.begin("echo", "Hello")
    page = open_browser().new_page()
    page.goto(f"/sessions/{session}")
    page.locator("#words").fill("Which format would you like?")
    page.get_by_role("button", name="Compare answers").click()
    page.get_by_label("Answerer 2").select_option("asking")
    page.get_by_role("dialog").get_by_role("button", name="Compare").click()
    page.wait_for_url(re.compile("/comparisons/"))
    echo, asking = (page.frame_locator(".comparing-side iframe").nth(number) for number in (0, 1))
    expect(echo.locator(".from-agent .prose").last).to_have_text("Which format would you like?")
    form = asking.locator("form.question")
    expect(form).to_be_visible()
    expect(echo.locator("#composer")).to_be_hidden()
    expect(page.locator("#state-1")).to_contain_text("Done")
    page.get_by_role("button", name="Go on with A").click()
    page.wait_for_url(re.compile("/sessions/"))
    expect(messages(page)).to_have_count(4)
    expect(page.locator("#words")).to_have_value("")
