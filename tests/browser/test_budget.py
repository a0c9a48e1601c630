"""Pages stay light: what a page loads of our own JavaScript, as it is written, has a bound.

What it loads by itself counts, and in a session also what is loaded for what the person opens there.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Response, expect

from agentkit import Artifact, Completed, Outcome, SkillHandler, TaskContext
from tests.browser.agents import Asking, Long
from tests.browser.conftest import sign_in
from tests.browser.doing import artifact, begin, heard, say, settled
from tests.stack import Stack

MOST_BYTES = 60_000
MOST_BYTES_OF_A_VISIT = 125_000
READER = "light@example.org"
INLINE = """
  [...document.scripts].filter(({ src, type }) => !src && !type).reduce((sum, { text }) => sum + text.length, 0)
"""
AFTERWARDS = 2500  # ms in which a page may load more by itself: what waits until the page is there counts too

PLACES = ["/", "/agents", "/agents/echo", "/agents/echo/try", "/inbox"]


class Writing(SkillHandler):
    """Looks something up, streams Markdown and delivers a file: what most sessions are made of."""

    name = "Writing"

    async def on_request(self, task: TaskContext) -> Outcome:
        call = await task.tool_call("look_up", {"about": "rivers"})
        await task.tool_result(call, "look_up", "Rivers run to the sea.")
        words = "# Rivers\n\nThey *run*.\n\n```python\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
        for piece in words.partition("run"):
            await task.token(piece)
        return Completed(words, [Artifact.text("notes.txt", "What was found.")])


PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Drawing(SkillHandler):
    """Delivers a picture."""

    name = "Drawing"

    async def on_request(self, task: TaskContext) -> Outcome:
        await task.progress("Drawing…")
        return Completed("Here it is.", [Artifact.bytes("river.png", PICTURE, "image/png")])


class Talking(SkillHandler):
    """Speaks for as long as somebody looks at it."""

    name = "Talking"

    async def on_request(self, task: TaskContext) -> Outcome:
        for _ in range(600):
            await task.token("and so on ")
            await asyncio.sleep(0.2)
        return Completed("and so on " * 600)


@pytest.fixture(scope="module")
def signed_in(chromium: Browser, parley: Stack) -> Any:
    """The cookies of somebody who does nothing else: what ends elsewhere would be told, and that loaded."""
    password = parley.manage("create_user", READER).stdout.strip()
    context = chromium.new_context(base_url=parley.url)
    sign_in(context.new_page(), parley, READER, password)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture(scope="module")
def written(parley: Stack, open_window: Callable[[], BrowserContext]) -> dict[str, str]:
    """The addresses of a session in which an agent wrote and delivered, of its task, and of its replay."""
    parley.manage("register_agent", "writing", "--handler", f"{__name__}:Writing")
    page = open_window().new_page()
    begin(page, "writing", "Write about rivers")
    expect(artifact(page, "notes.txt")).to_be_attached()
    settled(page)
    page.wait_for_timeout(AFTERWARDS)
    entries = json.loads(page.request.get(page.url).text().split('id="beginning"')[1].split(">", 1)[1].split("<")[0])
    task = next(one["taskId"] for one in entries["entries"] if one.get("taskId"))
    return {"session": page.url, "task": f"/tasks/{task}", "replay": f"{page.url}/replay"}


@pytest.fixture(scope="module")
def open_window(chromium: Browser, parley: Stack, signed_in: Any) -> Iterator[Callable[[], BrowserContext]]:
    context = chromium.new_context(base_url=parley.url, storage_state=signed_in, service_workers="block")
    yield lambda: context
    context.close()


def loaded_by(page: Page, address: str, act: Callable[[Page], object] | None = None) -> dict[str, int]:
    """Of our scripts that the page asks for by itself, and for what is done there, the bytes."""
    answers: dict[str, Response] = {}

    def note(response: Response) -> None:
        if "/static/js/" in response.url:
            answers[response.url.split("/static/js/")[1]] = response

    page.on("response", note)
    page.goto(address)
    page.wait_for_timeout(AFTERWARDS)
    if act:
        act(page)
        page.wait_for_timeout(AFTERWARDS)
    return {name: len(answer.body()) for name, answer in answers.items()} | {"in the page": page.evaluate(INLINE)}


def assert_light(sizes: dict[str, int]) -> None:
    heaviest_first = sorted(sizes.items(), key=lambda one: -one[1])
    assert 0 < sum(sizes.values()) < MOST_BYTES, (sum(sizes.values()), heaviest_first)


@pytest.mark.parametrize("address", PLACES)
def test_a_page_is_light(page: Page, address: str) -> None:
    assert_light(loaded_by(page, address))


@pytest.mark.parametrize("place", ["task", "replay"])
def test_what_tells_of_a_session_is_light(page: Page, written: dict[str, str], place: str) -> None:
    assert_light(loaded_by(page, written[place]))


def test_a_session_is_light(page: Page, written: dict[str, str]) -> None:
    assert_light(loaded_by(page, written["session"]))


def test_a_session_in_which_a_file_is_looked_at_is_light(page: Page, written: dict[str, str]) -> None:
    assert_light(loaded_by(page, written["session"], open_file))


def test_a_visit_in_which_one_writes_and_is_answered_has_a_bound_too(page: Page, written: dict[str, str]) -> None:
    """What comes with the first letter, and with the first message, is loaded beside what the page begins with."""

    def converse(page: Page) -> None:
        count = page.locator(".from-agent").count()
        say(page, "And once more")
        expect(page.locator(".from-agent")).to_have_count(count + 1)
        settled(page)

    sizes = loaded_by(page, written["session"], converse)
    assert sum(sizes.values()) < MOST_BYTES_OF_A_VISIT, sum(sizes.values())


def test_a_session_that_is_opened_again_is_light(
    chromium: Browser, parley: Stack, signed_in: Any, written: dict[str, str]
) -> None:
    """From what the service worker kept, which is what the server would say by now."""
    context = chromium.new_context(base_url=parley.url, storage_state=signed_in)
    page = context.new_page()
    for _ in range(2):  # the worker is there from the second time on
        page.goto(written["session"])
        page.wait_for_timeout(AFTERWARDS)
        page.goto("about:blank")
    sizes = loaded_by(page, written["session"])
    assert page.evaluate("performance.getEntriesByType('navigation')[0].workerStart") > 0
    context.close()
    assert_light(sizes)


def agent(parley: Stack, handler: type[SkillHandler]) -> str:
    """The slug of an agent for the sessions below, registered."""
    slug = f"light-{handler.__name__.lower()}"
    parley.manage("register_agent", slug, "--handler", f"{handler.__module__}:{handler.__name__}")
    return slug


def open_file(page: Page) -> None:
    page.locator(".chip").click()
    expect(page.locator("#preview")).to_be_visible()
    expect(page.locator("#preview .signature")).to_be_visible()


def open_tree(page: Page) -> None:
    page.locator("#session-more").click()
    page.locator("[data-act=tree]").click()
    expect(page.locator("dialog .tree")).to_be_visible()


def go_up(page: Page) -> None:
    count = page.locator("#items > li").count()
    page.locator("#transcript").evaluate("(element) => (element.scrollTop = 0)")
    expect(page.locator("#items > li").nth(count)).to_be_attached()


def test_a_session_with_a_picture_is_light(page: Page, parley: Stack) -> None:
    begin(page, agent(parley, Drawing), "Draw a river")
    expect(page.locator(".thumbnail")).to_be_visible()
    settled(page)
    page.wait_for_timeout(AFTERWARDS)  # a page says of what is new that it was seen, which is more
    session = page.url
    page.goto("about:blank")
    assert_light(loaded_by(page, session))


def test_a_session_with_a_question_is_light(page: Page, parley: Stack) -> None:
    begin(page, agent(parley, Asking), "A trip")
    expect(page.locator("form.question")).to_be_visible()
    session = page.url
    page.goto("about:blank")
    sizes = loaded_by(page, session)
    say_no_more(page)
    assert_light(sizes)


def test_a_session_that_is_worked_at_is_light(page: Page, parley: Stack) -> None:
    begin(page, agent(parley, Long), "120 seconds")
    expect(page.locator("#head-state")).to_contain_text("Working")
    session = page.url
    page.goto("about:blank")
    running = loaded_by(page, session)
    say(page, "And this afterwards")
    expect(page.locator(".queue li[data-id]")).to_have_count(1)
    page.goto("about:blank")
    queued = loaded_by(page, session)
    expect(page.locator(".queue li[data-id]")).to_have_count(1)
    page.get_by_role("button", name="Delete").click()
    say_no_more(page)
    assert_light(running)
    assert_light(queued)


def test_a_session_that_streams_is_light(page: Page, parley: Stack) -> None:
    begin(page, agent(parley, Talking), "Go on")
    heard(page, "and so on")
    session = page.url
    page.goto("about:blank")
    sizes = loaded_by(page, session)
    expect(page.locator(".streaming")).to_be_visible()
    say_no_more(page)
    assert_light(sizes)


def say_no_more(page: Page) -> None:
    """Stop what the agent does, so that nothing waits or runs in what is measured next."""
    page.get_by_role("button", name="Stop").click()
    settled(page)


def test_a_long_session_and_its_tree_are_light(page: Page, parley: Stack) -> None:
    made = parley.python("-m", "benchmarks.sessions", "0", "5000", "2").stdout.strip()
    given = f"Context.objects.filter(pk='{made}').update(owner=User.objects.get(email='{READER}'))"
    parley.manage("shell", "-v0", "-c", given)
    session = f"/sessions/{made}"
    assert_light(loaded_by(page, session))
    page.goto("about:blank")
    assert_light(loaded_by(page, session, open_tree))
    page.goto("about:blank")
    assert_light(loaded_by(page, session, go_up))
