"""An agent's hostile text runs nothing, loads nothing, and stays in its box."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenBrowser
from tests.browser.doing import of_session, until
from tests.browser.hostile import MOST_FIELDS, PAYLOADS
from tests.browser.people import Person
from tests.browser.watching import LOOK_AT_ALL, OPEN_ALL, OUT_OF_ITS_BOX, Watch
from tests.stack import Stack

KEPT = """async ([address, words]) => navigator.serviceWorker.controller
  && (await (await caches.match(address, { ignoreVary: true }))?.text())?.includes(words)"""
BEFORE_ITS_SCRIPT = f"""
  document.addEventListener("readystatechange", () => {{
    window.outAtFirst ??= ({OUT_OF_ITS_BOX})();
    window.atFirst ??= document.querySelectorAll("#items > li").length;
  }});
"""


@pytest.fixture
def watch(parley: Stack, complaints: list[str]) -> Iterator[Watch]:
    """Nothing forbidden happens; complaints about blocked requests are expected."""
    watch = Watch(parley.url)
    yield watch
    watch.settle()
    assert watch.broken == []
    complaints.clear()


def in_its_box(page: Page) -> None:
    assert page.evaluate(OUT_OF_ITS_BOX) == [], page.url


def artifacts_of(ada: Person, session: str) -> list[dict[str, Any]]:
    path, artifacts = f"/artifacts?session={session}&limit=100", []
    cursor = ""
    while True:
        answer = ada.api("GET", path + cursor)
        artifacts += answer["items"]
        if not answer.get("nextCursor"):
            return artifacts
        cursor = f"&cursor={answer['nextCursor']}"


def test_a_conversation_its_files_tasks_forks_and_readers(
    open_browser: OpenBrowser, ada: Person, watch: Watch, parley: Stack
) -> None:
    assert len(PAYLOADS) > 100
    session, _ = ada.begin("hostile", f"say {PAYLOADS[0]}")
    for said in PAYLOADS[1:]:
        ada.say(session, f"say {said}")
    address = f"/sessions/{session}"
    page = watch.over(open_browser())
    page.goto(address)
    expect(page.locator("#items .from-agent").first).to_be_visible()
    for _ in range(60):
        for details in page.locator("#items .work details:not([open]) > summary").all()[:3]:
            details.click()
        in_its_box(page)
        if not page.locator("#earlier:visible").count():
            break
        page.evaluate("document.getElementById('earlier').click()")  # a pointer may not reach it in time
        expect(page.locator("#earlier:disabled")).to_have_count(0)
    else:
        pytest.fail("its beginning was not reached")

    # Every kind of file, in the panel and alone
    artifacts = artifacts_of(ada, session)
    assert len(artifacts) >= 5 * len(PAYLOADS)
    addresses = [f"{address}/artifacts/{one['taskId']}/{one['artifactId']}/0" for one in artifacts]
    page.goto(address)
    expect(page.locator("#artifacts .artifact").first).to_be_attached()
    assert page.evaluate(LOOK_AT_ALL, [f"{one}/preview" for one in addresses[::7]]) == []
    page.evaluate(OPEN_ALL, "#artifacts details")
    for number in range(10):
        page.locator("#artifacts .artifact-open").nth(number).click()
        expect(page.locator("#preview .signature")).to_be_visible()
        for way in page.locator("#preview .preview-ways button").all():
            way.click()
            expect(way).to_have_attribute("aria-pressed", "true")
            in_its_box(page)
    for one in addresses[::29]:
        for ending in ("", "?look"):
            headers = page.request.get(one + ending).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in headers["content-security-policy"].split("; ")
            assert ending or headers["content-disposition"].startswith("attachment")
        if headers["content-disposition"].startswith("inline"):
            page.goto(one + "?look")
    answer = page.request.get(f"{address}/artifacts.zip?all", timeout=120_000)
    names = zipfile.ZipFile(io.BytesIO(answer.body())).namelist()
    assert len({name.casefold() for name in names}) == len(names) >= 5 * len(PAYLOADS)
    assert [name for name in names if not name.isprintable() or set(name) & set('/\\<>:"|?*')] == []

    # Tasks, the player, the tree of forks, and search
    tasks = sorted({one["taskId"] for one in artifacts})
    for one in tasks[::40]:
        page.goto(f"/tasks/{one}")
        page.evaluate(OPEN_ALL, "main details")
        expect(page.locator("main .payload:empty")).to_have_count(0)
        in_its_box(page)
    endings = ("/events?q=script", "/timeline", "/documents/events?shown", "/documents/task?shown")
    assert page.evaluate(LOOK_AT_ALL, [f"/tasks/{one}{ending}" for one in tasks[::12] for ending in endings]) == []
    failed, _ = ada.begin("hostile", f"fail {PAYLOADS[0]}")
    for title in [said[:100].strip() for said in PAYLOADS if said.isprintable()][::20]:
        fork = ada.api("POST", f"/sessions/{failed}/fork")["session"]["id"]
        ada.api("PATCH", f"/sessions/{fork}", title=title)
    page.goto(f"/sessions/{failed}/tree")
    in_its_box(page)
    page.goto(f"/sessions/{failed}")
    of_session(page, "Branches", "link")
    expect(page.get_by_role("dialog", name="Branches").locator("a.tree-line").nth(1)).to_be_visible()
    in_its_box(page)
    last = ada.session(session)["session"]["revision"]
    for place in range(last, 0, -last // 3):
        page.goto(f"{address}/replay?at={place}")
        expect(page.locator("#place-index")).to_contain_text(f"Event {place} of")
        in_its_box(page)
    for words in ("script", "elsewhere", "javascript"):
        page.get_by_role("link", name="Parley").first.click()
        page.wait_for_url("**/")
        page.get_by_role("button", name="Search").first.click()
        page.keyboard.type(words)
        expect(page.locator("[aria-label='Messages and files'] [role=option]").first).to_be_visible()
        in_its_box(page)
        page.keyboard.press("Escape")

    # A reader by link, and a reload from the browser's cache
    link = ada.api("POST", f"/sessions/{session}/shares", withArtifacts=True, withBranches=True)["url"]
    stranger = watch.over(open_browser(storage_state=None))
    stranger.goto(link)
    assert stranger.locator(".said").count() > len(PAYLOADS)
    in_its_box(stranger)
    file = str(stranger.locator(".made a[href*='/files/']").first.get_attribute("href"))
    assert stranger.request.get(file).headers["content-disposition"].startswith("attachment")
    stranger.goto(address)
    assert stranger.url.startswith(f"{parley.url}/sign-in")
    again = watch.over(open_browser(service_workers="allow"))
    again.goto(address)
    expect(again.locator("#items .from-agent").first).to_be_visible()
    until(again, KEPT, [address, "<html"])
    again.goto("/agents")
    until(again, KEPT, [address, "inert><li"])
    again.add_init_script(BEFORE_ITS_SCRIPT)
    again.goto(address)
    expect(again.locator("#items:not([inert]) .from-agent").first).to_be_visible()
    assert again.evaluate("window.atFirst") > 10
    in_its_box(again)
    assert again.evaluate("window.outAtFirst") == []


def test_questions_lists_cards_answers_in_the_console_and_plans(
    open_browser: OpenBrowser, ada: Person, operator: Person, watch: Watch, parley: Stack
) -> None:
    page = watch.over(open_browser())
    for begin in range(0, len(PAYLOADS), MOST_FIELDS):
        asking, _ = ada.begin("hostile", f"ask {begin}")
        page.goto(f"/sessions/{asking}")
        expect(page.locator("form.question")).to_be_visible()
        assert page.locator("form.question .field, form.question fieldset").count() > 1
        in_its_box(page)
    for said in PAYLOADS[::8]:
        failed, _ = ada.begin("hostile", f"fail {said}")
    call = f"from tests.browser import hostile_world; hostile_world.register({ada.email!r})"
    parley.manage("shell", "-v0", "-c", call)
    lists = ("/", "/inbox", "/agents?q=hostile", "/agents?kind=remote&q=script", "/agents?tag=%3Cscript%3E", "/plans")
    for address in (*lists, "/agents/hostile", f"/sessions/{failed}"):
        page.goto(address)
        expect(page.locator("h1")).to_be_visible()
        in_its_box(page)
    page.goto("/agents?kind=remote")
    found = page.locator(".agent-card-name a[href^='/agents/hostile-']")
    agents = [link.get_attribute("href") for link in found.all()]
    assert len(agents) >= 8
    for agent in agents[::2]:
        for ending in ("?example=0", "/try"):
            page.goto(f"{agent}{ending}")
            expect(page.locator("h1")).to_be_visible()
            in_its_box(page)
    page.goto("/")
    page.locator("#agent-picker").click()
    expect(page.locator(".palette [role=option]").nth(len(agents))).to_be_visible()
    in_its_box(page)

    page.goto("/agents/hostile/try")
    for count, said in enumerate(PAYLOADS[::30], 1):
        page.get_by_label("Message").fill(f"say {said}")
        page.get_by_role("button", name="Send", exact=True).click()
        expect(page.locator(".exchange")).to_have_count(count)
        expect(page.locator(".exchange-state").first).to_contain_text(" in ")
        page.evaluate(OPEN_ALL, ".exchange details")
        in_its_box(page)

    page.goto("/plans")
    plans = page.locator("main a[href^='/plans/hostile-plan-']")
    slugs = sorted({str(link.get_attribute("href")).removeprefix("/plans/") for link in plans.all()})
    assert len(slugs) >= 3
    console = watch.over(open_browser(storage_state=operator.state))
    for slug in slugs:
        _, run = ada.begin(slug, PAYLOADS[::20][int(slug.rpartition("-")[2])])
        for address in (f"/plans/{slug}", f"/plans/{slug}/edit", f"/plans/runs/{run}"):
            page.goto(address)
            expect(page.locator("h1")).to_be_visible()
            page.evaluate(OPEN_ALL, "details")
            page.wait_for_load_state("networkidle")
            in_its_box(page)
        expect(page.locator(".plan-questions form").first).to_be_visible()
        console.goto(f"/admin/plans/planrun/{run}/change/")
        expect(console.locator(".reasons")).to_be_visible()
