"""Whatever an agent says, in whatever place: nothing of it runs, loads anything from elsewhere, or leaves its box."""

from __future__ import annotations

import io
import uuid
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser import hostile
from tests.browser import test_operators_pages as operators
from tests.browser.conftest import PHONE
from tests.browser.hostile import PAYLOADS
from tests.browser.watching import LOOK_AT_ALL, OPEN_ALL, OUT_OF_ITS_BOX, Watch
from tests.stack import Stack

CONTROLLED = """async (address) => {
  const pause = () => new Promise((done) => setTimeout(done, 100));
  while (!(navigator.serviceWorker.controller && (await caches.match(address, { ignoreVary: true })))) await pause();
}"""
SHOWN_IS_KEPT = """async (address) => {
  const kept = async () => (await caches.match(address, { ignoreVary: true }))?.text();
  while (!(await kept())?.includes("inert><li")) await new Promise((done) => setTimeout(done, 100));
}"""
BEFORE_ITS_SCRIPT = f"""
  document.addEventListener("readystatechange", () => {{
    window.outAtFirst ??= ({OUT_OF_ITS_BOX})();
    window.atFirst ??= document.querySelectorAll("#items > li").length;
  }});
"""

pytestmark = pytest.mark.timeout(900)  # some hundred answers, and each of their files


@pytest.fixture(scope="module")
def agent(parley: Stack) -> Iterator[Callable[..., dict[str, Any]]]:
    """Says something to the hostile agent and waits for what it makes of it: gives the task."""
    place = f"{hostile.__name__}:Hostile"
    parley.manage("register_agent", "hostile", "--handler", place)
    parley.manage(
        "shell", "-v0", "-c", "from apps.agents.models import Agent; Agent.objects.update(keep_thoughts=True)"
    )
    with httpx.Client(headers={"Authorization": f"Bearer {parley.demo_key}", "A2A-Version": "1.0"}, timeout=60) as http:

        def say(words: str, context: str = "", to: str = "hostile") -> dict[str, Any]:
            message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": words}]}
            params = {"message": {**message, **({"contextId": context} if context else {})}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
            answer: dict[str, Any] = http.post(f"{parley.url}/a2a/{to}", json=body).json()
            return dict(answer["result"]["task"])

        yield say


@pytest.fixture(scope="module")
def conversation(parley: Stack, agent: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """One session in which the agent has said every one of them, and one more for each that it asks."""
    context = agent(f"say {PAYLOADS[0]}")["contextId"]
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(lambda words: agent(f"say {words}", context), PAYLOADS[1:]))
        failed = list(pool.map(lambda words: agent(f"fail {words}"), PAYLOADS[::4]))
        asked = [agent(f"ask {begin}") for begin in range(0, len(PAYLOADS), hostile.MOST_FIELDS)]
    assert len(PAYLOADS) >= 150
    assert {task["status"]["state"] for task in said} == {"TASK_STATE_COMPLETED"}
    assert {task["status"]["state"] for task in failed} == {"TASK_STATE_FAILED"}
    assert {task["status"]["state"] for task in asked} == {"TASK_STATE_INPUT_REQUIRED"}
    sessions = [session_of(parley, task["id"]) for task in (said[0], failed[0], *asked)]
    return {
        "session": sessions[0],
        "failed": sessions[1],
        "asked": sessions[2:],
        "tasks": [task["id"] for task in said],
    }


def api(parley: Stack, path: str) -> Any:
    headers = {"Authorization": f"Bearer {parley.demo_key}"}
    return httpx.get(f"{parley.url}/api/v1{path}", headers=headers, timeout=60).raise_for_status().json()


def change(parley: Stack, method: str, path: str, said: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {parley.demo_key}", "Idempotency-Key": str(uuid.uuid4())}
    asked = httpx.request(method, f"{parley.url}/api/v1{path}", json=said, headers=headers, timeout=60)
    return asked.raise_for_status().json()


def artifacts_of(parley: Stack, session: str) -> list[dict[str, Any]]:
    path, artifacts = f"/artifacts?session={session}&limit=100", []
    while True:
        answer = api(parley, path)
        artifacts += answer["items"]
        if not answer.get("nextCursor"):
            return artifacts
        path = f"/artifacts?session={session}&limit=100&cursor={answer['nextCursor']}"


def session_of(parley: Stack, task: str) -> str:
    return str(api(parley, f"/tasks/{task}")["sessionId"])


@pytest.fixture
def watch(parley: Stack) -> Iterator[Watch]:
    watch = Watch(parley.url)
    yield watch
    watch.settle()
    assert watch.broken == []


def test_a_conversation_of_nothing_else(open_browser, watch, conversation) -> None:
    page = watch.over(open_browser())
    page.goto(f"/sessions/{conversation['session']}")
    expect(page.locator("#items .from-agent").first).to_be_visible()
    for _ in range(60):  # up to where it began
        for details in page.locator("#items .work details:not([open]) > summary").all()[:3]:
            details.click()
        assert page.evaluate(OUT_OF_ITS_BOX) == []
        if not page.locator("#earlier:visible").count():
            break
        page.evaluate("document.getElementById('earlier').click()")  # it may go while a pointer goes there
        expect(page.locator("#earlier:disabled")).to_have_count(0)
    else:
        pytest.fail("its beginning was not reached")


def test_every_file_it_makes(parley, open_browser, watch, conversation) -> None:
    page = watch.over(open_browser())
    session = conversation["session"]
    page.goto(f"/sessions/{session}")
    expect(page.locator("#artifacts .artifact").first).to_be_attached()
    artifacts = artifacts_of(parley, session)
    assert len(artifacts) >= 5 * len(PAYLOADS)
    place = f"/sessions/{session}/artifacts"
    addresses = [f"{place}/{one['taskId']}/{one['artifactId']}/0/preview" for one in artifacts]
    assert page.evaluate(LOOK_AT_ALL, addresses) == []


def test_questions_whose_every_word_is_hostile(open_browser, watch, conversation) -> None:
    page = watch.over(open_browser())
    for session in conversation["asked"]:
        page.goto(f"/sessions/{session}")
        expect(page.locator("form.question")).to_be_visible()
        assert page.locator("form.question .field, form.question fieldset").count() > 1
        assert page.evaluate(OUT_OF_ITS_BOX) == []


def test_pages_that_list_what_it_said(open_browser, watch, conversation) -> None:
    page = watch.over(open_browser())
    pages = ("/", "/?page=2", "/inbox", "/agents", "/agents/hostile", f"/sessions/{conversation['failed']}")
    for address in pages:
        page.goto(address)
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate(OUT_OF_ITS_BOX) == [], address


def test_a_pdf_that_wants_to_do_something(parley, whole_chromium, signed_in, agent, watch) -> None:
    printed = agent("print")
    context = whole_chromium.new_context(base_url=parley.url, storage_state=signed_in)
    page = watch.over(context)
    page.goto(f"/sessions/{session_of(parley, printed['id'])}")
    page.locator("#artifacts .artifact-open").click()
    while not any(frame.url.startswith("chrome-extension://") for frame in page.frames):
        page.wait_for_event("framenavigated")
    page.wait_for_timeout(3000)  # it is shown, and has had time for what it wants
    page.locator("#preview iframe").click()
    page.wait_for_timeout(500)
    watch.settle()
    watch.pages.remove(page)


def test_files_that_are_looked_at_and_opened(parley, open_browser, watch, conversation) -> None:
    page, session = watch.over(open_browser()), conversation["session"]
    page.goto(f"/sessions/{session}")
    expect(page.locator("#artifacts .artifact").first).to_be_attached()
    page.evaluate(OPEN_ALL, "#artifacts details")
    opened = page.locator("#artifacts .artifact-open")
    for number in range(15):  # three of each kind
        opened.nth(number).click()
        expect(page.locator("#preview .signature")).to_be_visible()
        for way in page.locator("#preview .preview-ways button").all():
            way.click()
            expect(way).to_have_attribute("aria-pressed", "true")
            assert page.evaluate(OUT_OF_ITS_BOX) == []
    for one in artifacts_of(parley, session)[::29]:
        address = f"/sessions/{session}/artifacts/{one['taskId']}/{one['artifactId']}/0"
        for ending in ("", "?look"):
            headers = page.request.get(address + ending).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["content-security-policy"].endswith("sandbox")
            assert ending or headers["content-disposition"].startswith("attachment")
        if headers["content-disposition"].startswith("inline"):
            page.goto(address + "?look")  # by itself, in no frame


def test_all_of_them_at_once_go_into_safe_names(open_browser, watch, conversation) -> None:
    page = watch.over(open_browser())
    answer = page.request.get(f"/sessions/{conversation['session']}/artifacts.zip?all", timeout=120_000)
    names = zipfile.ZipFile(io.BytesIO(answer.body())).namelist()
    assert len(names) >= 5 * len(PAYLOADS)
    assert len({name.casefold() for name in names}) == len(names)
    assert [name for name in names if not name.isprintable() or set(name) & set('/\\<>:"|?*')] == []
    text = page.request.get(f"/sessions/{conversation['session']}/as.md")
    assert text.headers["content-type"].startswith("text/markdown")
    assert text.headers["content-disposition"].startswith("attachment")


def test_pages_of_its_tasks(open_browser, watch, conversation) -> None:
    page = watch.over(open_browser())
    for task in conversation["tasks"][::25]:
        page.goto(f"/tasks/{task}")
        page.evaluate(OPEN_ALL, "main details")
        expect(page.locator("main .payload:empty")).to_have_count(0)
        assert page.evaluate(OUT_OF_ITS_BOX) == []
    endings = ("/events?q=script", "/timeline", "/documents/events?shown", "/documents/task?shown")
    addresses = [f"/tasks/{task}{ending}" for task in conversation["tasks"][::4] for ending in endings]
    assert page.evaluate(LOOK_AT_ALL, addresses) == []


def test_the_player_and_the_tree_of_forks(parley, open_browser, watch, conversation) -> None:
    page, session = watch.over(open_browser()), conversation["failed"]
    titles = [said[:100].strip() for said in PAYLOADS if said.isprintable()][::20]
    forks = [change(parley, "POST", f"/sessions/{session}/fork", {})["session"]["id"] for _ in titles]
    for fork, title in zip(forks, titles, strict=True):
        change(parley, "PATCH", f"/sessions/{fork}", {"title": title})
    page.goto(f"/sessions/{session}/tree")
    expect(page.locator("a.tree-line")).to_have_count(len(forks) + 1)
    assert page.evaluate(OUT_OF_ITS_BOX) == []
    page.goto(f"/sessions/{session}")
    page.get_by_role("button", name="More about this session").click()
    page.get_by_role("link", name="Branches").click()
    expect(page.get_by_role("dialog", name="Branches").locator("a.tree-line")).to_have_count(len(forks) + 1)
    assert page.evaluate(OUT_OF_ITS_BOX) == []
    last = api(parley, f"/sessions/{conversation['session']}")["session"]["revision"]
    for place in range(last, 0, -last // 6):
        page.goto(f"/sessions/{conversation['session']}/replay?at={place}")
        expect(page.locator("#place-index")).to_contain_text(f"Event {place} of")
        assert page.evaluate(OUT_OF_ITS_BOX) == []


def test_what_is_found(open_browser, watch, conversation) -> None:
    page = watch.over(open_browser())
    page.goto("/agents")
    for words in ("script", "elsewhere", "press", "javascript"):
        page.get_by_role("button", name="Search").first.click()
        page.keyboard.type(words)
        expect(page.locator(".palette-state")).to_contain_text("result")
        expect(page.locator("[aria-label='Said and delivered'] [role=option]").first).to_be_visible()
        assert page.evaluate(OUT_OF_ITS_BOX) == []
        page.keyboard.press("Escape")


def test_who_reads_by_a_link(parley, open_browser, watch, conversation) -> None:
    asked = {"withArtifacts": True, "withBranches": True}
    link = change(parley, "POST", f"/sessions/{conversation['session']}/shares", asked)["url"]
    page = watch.over(open_browser(storage_state=None))
    page.goto(link)
    assert page.locator(".said").count() > len(PAYLOADS)
    assert page.evaluate(OUT_OF_ITS_BOX) == []
    file = page.locator(".made a[href*='/files/']").first
    assert page.request.get(str(file.get_attribute("href"))).headers["content-disposition"].startswith("attachment")
    assert page.goto(f"/sessions/{conversation['session']}").url.startswith(f"{parley.url}/sign-in")


def test_remote_agents_whose_cards_are_hostile(parley, open_browser, watch, conversation) -> None:
    parley.manage("shell", "-v0", "-c", "from tests.browser import hostile_cards; hostile_cards.register()")
    page = watch.over(open_browser())
    page.goto("/agents?q=hostile")
    for query in ("?kind=remote", "?kind=remote&q=script", "?tag=%3Cscript%3E"):
        page.goto(f"/agents{query}")
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate(OUT_OF_ITS_BOX) == []
    page.goto("/agents?kind=remote")
    agents = [link.get_attribute("href") for link in page.locator(".agent-card-name a").all()]
    assert len(agents) >= 10
    for agent in agents[::2]:
        for ending in ("?example=0", "/try"):
            page.goto(f"{agent}{ending}")
            expect(page.locator("h1")).to_be_visible()
            assert page.evaluate(OUT_OF_ITS_BOX) == [], agent
    page.keyboard.press("Control+Shift+O")
    expect(page.locator(".palette [role=option]").nth(len(agents))).to_be_visible()
    assert page.evaluate(OUT_OF_ITS_BOX) == []


def test_its_answers_in_the_console(open_browser, watch, conversation) -> None:
    page = watch.over(open_browser())
    page.goto("/agents/hostile/try")
    for count, said in enumerate(PAYLOADS[::30], 1):
        page.get_by_label("Message").fill(f"say {said}")
        page.get_by_role("button", name="Send", exact=True).click()
        expect(page.locator(".exchange")).to_have_count(count)
        expect(page.locator(".exchange-state").first).to_contain_text(" in ")
        page.evaluate(OPEN_ALL, ".exchange details")
        assert page.evaluate(OUT_OF_ITS_BOX) == []


def test_pages_of_plans(chromium, parley, open_browser, watch, agent) -> None:
    parley.manage("shell", "-v0", "-c", "from tests.browser import hostile_plans; hostile_plans.register()")
    page = watch.over(open_browser())
    page.goto("/plans")
    assert page.evaluate(OUT_OF_ITS_BOX) == []
    plans = page.locator("main a[href^='/plans/hostile-plan-']")
    slugs = sorted({str(link.get_attribute("href")).removeprefix("/plans/") for link in plans.all()})
    assert len(slugs) >= 5
    said = PAYLOADS[::25]
    runs = {slug: agent(said[int(slug.rpartition("-")[2])], to=slug)["id"] for slug in slugs}
    for slug, run in runs.items():
        for address in (f"/plans/{slug}", f"/plans/{slug}/edit", f"/plans/runs/{run}"):
            page.goto(address)
            expect(page.locator("h1")).to_be_visible()
            page.evaluate(OPEN_ALL, "details")
            page.wait_for_load_state("networkidle")
            assert page.evaluate(OUT_OF_ITS_BOX) == [], address
        expect(page.locator(".plan-questions form").first).to_be_visible()
    operator = chromium.new_page(viewport={"width": PHONE[0], "height": PHONE[1]})
    operators.sign_in(operator, parley)
    for run in runs.values():
        operator.goto(f"{parley.url}/admin/orchestration/planrun/{run}/change/")
        expect(operator.locator(".reasons")).to_be_visible()
        operators.fits(operator, PHONE[0])
    operator.close()


def test_what_was_shown_is_shown_again(open_browser, watch, conversation) -> None:
    page = watch.over(open_browser(service_workers="allow"))
    session = f"/sessions/{conversation['session']}"
    page.goto(session)
    expect(page.locator("#items .from-agent").first).to_be_visible()
    page.evaluate(CONTROLLED, session)
    page.goto("/agents")
    page.evaluate(SHOWN_IS_KEPT, session)
    page.add_init_script(BEFORE_ITS_SCRIPT)
    page.goto(session)
    expect(page.locator("#items:not([inert]) .from-agent").first).to_be_visible()
    assert page.evaluate("window.atFirst") > 10
    assert page.evaluate(OUT_OF_ITS_BOX) == []
    assert page.evaluate("window.outAtFirst") == []
