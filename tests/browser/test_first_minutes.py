"""A newcomer signs in, asks, connects a language model, and asks again."""

from playwright.sync_api import expect

from tests.browser.doing import SESSION, messages, say, settled, sign_in, until
from tests.model_agents import endpoint as endpoints
from tests.model_agents.endpoint import says

CHANGE = "/admin/installation/modelconnection/"
FITS = "() => document.documentElement.scrollWidth <= innerWidth"
NEWCOMER = "newcomer@example.org"


def test_newcomer_connects_a_model_and_gets_answers(open_browser, parley):
    page = open_browser(storage_state=None).new_page()
    page.goto("/")
    password = parley.manage("create_user", NEWCOMER, "--operator").stdout.strip()
    sign_in(page, NEWCOMER, password)
    say(page, "What can you do?")
    page.wait_for_url(SESSION)
    expect(messages(page).last.get_by_role("button", name="Report")).to_be_visible()
    settled(page)
    session = page.url
    with endpoints.running() as endpoint:
        endpoint.models, endpoint.usual = ["small", "large"], says("By the ", "**new** model.")
        try:
            connect(page, endpoint.url)
            expect(page.get_by_role("button", name="Try 127.0.0.1")).to_be_visible()
            page.goto(session)
            say(page, "And now?")
            said = page.locator("#items .prose", has_text="By the new model.")
            expect(said).to_have_count(1)
            expect(said.locator("strong")).to_have_text("new")
            settled(page)
        finally:  # other tests have scripted models
            disconnect(page)


def connect(page, address):
    form = page.locator("#connection")
    messages(page).last.get_by_role("link", name="Connect a language model").click()
    form.get_by_role("radio", name="Another OpenAI-compatible endpoint").check()
    form.get_by_role("textbox", name="Address").fill(address)
    form.get_by_label("Allow calls to this private address").check()
    form.get_by_role("button", name="Test", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="2 models")).to_be_visible()
    until(page, FITS)
    page.get_by_label("Default model").select_option("small")
    form.get_by_role("button", name="Save").click()


def disconnect(page):
    page.goto(CHANGE)
    listed = page.locator("#result_list").get_by_role("link", name="127.0.0.1")
    if listed.count():
        listed.click()
        page.goto(f"{page.url.split('/change/')[0]}/delete/")
        page.locator("form [type=submit]").last.click()
        expect(listed).to_have_count(0)
