"""An operator connects a model in the browser, and people's agents answer by it."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import OpenBrowser
from tests.browser.doing import messages, until
from tests.browser.people import Person
from tests.llm import endpoint as endpoints
from tests.llm.endpoint import says

CHANGE = "/admin/installation/modelconnection/"
FITS = "() => document.documentElement.scrollWidth <= innerWidth"


def test_a_model_that_is_connected_in_the_browser_answers_without_a_restart(
    open_browser: OpenBrowser, ada: Person, operator: Person
) -> None:
    with endpoints.running() as endpoint:
        endpoint.models, endpoint.usual = ["small", "large"], says("By the ", "new model.")
        admin = open_browser(storage_state=operator.state).new_page()
        admin.goto("/")
        admin.get_by_role("link", name="Connect a language model").click()
        admin.get_by_role("radio", name="Another OpenAI-compatible endpoint").check()
        admin.get_by_role("textbox", name="Address").fill(endpoint.url)
        admin.get_by_label("Allow calls to this private address").check()
        admin.get_by_role("button", name="Test", exact=True).click()
        expect(admin.get_by_role("status").filter(has_text="2 models")).to_be_visible()
        until(admin, FITS)
        admin.get_by_label("Default model").select_option("small")
        try:
            admin.get_by_role("button", name="Save").click()
            admin.get_by_role("button", name="Try 127.0.0.1").click()
            expect(admin.get_by_role("blockquote")).to_have_text("By the new model.")
            session, _ = ada.begin("assistant", "Good morning")
            page = open_browser().new_page()
            page.goto(f"/sessions/{session}")
            expect(messages(page).last).to_contain_text("By the new model.")
        finally:  # other tests have scripted models
            admin.goto(CHANGE)
            listed = admin.locator("#result_list").get_by_role("link", name="127.0.0.1")
            listed.click()
            admin.goto(f"{admin.url.split('/change/')[0]}/delete/")
            admin.locator("form [type=submit]").last.click()
            expect(listed).to_have_count(0)
