"""A newcomer keeps sessions in a project."""

import re

from playwright.sync_api import expect

from tests.browser.doing import SESSION, heard, of_session, say, settled


def test_newcomer_makes_a_project_whose_agent_knows_it(page, tmp_path):
    for name, text in (("budget.txt", "At most 900 euros."), ("dates.txt", "In May.")):
        (tmp_path / name).write_text(text)
    page.goto("/projects")
    page.get_by_role("link", name="New project").click()
    page.get_by_label("Name").fill("Spring trip")
    page.get_by_label("Instructions").fill("Prices are in euros.")
    page.get_by_label("Agent").select_option(label="Informed")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Spring trip")).to_be_visible()
    page.get_by_label("Add files", exact=True).last.set_input_files([tmp_path / "budget.txt", tmp_path / "dates.txt"])
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("link", name="dates.txt")).to_be_visible()
    say(page, "What do you know?")
    page.wait_for_url(SESSION)
    heard(page, "Prices are in euros. budget.txt: At most 900 euros. dates.txt: In May.")
    settled(page)
    expect(page.locator(".recent .of-project")).to_contain_text("What do you know?")
    page.get_by_role("navigation", name="Project").get_by_role("link", name="Spring trip").click()
    expect(page.locator("#main .row", has_text="What do you know?")).to_be_visible()

    page.locator("#main .row", has_text="What do you know?").click()
    of_session(page, "Move to project…", "link")
    page.get_by_label("No project").check()
    page.get_by_role("button", name="Move").click()
    page.wait_for_url(re.compile(r"/sessions/[0-9a-f-]{36}$"))
    say(page, "And now?")
    heard(page, "I know of no project.")
