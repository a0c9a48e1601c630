"""The main pages with content, for axe and screenshots."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from playwright.sync_api import Page, expect

from apps.web.settings.sections import SECTIONS
from tests.browser.people import Person
from tests.transfers import samples

CSV = "site,depth,temperature\n" + "\n".join(f"{'ABC'[n % 3]},{n * 1.5},{20 - n / 10}" for n in range(90))
RIGHT_TO_LEFT = "مرحبا، أرسل لي تقريراً عن درجات الحرارة من فضلك"
WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3
TRIP = {"city": "Lisbon", "departure": "Oslo", "arrival": "2027-05-03", "nights": 3}


@dataclass(frozen=True)
class View:
    """A page, and the actions before it is checked."""

    name: str
    address: str
    do: Callable[[Page], object] = lambda page: None


def drawn(selector: str) -> Callable[[Page], None]:
    return lambda page: expect(page.locator(selector).locator("visible=true").first).to_be_visible()


def pressed(button: str, shown: str) -> Callable[[Page], None]:
    def do(page: Page) -> None:
        page.locator(button).locator("visible=true").first.click()
        drawn(shown)(page)

    return do


def keys(pressed: str, shown: str) -> Callable[[Page], None]:
    def do(page: Page) -> None:
        page.keyboard.press(pressed)
        drawn(shown)(page)

    return do


def menu_entry(act: str) -> Callable[[Page], None]:
    def do(page: Page) -> None:
        pressed("#session-more", "#session-menu")(page)
        pressed(f"#session-menu [data-act={act}]", "dialog.dialog")(page)

    return do


def typed(text: str, shown: str) -> Callable[[Page], None]:
    def do(page: Page) -> None:
        page.locator("#words").press_sequentially(text)
        drawn(shown)(page)

    return do


def chosen_prompt(page: Page) -> None:
    typed("/su", "#prompts [role=option]")(page)
    keys("Tab", "dialog form.fill")(page)


def opened_files(page: Page) -> None:
    drawn(".from-agent .chip")(page)
    if page.locator("#to-panel").is_visible():
        page.locator("#to-panel").click()
    pressed("#artifacts button", "#preview h3")(page)
    expect(page.locator("#preview .signature")).to_be_visible()


def checked_import(page: Page) -> None:
    chat = json.dumps([samples.chatgpt()]).encode()
    page.locator("#import-file input[type=file]").set_input_files(
        {"name": "conversations.json", "mimeType": "application/json", "buffer": chat}
    )
    page.get_by_role("button", name="Check the file").click()
    drawn("#main :text('Not taken over')")(page)


def try_plan(person: Person) -> str:
    """The slug of a plan of the person's, with a version that a part of new sessions gets."""
    slug = "weekly"
    plan = {"name": "Weekly report", "description": "Reports.", "steps": {"one": {"agent": "echo", "message": "x"}}}
    person.api("POST", "/plans", slug=slug, definition=plan)
    newer = plan | {"description": "Reports, and what changed."}
    person.api("PUT", f"/plans/{slug}", definition=newer, asCandidate=True, note="Say what changed")
    person.api("PUT", f"/agents/{slug}/rollout", version=2, percent=20)
    return slug


def views(person: Person) -> Iterator[View]:
    """The pages, after the messages that fill them."""
    for words in (RIGHT_TO_LEFT, WORD):
        person.begin("echo", words)
    person.begin("failing", "Measure the sample")
    sheet = {"text": CSV, "filename": "depths.csv", "mediaType": "text/csv"}
    report, task = person.begin("report", "make a report as PDF", parts=[sheet])
    story, _ = person.begin("storyteller", "Tell me a story")
    person.say(story, "And another one")
    fork = person.api("POST", f"/sessions/{story}/fork", retry=True)["session"]["id"]
    shared = {"expiresInDays": 7, "withArtifacts": True, "withBranches": True}
    link = person.api("POST", f"/sessions/{report}/shares", **shared)["url"]
    question, _ = person.begin("asking", "A trip to the sea")
    _, trip = person.begin("trip", "A trip", parts=[{"data": TRIP}])
    _, research = person.begin("research", "lung fibrosis")
    [made] = person.api("GET", f"/artifacts?session={report}")["items"][:1]
    approval, _ = person.begin("clerk", "Write to Bob")
    text = "Summarize {{topic}} in {{tone: plain | formal = plain}} words. {{notes: long text}}"
    prompt = person.api("POST", "/prompts", name="Summary", text=text, tags="work", description="Of a topic")["id"]
    tried = try_plan(person)
    project = person.api("POST", "/projects", name=WORD[:100], instructions=f"{RIGHT_TO_LEFT}\n{WORD}", agent="echo")
    person.api("POST", f"/projects/{project['id']}/files", filename=f"{WORD[:90]}.txt", text="Prices")
    person.api("PATCH", f"/sessions/{report}", project=project["id"])
    session = f"/sessions/{report}"
    yield View("home", "/", drawn("#sessions [data-key]"))
    yield View("sessions", "/?show=all", drawn("#sessions [data-key]"))
    yield View("row-menu", "/", pressed("#sessions [data-more]", "#row-menu"))
    yield View("find", "/", keys("Control+k", "[role=option]"))
    yield View("choose-agent", "/", pressed("#agent-picker", "[role=option]"))
    yield View("help", "/", keys("Control+/", "dialog.help"))
    yield View("agents", "/agents")
    yield View("agent", "/agents/report")
    yield View("try", "/agents/echo/try")
    yield View("add-agent", "/agents/remote/add")
    yield View("new-agent", "/agents/new")
    yield View("tasks", "/tasks")
    yield View("inbox", "/inbox", drawn(".inbox-item"))
    for section in SECTIONS:
        yield View(f"settings-{section}", f"/settings/{section}")
    yield View("import", "/settings/data", checked_import)
    yield View("confirm", "/settings/security/passkeys/add", drawn("#id_password"))
    yield View("session", session, drawn(".from-agent .prose"))
    yield View("story", f"/sessions/{story}", pressed(".work summary", ".steps"))
    yield View("fork", f"/sessions/{fork}", drawn(".branches"))
    yield View("branch-menu", f"/sessions/{fork}", pressed(".branch-count", ".branch-menu"))
    yield View("approval", f"/sessions/{approval}", pressed("form.approval summary", "form.approval textarea"))
    yield View("question", f"/sessions/{question}", drawn("form.question"))
    yield View("files", session, opened_files)
    yield View("actions", session, pressed(".from-agent [data-act=more]", ".action-menu"))
    yield View("session-menu", session, pressed("#session-more", "#session-menu"))
    yield View("switch", session, pressed("#switch", "#switch-to"))
    yield View("share", session, menu_entry("share"))
    yield View("rerun", f"/sessions/{story}/rerun", drawn("#rerun-agent"))
    yield View("tree", f"/sessions/{story}/tree")
    yield View("task", f"/tasks/{task}", drawn("#events tr"))
    yield View("led-to-it", f"{session}/artifacts/{made['taskId']}/{made['artifactId']}/provenance", drawn("h1"))
    yield View("replay", f"{session}/replay?at=5", drawn("#items > li"))
    yield View("shared", link[link.index("/shared/") :])
    yield View("plans", "/plans")
    yield View("plan", "/plans/research")
    yield View("versions", f"/agents/{tried}/versions", drawn(".versions-table"))
    yield View("new-plan", "/plans/new")
    opened = pressed("#plan-step-draft, #list-step-draft", "#step-form")
    yield View("plan-editor", "/plans/new?start=review", opened)
    yield View("plan-run", f"/plans/runs/{trip}", drawn("#standing[data-state=completed]"))
    yield View("plan-run-asking", f"/plans/runs/{research}", drawn("form.question"))
    yield View("prompts", "/prompts")
    yield View("prompt", f"/prompts/{prompt}", drawn("#start"))
    yield View("prompt-edit", f"/prompts/{prompt}/edit")
    yield View("prompts-import", "/prompts/import")
    yield View("prompt-options", "/", typed("/su", "#prompts [role=option]"))
    yield View("prompt-fill", session, chosen_prompt)
    yield View("projects", "/projects")
    yield View("new-project", "/projects/new")
    yield View("project", f"/projects/{project['id']}", drawn("#project-sessions"))
    yield View("move-to-project", f"{session}/project")
    collection = person.api("POST", "/collections", name=WORD[:100], description=RIGHT_TO_LEFT)["id"]
    person.api(
        "POST", f"/collections/{collection}/sources", filename=f"{WORD[:90]}.txt", text=f"{RIGHT_TO_LEFT}\n{WORD}"
    )
    person.api("PUT", f"/collections/{collection}/agents/echo")
    yield View("knowledge", "/knowledge")
    yield View("new-collection", f"/knowledge/new?project={project['id']}")
    yield View("collection", f"/knowledge/{collection}", drawn(".sources :text('1 passage')"))
    found = f"/knowledge/{collection}/search?q={WORD}"
    yield View("found", found, drawn(".passages"))
    yield View("passage", found, pressed(".passages a", ".passage-cited"))
    yield View("agent-knowledge", "/agents/echo", drawn(".agent-knowledge"))
    rivals = [{"agent": "report"}, {"agent": "echo"}]
    compared = person.api("POST", "/comparisons", text="make a report", answerers=rivals)["id"]
    yield View("comparisons", "/comparisons")
    yield View("compared", f"/comparisons/{compared}", drawn(".comparing-side iframe"))
    yield View("answerers", session, pressed("[aria-label='Compare answers']", "dialog select"))
    yield View("nowhere", "/nowhere")
