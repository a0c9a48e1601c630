"""A newcomer's journey through what Parley does beside a conversation, in one project."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.doing import SESSION, begin, heard, messages, say, settled, wait
from tests.browser.standins import SlackThread, slack
from tests.channels.slack import SECRET, TOKEN
from tests.model_agents import endpoint
from tests.model_agents.endpoint import calls, says

MAKE = """
from apps.agents.definitions import Definition
from apps.agents.registration import register_model
from apps.installation.models import ModelConnection
ModelConnection.objects.create(name="Stub", slug="stub", base_url={url!r}, model="stub", names_sessions=False)
register_model("guide", Definition.read(dict(name="Guide", description="Plans trips.", instructions="Help.")))
"""
GONE = """
from apps.installation.models import ModelConnection
ModelConnection.objects.filter(slug="stub").delete()
"""


@pytest.fixture
def model(parley):
    with endpoint.running() as one:
        parley.manage("shell", "-v0", "-c", MAKE.format(url=one.url))
        yield one
        parley.manage("shell", "-v0", "-c", GONE)


def test_newcomer_works_in_a_project(page, model, go, tmp_path):
    make_project(page, tmp_path)
    ask_about_files(page, model)
    session = page.url
    correct_memory(page, model)
    page.goto(session)
    compare(page, model)
    steer(page, go)
    approve_from_slack(page)


def make_project(page, folder):
    for name, text in (("budget.txt", "At most 900 euros."), ("dates.txt", "In May.")):
        (folder / name).write_text(text)
    page.goto("/projects")
    page.get_by_role("link", name="New project").click()
    page.get_by_label("Name").fill("Spring trip")
    page.get_by_label("Instructions").fill("Prices are in euros.")
    page.get_by_label("Agent").select_option(label="Guide")
    page.get_by_role("button", name="Save").click()
    page.get_by_label("Add files", exact=True).last.set_input_files([folder / "budget.txt", folder / "dates.txt"])
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("link", name="dates.txt")).to_be_visible()


def ask_about_files(page, model):
    """The answer cites a file, and the citation opens at the passage."""
    wait(page, lambda: is_read(page), "agents can search the files")
    model.replies = [calls(("search_knowledge", {"query": "How many euros?"})), cites]
    say(page, "What may it cost?")
    page.wait_for_url(SESSION)
    heard(page, "At most 900 euros, in May.")
    settled(page)
    told = " ".join(str(content) for role, content in model.said() if role == "system")
    assert all(words in told for words in ("Prices are in euros.", "At most 900 euros.", "In May."))
    with page.expect_popup() as opened:
        messages(page).last.get_by_role("link", name="Source 1: budget.txt").click()
    expect(opened.value.locator("mark")).to_have_text("At most 900 euros.")
    opened.value.close()


def is_read(page):
    page.reload()
    searched = page.locator("p", has=page.get_by_role("link", name="Agents search these files"))
    return searched.count() and "being read" not in searched.inner_text()


async def cites(asking):
    """Copies the link that the tool gave with the passage."""
    link = re.search(r'\[1\]\(\S+ "budget.txt"\)', asking.body["messages"][-1]["content"])
    await says(f"At most 900 euros, in May. {link[0]}")(asking)


def correct_memory(page, model):
    """What an agent noted wrong; the next turn is told what is true."""
    model.replies = [calls(("remember", {"text": "Eats meat."})), says("I will remember that.")]
    say(page, "Remember that I eat no meat.")
    heard(page, "I will remember that.")
    settled(page)
    page.goto("/settings/memory")
    page.get_by_role("link", name="Change “Eats meat.”").click()
    page.get_by_label("What to remember").fill("Eats no meat.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("list", name="Remembered")).to_contain_text("Eats no meat.")


def compare(page, model):
    model.replies = [says("A salad.")]
    page.locator("#words").fill("What do I eat?")
    page.get_by_role("button", name="Compare answers").click()
    page.get_by_label("Answerer 2").select_option("echo")
    page.get_by_role("dialog").get_by_role("button", name="Compare").click()
    page.wait_for_url(re.compile("/comparisons/"))
    guide, echo = (page.frame_locator(".comparing-side iframe").nth(number) for number in (0, 1))
    expect(guide.locator(".from-agent .prose").last).to_have_text("A salad.")
    expect(echo.locator(".from-agent .prose").last).to_have_text("What do I eat?")
    assert "Eats no meat." in str(model.said())
    page.get_by_role("button", name="Go on with A").click()
    page.wait_for_url(re.compile("/sessions/"))
    expect(messages(page).last).to_contain_text("A salad.")


def steer(page, go):
    begin(page, "listening", f"listen {go}")
    expect(page.locator(".work").get_by_text("Looking around")).to_be_visible()
    say(page, "only trains")
    go.touch()
    expect(page.locator(".from-user", has_text="only trains")).to_contain_text("Read at step")
    page.get_by_role("button", name="After this step").click()
    heard(page, "Heard only trains.")


def approve_from_slack(page):
    """The approval is asked and given in a thread; the session shows what came of it."""
    page.goto("/settings/chat-channels/new?platform=slack")
    page.get_by_label("Name").fill("Help desk")
    page.get_by_label("Agent").select_option(label="Clerk")
    page.get_by_label("Bot token").fill(TOKEN)
    page.get_by_label("Signing secret").fill(SECRET)
    page.get_by_role("button", name="Save").click()
    address = page.locator("code", has_text="/hooks/chats/").inner_text()
    page.goto("/settings/chat-accounts")
    page.get_by_role("button", name="Make a code").click()
    code = page.get_by_role("status").locator("code").inner_text()
    with slack() as at:
        thread = SlackThread(at, address)
        thread.say(code)
        wait(page, lambda: at.shown, "Slack hears of the link")
        thread.say("Write to Bob")
        wait(page, lambda: any(one.buttons for one in at.shown), "Slack shows the question")
        assert "bob" in at.button("Approve")[0].text
        thread.press("Approve")
        wait(page, lambda: "Sent to bob." in at.texts, "Slack shows the answer")
    page.goto("/")
    page.locator(".recent").get_by_role("link", name="Write to Bob").click()
    heard(page, "Sent to bob.")
