"""The contents of a new installation: two people, agents to try, and plans over them.

`DATA_DIR/first-login.txt` has the passwords and the API key that a new installation created.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from agentkit import HandlerError, load_handler

DEMO = "demo@parley.local"
ADMIN = "admin@parley.local"


@dataclass(frozen=True)
class ShowcaseAgent:
    """An agent of the showcase. Its policies apply at the first registration; afterwards operators choose them."""

    slug: str
    handler: str
    category: str = ""
    access: str = "authenticated"
    listed: bool = True
    position: int | None = None

    @property
    def policies(self) -> list[str]:
        """As options of `register_agent`."""
        position = [f"--position={self.position}"] if self.position else []
        listed = "--listed" if self.listed else "--no-listed"
        return [f"--access={self.access}", f"--category={self.category}", listed, *position]


def worker(slug: str, handler: str) -> ShowcaseAgent:
    """An agent that only plans and other agents use."""
    return ShowcaseAgent(slug, handler, listed=False)


GENERAL, WRITING, RESEARCH, TRAVEL, DEMOS = "General", "Writing and building", "Research", "Travel", "Demos"

AGENTS = (
    ShowcaseAgent("hello", "examples.agents.hello:Hello", DEMOS, "public"),
    ShowcaseAgent("echo", "examples.agents.echo:Echo", DEMOS),
    ShowcaseAgent("countdown", "examples.agents.countdown:Countdown", DEMOS),
    ShowcaseAgent("report", "examples.report.agent:Report", RESEARCH),
    ShowcaseAgent("librarian", "examples.agents.librarian:Librarian", RESEARCH),
    ShowcaseAgent("travel", "examples.agents.travel:Travel", TRAVEL),
    ShowcaseAgent("writer", "examples.agents.writer:Writer", WRITING),
    ShowcaseAgent("reviewer", "examples.agents.reviewer:Reviewer", WRITING),
    ShowcaseAgent("builder", "examples.agents.builder:Builder", WRITING),
    worker("builder-worker", "examples.agents.builder:BuilderWorker"),
    ShowcaseAgent("smart-router", "examples.agents.smart_router:SmartRouter", DEMOS),
    worker("research-literature", "examples.research.agents:Literature"),
    worker("research-hypotheses", "examples.research.agents:HypothesisMaker"),
    worker("research-assays", "examples.research.agents:AssayDesign"),
    worker("research-molecules", "examples.research.agents:Molecules"),
    worker("research-analysis", "examples.research.agents:DataAnalysis"),
    worker("research-candidates", "examples.research.agents:ClinicalCandidates"),
    worker("research-report", "examples.research.agents:ResearchReport"),
    worker("trip-weather", "examples.agents.trip:TripWeather"),
    worker("trip-flights", "examples.agents.trip:TripFlights"),
    worker("trip-hotels", "examples.agents.trip:TripHotels"),
    worker("trip-itinerary", "examples.agents.trip:TripItinerary"),
)


PLANS = {"research": "research.yaml", "trip": "travel.yaml"}
"""The plans by their slugs: files in `plans`."""

PLAN_CATEGORIES = {"research": RESEARCH, "trip": TRAVEL}
SAMPLES = Path(__file__).parent / "research" / "data"
"""The sample files that the plans name."""


@dataclass(frozen=True)
class Loaded:
    """The logins, and a sentence for each agent or plan that could not be registered."""

    logins: FirstLogin
    problems: tuple[str, ...]


def load_showcase() -> Loaded:
    """Creates what is missing and keeps people's changes. Safe at every start."""
    logins = _make_people()
    problems = [f"Examples need more packages ({missing}). {INSTALL}"] if (missing := _missing_packages()) else []
    problems += [problem for shown in (*GENERAL_AGENTS, *AGENTS) if (problem := _register(shown))]
    problems += [problem for slug in PLANS if (problem := _register_plan(slug))]
    return Loaded(logins, tuple(problems))


PACKAGES = ("dateparser", "fpdf", "matplotlib")
"""What the extra `showcase` of pyproject.toml installs."""

INSTALL = "To have all examples, install parley-platform[showcase]."


def _missing_packages() -> str:
    return ", ".join(name for name in PACKAGES if find_spec(name) is None)


def plan_file(slug: str) -> Path:
    return Path(__file__).parent / "plans" / PLANS[slug]


GENERAL_AGENTS = (
    ShowcaseAgent(settings.ROUTER_AGENT, "apps.routing.router:Router", GENERAL),
    ShowcaseAgent(settings.DEFAULT_AGENT, "apps.routing.assistant:Assistant", GENERAL, position=1),
)


def _run(command: str, *arguments: str) -> str:
    output = StringIO()
    call_command(command, *arguments, stdout=output)
    return output.getvalue().strip()


def _make_people() -> FirstLogin:
    """Only while there is nobody else: whoever changed the address or deleted the account must not come back."""
    kept = FirstLogin.read()
    people: Any = get_user_model().objects
    if people.exclude(email__in=(DEMO, ADMIN)).exists():
        return kept
    for email, name, *options in ((DEMO, "Demo"), (ADMIN, "Admin", "--operator")):
        if not people.filter(email=email).exists():
            kept.passwords[email] = _run("create_user", email, *options)
            people.filter(email=email).update(name=name)
            kept.api_keys.pop(email, None)
            kept.write()
    demo = people.get(email=DEMO)
    if DEMO not in kept.api_keys and not demo.api_keys.exists():
        kept.api_keys[DEMO] = _run("create_api_key", DEMO, "--name=first key")
        kept.write()
    return kept


def _found(slug: str) -> Any:
    agents: Any = apps.get_model("agents", "Agent").objects
    return agents.filter(slug=slug).select_related("current_version").first()


def _register(shown: ShowcaseAgent) -> str:
    """Registers or refreshes an agent unless a person owns the slug. Returns the problem, or ""."""
    found = _found(shown.slug)
    if found and _is_somebodys(found.handler, shown.handler):
        return ""
    policies = [] if found else shown.policies
    try:
        _run("register_agent", shown.slug, f"--handler={shown.handler}", *policies)
    except CommandError as error:
        return f"The agent {shown.slug!r} is left out. {error}"
    return ""


def _is_somebodys(handler: str, shown: str) -> bool:
    """Did a person choose the handler? Those that a version before had do not count."""
    if handler == shown:
        return False
    try:
        load_handler(handler)
    except HandlerError:
        return not handler.startswith(("examples.", "apps."))
    return True


def _register_plan(slug: str) -> str:
    """Registers or refreshes a plan unless a person edited it or owns the slug. Returns the problem, or ""."""
    found = _found(slug)
    if found and (found.kind != "plan" or (found.current_version and found.current_version.author_id)):
        return ""
    policies = [] if found else ["--access=authenticated"]
    try:
        _run("register_plan", slug, str(plan_file(slug)), f"--samples={SAMPLES}", *policies)
    except CommandError as error:
        return f"The plan {slug!r} is left out. {' '.join(str(error).split())}"
    if not found:
        apps.get_model("agents", "Agent").objects.filter(slug=slug).update(category=PLAN_CATEGORIES[slug])
    return ""


HEADING = """\
What this installation made for itself at its first start. Whoever can read this file can sign in:
change the passwords, then delete it. It is not written again as long as the users exist.
"""
LOGIN_LINE = re.compile(r"^(password|API key) of (\S+): (\S+)$", re.MULTILINE)


@dataclass
class FirstLogin:
    """Secrets by e-mail address, as created; a person may have changed a password since."""

    passwords: dict[str, str] = field(default_factory=dict)
    api_keys: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def path() -> Path:
        return Path(settings.DATA_DIR) / "first-login.txt"

    @classmethod
    def read(cls) -> FirstLogin:
        """Empty if there is no file."""
        kept = cls()
        try:
            text = cls.path().read_text()
        except FileNotFoundError:
            return kept
        for kind, email, secret in LOGIN_LINE.findall(text):
            (kept.passwords if kind == "password" else kept.api_keys)[email] = secret
        return kept

    def write(self) -> None:
        lines = [f"password of {email}: {secret}" for email, secret in self.passwords.items()]
        lines += [f"API key of {email}: {secret}" for email, secret in self.api_keys.items()]
        path = self.path()
        draft = path.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write("\n".join([HEADING, *lines, ""]))
        draft.replace(path)
