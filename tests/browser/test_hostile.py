"""An agent's hostile text runs nothing, loads nothing, and stays in its box."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.doing import until
from tests.browser.hostile import MOST_FIELDS, PAYLOADS

REFUSED = ("csp", "origin")  # why the browser blocked a request: by our policies or its own
OWN = ("data", "blob", "chrome", "chrome-extension")  # the last two belong to the PDF viewer
OUT_OF_ITS_BOX = """() => {
  const runs = ({name, value}) => /^(hx-)?on/.test(name)
    || /^(javascript|vbscript|data:text)/i.test(value.replace(/[\\s\\x00-\\x1f]/g, ""));
  const isDrawing = (frame) => frame.src.endsWith("/diagrams") && frame.getAttribute("sandbox") === "allow-scripts";
  const isOpen = (frame) => !frame.src.includes("look") && frame.getAttribute("sandbox") !== "" && !isDrawing(frame);
  const strange = "script, style, link, meta, form, input:not([type=checkbox]:disabled), iframe, object, embed, svg,"
    + "img:not([src^='/sessions/'], [src^='data:image/'])";
  return [...document.querySelectorAll("*")]
    .filter((element) => [...element.attributes].some(runs)
      || (element.matches("iframe") && isOpen(element))
      || (element.closest(".prose") && element.matches(strange)))
    .map((element) => element.outerHTML.slice(0, 300));
}"""

OPEN_ALL = "(which) => { for (const one of document.querySelectorAll(which)) one.open = true; }"

LOOK_AT_ALL = """async (addresses) => {
  const box = document.body.appendChild(document.createElement("div"));
  const bad = [];
  const look = async (address) => {
    const answer = await fetch(address);
    if (!answer.ok) bad.push(`${address}: ${answer.status}`);
    return answer.text();
  };
  while (addresses.length) {
    box.innerHTML = (await Promise.all(addresses.splice(0, 10).map(look))).join("");
    await new Promise((done) => requestAnimationFrame(done));
  }
  box.remove();
  return bad;
}"""


@dataclass
class Watch:
    home: str
    broken: list[str] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    def over(self, context):
        context.on("request", lambda request: self._asked(request.url))
        context.on("requestfailed", self._failed)
        page = context.new_page()
        page.on("dialog", lambda dialog: (self.broken.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("websocket", lambda line: self._asked(line.url.replace("ws:", "http:")))
        page.on("pageerror", lambda error: self.broken.append(str(error)))
        page.on("download", lambda download: self.broken.append(f"downloads {download.url}"))
        self.pages.append(page)
        return page

    def settle(self):
        """Wait until each request was sent or blocked, and look for unexpected pages."""
        for page in self.pages:
            page.wait_for_timeout(300)
            self.broken += [f"opened {one.url}" for one in page.context.pages if one not in self.pages]

    def _asked(self, url):
        parts = urlsplit(url)
        if parts.scheme not in OWN and parts.netloc != urlsplit(self.home).netloc:
            self.broken.append(f"asked for {url}")

    def _failed(self, request):
        if request.failure in REFUSED and (told := f"asked for {request.url}") in self.broken:
            self.broken.remove(told)


KEPT = """async ([address, words]) => navigator.serviceWorker.controller
  && (await (await caches.match(address, { ignoreVary: true }))?.text())?.includes(words)"""
BEFORE_ITS_SCRIPT = f"""
  document.addEventListener("readystatechange", () => {{
    window.outAtFirst ??= ({OUT_OF_ITS_BOX})();
    window.atFirst ??= document.querySelectorAll("#items > li").length;
  }});
"""


@pytest.fixture
def watch(parley, complaints):
    """Nothing forbidden happens; complaints about blocked requests are expected."""
    watch = Watch(parley.url)
    yield watch
    watch.settle()
    assert watch.broken == []
    complaints.clear()


def in_its_box(page):
    assert page.evaluate(OUT_OF_ITS_BOX) == [], page.url


def test_hostile_conversation_and_files_stay_in_their_box(open_browser, ada, watch, parley):
    assert len(PAYLOADS) > 60
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
    artifacts, cursor = [], ""
    while cursor is not None:
        answer = ada.api("GET", f"/artifacts?session={session}&limit=100{cursor}")
        artifacts += answer["items"]
        cursor = f"&cursor={answer['nextCursor']}" if answer.get("nextCursor") else None
    assert len(artifacts) >= 5 * len(PAYLOADS)
    addresses = [f"{address}/artifacts/{one['taskId']}/{one['artifactId']}/0" for one in artifacts]
    assert page.evaluate(LOOK_AT_ALL, [f"{one}/preview" for one in addresses[::7]]) == []
    page.evaluate(OPEN_ALL, "#artifacts details")
    for number in range(5):
        page.locator("#artifacts .artifact-open").nth(number).click()
        expect(page.locator("#preview .signature")).to_be_visible()
        for way in page.locator("#preview .preview-ways button").all():
            expect(page.locator("#preview .htmx-added")).to_have_count(0)  # its buttons work now
            way.click()
            expect(way).to_have_attribute("aria-pressed", "true")
            in_its_box(page)
    for one in addresses[::59]:
        headers = page.request.get(f"{one}?look").headers
        assert "sandbox" in headers["content-security-policy"].split("; ")
        if headers["content-disposition"].startswith("inline"):
            page.goto(f"{one}?look")

    # Tasks, the player, the tree of forks, and search
    tasks = sorted({one["taskId"] for one in artifacts})
    for one in tasks[::60]:
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
    last = ada.session(session)["session"]["revision"]
    page.goto(f"{address}/replay?at={last}")
    expect(page.locator("#place-index")).to_contain_text(f"Event {last} of")
    in_its_box(page)
    page.goto("/")
    for words in ("script", "javascript"):
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


def test_hostile_questions_and_console_stay_boxed(open_browser, ada, watch):
    page = watch.over(open_browser())
    for begin in range(0, len(PAYLOADS), MOST_FIELDS):
        asking, _ = ada.begin("hostile", f"ask {begin}")
        page.goto(f"/sessions/{asking}")
        expect(page.locator("form.question")).to_be_visible()
        assert page.locator("form.question .field, form.question fieldset").count() > 1
        in_its_box(page)
    for said in PAYLOADS[::16]:
        failed, _ = ada.begin("hostile", f"fail {said}")
    for address in ("/", "/inbox", "/agents?tag=%3Cscript%3E", f"/sessions/{failed}"):
        page.goto(address)
        expect(page.locator("h1")).to_be_visible()
        in_its_box(page)

    page.goto("/agents/hostile/try")
    for count, said in enumerate(PAYLOADS[::30], 1):
        page.get_by_label("Message").fill(f"say {said}")
        page.get_by_role("button", name="Send", exact=True).click()
        expect(page.locator(".exchange")).to_have_count(count)
        expect(page.locator(".exchange-state").first).to_contain_text(" in ")
        page.evaluate(OPEN_ALL, ".exchange details")
        in_its_box(page)
