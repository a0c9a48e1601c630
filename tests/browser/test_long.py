"""A session of thousands of messages: few of them are in the page, the reader's place is kept, and nothing stutters."""

from __future__ import annotations

import asyncio
import json

import pytest
from playwright.sync_api import Browser, Page, expect

from agentkit import Completed, Outcome, SkillHandler, TaskContext
from tests.browser.doing import messages, say, settled, until
from tests.stack import Stack

MESSAGES = 5000
MOST = 200

MOST_ELEMENTS = """
  window.mostElements = 0;
  new MutationObserver(() => {
    window.mostElements = Math.max(mostElements, document.querySelectorAll("#items > li").length);
  }).observe(document, { subtree: true, childList: true });
"""


class Talkative(SkillHandler):
    """Streams many words."""

    name = "Talkative"

    async def on_request(self, task: TaskContext) -> Outcome:
        for number in range(120):
            await task.token(f"word{number} ")
            await asyncio.sleep(0.015)
        return Completed("That was all.")


@pytest.fixture(scope="module")
def long_session(parley: Stack) -> str:
    """The address of a session of 5,000 messages, with an agent that talks a lot."""
    parley.manage("register_agent", "talkative", "--handler", f"{__name__}:Talkative")
    key = parley.python("-m", "benchmarks.sessions", "0", str(MESSAGES), "2").stdout.strip()
    given = f"Context.objects.filter(pk='{key}').update(agent=Agent.objects.get(slug='talkative'))"
    parley.manage("shell", "-v0", "-c", given)
    return f"/sessions/{key}"


@pytest.fixture
def reader(page: Page, long_session: str) -> Page:
    page.add_init_script(MOST_ELEMENTS)
    page.goto(long_session)
    expect(page.locator(f"#m-{MESSAGES}")).to_be_in_viewport()
    return page


def scroll(page: Page, to: str) -> None:
    page.locator("#transcript").evaluate(f"(element) => (element.scrollTop = {to})")


def test_few_messages_are_in_the_page_and_the_readers_place_is_kept(reader: Page) -> None:
    page = reader
    seen = []
    for _ in range(8):  # up, past what the page began with
        first = messages(page).first.get_attribute("id")
        line = page.locator(f"#{first}")
        before = page.evaluate(
            """(id) => {
              document.getElementById("transcript").scrollTop = 60;
              return document.getElementById(id).getBoundingClientRect().top;
            }""",
            first,
        )
        expect(messages(page).first).not_to_have_id(first)
        assert abs(line.bounding_box()["y"] - before) < 3
        seen.append(int(messages(page).first.get_attribute("id").removeprefix("m-")))
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] < MESSAGES - 250
    expect(page.locator(f"#m-{MESSAGES}")).to_have_count(0)
    has_enough = "() => transcript.scrollTop >= 1.5 * transcript.clientHeight"
    until(page, has_enough)  # above the reader, so that no more comes there
    last = messages(page).last.get_attribute("id")
    scroll(page, "element.scrollHeight - element.clientHeight - 200")  # and down again
    expect(messages(page).last).not_to_have_id(last)
    page.evaluate("document.getElementById('to-end').click()")
    expect(page.locator(f"#m-{MESSAGES}")).to_be_in_viewport()
    assert 0 < page.evaluate("mostElements") <= MOST


def test_a_link_to_a_message_far_up_leads_there(page: Page, long_session: str) -> None:
    page.add_init_script(MOST_ELEMENTS)
    page.goto(f"{long_session}#m-1001")
    expect(page.locator("#m-1001")).to_be_in_viewport()
    expect(page.locator("#m-1001")).to_be_focused()
    page.evaluate("location.hash = '#m-21'")
    expect(page.locator("#m-21")).to_be_in_viewport()
    assert 0 < page.evaluate("mostElements") <= MOST


def test_nothing_stutters_while_an_answer_streams_into_thousands_of_messages(chromium: Browser, reader: Page) -> None:
    page = reader
    page.evaluate("location.hash = '#m-1'")
    expect(page.locator("#m-1")).to_be_in_viewport()
    page.evaluate("document.getElementById('to-end').click()")
    expect(page.locator(f"#m-{MESSAGES}")).to_be_in_viewport()
    assert longest_task_of_a_stream(chromium, page) < 50
    assert page.evaluate("mostElements") <= MOST


def longest_task_of_a_stream(browser: Browser, page: Page) -> float:
    """Milliseconds of the processor's time that the page's main thread was not to be had, at most."""
    said = page.locator(".from-agent .prose", has_text="That was all.").count()
    browser.start_tracing(
        page=page, categories=["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
    )
    say(page, "Talk to me")
    expect(page.locator(".from-agent .prose", has_text="That was all.")).to_have_count(said + 1)
    settled(page)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    threads = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    mains = [one for one in events if threads.get((one["pid"], one["tid"])) == "CrRendererMain"]
    tasks = [one["tdur"] / 1000 for one in mains if one["name"].endswith("RunTask") and "tdur" in one]
    assert len(tasks) > 100  # it was measured
    return max(tasks)


def test_what_was_read_once_is_there_without_the_server(page: Page, long_session: str) -> None:
    page.goto(f"{long_session}#m-{MESSAGES - 199}")
    expect(page.locator(f"#m-{MESSAGES - 199}")).to_be_in_viewport()
    page.goto("/agents")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/earlier?" in request.url else None)
    page.goto(f"{long_session}#m-{MESSAGES - 199}")
    expect(page.locator(f"#m-{MESSAGES - 199}")).to_be_in_viewport()
    assert asked == []


def test_closing_the_page_stops_nothing(page: Page, long_session: str) -> None:
    page.goto(long_session)
    before = page.locator(".from-agent", has_text="That was all.").count()
    say(page, "Talk to nobody")
    expect(page.locator(".streaming")).to_be_visible()
    page.goto("about:blank")
    page.goto(long_session)
    expect(page.locator(".from-agent", has_text="That was all.")).to_have_count(before + 1)
    expect(page.locator(".from-agent", has_text="word119")).to_have_count(before + 1)  # to its end, and once
