"""A page of a tool server (MCP Apps) in a session: it speaks with its host, and reaches nothing else."""

from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PHONE
from tests.browser.doing import FITS, begin, heard, settled
from tests.model_agents import endpoint, tool_servers
from tests.model_agents.endpoint import calls, says

MAKE = """
from apps.agents.registration import register_model
from apps.agents.definitions import Definition
from apps.agents.tool_policies import set_policies
from apps.installation.models import ModelConnection
ModelConnection.objects.create(name="Stub", slug="stub", base_url={model!r}, model="stub", names_sessions=False)
told = dict(name="Clock", description="Tells the time.", instructions="Help.", mcp_servers=[dict(url={tools!r})])
agent = register_model("clock", Definition.read(told))
set_policies(agent, {{"mcp:set_alarm": "ask"}}, None)
"""
GONE = """
from apps.installation.models import ModelConnection
ModelConnection.objects.filter(slug="stub").delete()
"""
HTML = (Path(__file__).parent / "clock.html").read_text()
TAKE = "field => void setTimeout(() => { window.focus(); field.focus(); }, 50)"
NOTHING = "page: no, cookies: no, storage: no, windows: no, server: no, others: no"


@pytest.fixture
def clock(parley):
    """An agent whose tool has a page."""
    with tool_servers.running(made=partial(tool_servers.clock, HTML)) as tools, endpoint.running() as model:
        parley.manage("shell", "-v0", "-c", MAKE.format(model=model.url, tools=tools.url))
        model.replies = [calls(("tell_time", {"zone": "UTC"})), says("It is noon.")]
        yield
        parley.manage("shell", "-v0", "-c", GONE)


def use(page):
    """Press the frame, so that it takes presses."""
    page.get_by_role("button", name="Use: Tell time").click()


def shown(page):
    return page.frame_locator("iframe[title='Page of the tool Tell time']")


def takes_no_focus(page, complaints):
    """Neither the focus nor presses, until a person presses it."""
    app = shown(page)
    words = page.locator("#words")
    field = app.locator("#field")
    words.click()
    with page.expect_event("console", lambda said: said.text == "blur"):
        page.evaluate("addEventListener('blur', () => console.debug('blur'), { once: true })")
        field.evaluate(TAKE)
    expect(words).to_be_focused()
    words.press_sequentially("My secret")
    expect(words).to_have_value("My secret")
    field.evaluate(TAKE)
    expect(page.locator(".app-frame")).to_have_count(0)
    expect(words).to_be_focused()
    page.get_by_role("button", name="Show page").click()
    expect(app.locator("#reach")).to_have_text(NOTHING)
    complaints.clear()
    words.fill("")
    page.locator(".app-box").click(position={"x": 30, "y": 120})
    app.get_by_role("button", name="Write").click()


def asks_who_attends(page):
    """A question takes no press that was meant for what stood there before."""
    words = page.locator("#words")
    dialog = page.get_by_role("dialog")
    add = dialog.get_by_role("button", name="Add to message")
    add.dispatch_event("click")
    for _ in range(6):
        add.click(force=True)
        page.wait_for_timeout(150)
    expect(words).to_have_value("")
    expect(dialog).to_contain_text("And in Oslo?")
    add.click()
    expect(words).to_have_value("And in Oslo?")
    words.fill("")


def calls_what_is_allowed(page):
    """A tool that must be approved asks the person, and is called once."""
    app = shown(page)
    dialog = page.get_by_role("dialog")
    use(page)
    app.get_by_role("button", name="Set an alarm").click()
    expect(dialog).to_contain_text("7:00")
    dialog.get_by_role("button", name="Not now").click()
    expect(app.get_by_role("status")).to_have_text("The person did not allow it.")
    app.get_by_role("button", name="Set an alarm").click()
    page.get_by_role("button", name="Show question").click()
    dialog.get_by_role("button", name="Allow once").click()
    expect(app.get_by_role("status")).to_have_text("Alarm at 7:00")
    expect(page.locator(".app-called")).to_have_text("This page called set_alarm.")


def opens_links_by_the_person(page):
    """Without a way back; the frame itself leads nowhere."""
    app = shown(page)
    dialog = page.get_by_role("dialog")
    outside = []
    page.context.on("request", lambda one: outside.append(one.url) if "example.org" in one.url else None)
    use(page)
    with page.expect_console_message(lambda said: "example.org" in said.text and "frame-src" in said.text):
        app.get_by_role("button", name="Leave").click()
    assert outside == []
    page.get_by_role("button", name="Reload: Tell time").click()
    expect(app.locator("#time")).to_have_text("12:00")
    use(page)
    app.get_by_role("button", name="Read more").click()
    expect(dialog).to_contain_text("https://example.org/clocks")
    page.context.route(
        "https://example.org/**", lambda route: route.fulfill(body="<p>Clocks</p>", content_type="text/html")
    )
    with page.context.expect_page() as opened:
        dialog.get_by_role("button", name="Open").click()
    assert opened.value.evaluate("opener") is None
    opened.value.close()


@pytest.mark.usefixtures("clock")
def test_page_works_in_its_frame_alone(page, open_browser, complaints):
    address = begin(page, "clock", "What time is it?")
    heard(page, "It is noon.")
    settled(page)
    app = shown(page)
    expect(app.locator("#time")).to_have_text("12:00")
    expect(app.locator("#zone")).to_have_text("UTC")
    expect(app.locator("#reach")).to_have_text(NOTHING)
    complaints.clear()  # the browser says that it refused these

    takes_no_focus(page, complaints)
    asks_who_attends(page)
    calls_what_is_allowed(page)
    opens_links_by_the_person(page)

    complaints.clear()

    phone = open_browser(PHONE).new_page()
    phone.goto(address)
    expect(shown(phone).locator("#reach")).to_have_text(NOTHING)
    assert phone.evaluate(FITS)
    complaints.clear()
