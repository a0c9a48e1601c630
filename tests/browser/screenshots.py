"""Pictures of the main pages, at every size and in both themes, to look at: `make screenshots`.

A Parley of its own is begun, people and agents say something in it, and each page is taken as it then is.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import agents
from tests.chromium import CHROMIUM
from tests.stack import Stack, running

SIZES = {"wide": (1440, 900), "medium": (768, 1024), "phone": (390, 844)}
THEMES = ("light", "dark")
CSV = "site,depth,temperature\n" + "\n".join(f"{'ABC'[n % 3]},{n * 1.5},{20 - n / 10}" for n in range(90))
RIGHT_TO_LEFT = "مرحبا، أرسل لي تقريراً عن درجات الحرارة من فضلك"
WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3


@dataclass(frozen=True)
class Shot:
    """A page to take: `do` brings it to where it is worth looking at."""

    name: str
    address: str
    do: Callable[[Page], object] = lambda page: None


class Cast:
    """The demo user, by the client API."""

    def __init__(self, parley: Stack) -> None:
        headers = {"Authorization": f"Bearer {parley.demo_key}"}
        self.http = httpx.Client(base_url=f"{parley.url}/api/v1", headers=headers, timeout=120)

    def begin(self, agent: str, text: str, **more: object) -> tuple[str, str]:
        """A session in which the agent has answered, or asked: its id, and that of its task."""
        key = {"Idempotency-Key": str(uuid.uuid4())}
        body = {"agent": agent, "message": {"text": text, **more}, "wait": True}
        said = self.http.post("/sessions", json=body, headers=key).raise_for_status().json()
        return said["session"]["id"], (said.get("task") or {}).get("id", "")

    def say(self, session: str, text: str) -> None:
        key = {"Idempotency-Key": str(uuid.uuid4())}
        body = {"text": text, "wait": True}
        self.http.post(f"/sessions/{session}/messages", json=body, headers=key).raise_for_status()


def shots(cast: Cast) -> list[Shot]:
    """What is said first, and then the pages that show it."""
    sheet = {"text": CSV, "filename": "depths.csv", "mediaType": "text/csv"}
    cast.begin("echo", RIGHT_TO_LEFT)
    cast.begin("echo", WORD)
    cast.begin("failing", "Measure the sample")
    story, told = cast.begin("storyteller", "Tell me a story")
    cast.say(story, "And another one")
    question, _ = cast.begin("asking", "A trip to the sea")
    report, made = cast.begin("report", "make a report as PDF", parts=[sheet])
    if cast.http.get(f"/tasks/{made}").json()["state"] == "input-required":
        answer = {"data": {"format": "pdf"}}
        cast.http.post(f"/tasks/{made}/answer", json={**answer, "wait": True}, headers={"Idempotency-Key": "pdf"})
    inputs = {"city": "Lisbon", "departure": "Oslo", "arrival": "2027-05-03", "nights": 3}
    _, trip = cast.begin("trip", "A trip", parts=[{"data": inputs}])
    _, research = cast.begin("research", "lung fibrosis")
    fork = cast.http.post(f"/sessions/{story}/fork", json={"retry": True}, headers={"Idempotency-Key": "fork"})
    forked = fork.json()["session"]["id"] if fork.is_success else story
    return [
        Shot("home", "/"),
        Shot("agents", "/agents"),
        Shot("agent", "/agents/report"),
        Shot("try", "/agents/echo/try"),
        Shot("session", f"/sessions/{report}", lambda page: page.wait_for_selector("#items .from-agent")),
        Shot("story", f"/sessions/{story}", lambda page: page.wait_for_selector("#items .from-agent")),
        Shot("fork", f"/sessions/{forked}", lambda page: page.wait_for_selector("#items .from-agent")),
        Shot("question", f"/sessions/{question}", lambda page: page.wait_for_selector("form.question")),
        Shot("inbox", "/inbox"),
        Shot("task", f"/tasks/{made}"),
        Shot("task-of-story", f"/tasks/{told}"),
        Shot("replay", f"/sessions/{report}/replay"),
        Shot("find", "/", lambda page: page.keyboard.press("Control+k")),
        Shot("help", "/", lambda page: page.keyboard.press("Control+/")),
        Shot("add-agent", "/agents/remote/add"),
        Shot("credentials", "/credentials/"),
        Shot("plans", "/plans"),
        Shot("plan", "/plans/research"),
        Shot("plan-run", f"/plans/runs/{trip}", lambda page: page.wait_for_selector("#standing[data-state=completed]")),
        Shot("plan-run-asking", f"/plans/runs/{research}", lambda page: page.wait_for_selector("form.question")),
        Shot("new-plan", "/plans/new"),
        Shot("nowhere", "/nowhere"),
    ]


@contextmanager
def signed_in(browser: Browser, parley: Stack, size: str, theme: str) -> Iterator[Page]:
    width, height = SIZES[size]
    viewport = {"width": width, "height": height}
    context = browser.new_context(base_url=parley.url, viewport=viewport, color_scheme=theme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto("/sign-in")
    page.get_by_label("E-mail").fill(parley.demo_email)
    page.get_by_label("Password").fill(parley.demo_password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{parley.url}/")
    yield page
    context.close()


def take(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with running() as parley, sync_playwright() as playwright:
        place = agents.__name__
        for name in ("Storyteller", "Failing", "Asking"):
            parley.manage("register_agent", name.lower(), "--handler", f"{place}:{name}")
        wanted = shots(Cast(parley))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for size in SIZES:
            for theme in THEMES:
                with signed_in(browser, parley, size, theme) as page:
                    for shot in wanted:
                        page.goto(shot.address)
                        shot.do(page)
                        page.wait_for_timeout(400)  # what appears has appeared
                        page.screenshot(path=folder / f"{shot.name}-{size}-{theme}.png")
        browser.close()
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")


if __name__ == "__main__":
    take(Path(sys.argv[1] if len(sys.argv) > 1 else "var/screenshots"))
