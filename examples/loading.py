"""What a new installation starts with: two people, agents to try, and plans over them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError

from agentkit import HandlerError
from apps.accounts.models import ApiKey, User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.features.routing.router import register_router
from apps.plans import plain_yaml
from apps.plans.definitions import PlanDefinition
from apps.plans.registration import register_plan
from examples.first_login import FirstLogin

DEMO = "demo@parley.local"
ADMIN = "admin@parley.local"


@dataclass(frozen=True)
class Shown:
    """An agent of the showcase, with the policies of its first registration; later ones are the operator's."""

    slug: str
    handler: str
    access: str = Agent.Access.AUTHENTICATED


AGENTS = (
    Shown("hello", "examples.agents.hello:Hello", Agent.Access.PUBLIC),
    Shown("echo", "examples.agents.echo:Echo"),
    Shown("countdown", "examples.agents.countdown:Countdown"),
    Shown("report", "examples.report.agent:Report"),
    Shown("travel", "examples.agents.travel.agent:Travel"),
    Shown("writer", "examples.agents.writer.agent:Writer"),
    Shown("reviewer", "examples.agents.reviewer.agent:Reviewer"),
    Shown("translator", "examples.agents.translator.agent:Translator"),
    Shown("builder", "examples.agents.builder.agent:Builder"),
    Shown("builder-worker", "examples.agents.builder.worker:BuilderWorker"),
    Shown("assistant", "examples.agents.assistant:Assistant"),
    Shown("smart-router", "examples.agents.smart_router:SmartRouter"),
    Shown("research-literature", "examples.research.agents.literature:Literature"),
    Shown("research-hypotheses", "examples.research.agents.hypotheses:Hypotheses"),
    Shown("research-assays", "examples.research.agents.assays:AssayDesign"),
    Shown("research-molecules", "examples.research.agents.molecules:Molecules"),
    Shown("research-analysis", "examples.research.agents.analysis:DataAnalysis"),
    Shown("research-candidates", "examples.research.agents.candidates:ClinicalCandidates"),
    Shown("research-report", "examples.research.agents.report:ResearchReport"),
    Shown("trip-weather", "examples.agents.trip.weather:TripWeather"),
    Shown("trip-flights", "examples.agents.trip.flights:TripFlights"),
    Shown("trip-hotels", "examples.agents.trip.hotels:TripHotels"),
    Shown("trip-itinerary", "examples.agents.trip.itinerary:TripItinerary"),
)


PLANS = {"research": "research.yaml", "trip": "travel.yaml"}
"""The plans by their slugs: files in `plans`."""


@dataclass(frozen=True)
class Loaded:
    """What is there now, and in `problems` a sentence for each agent or plan that could not be registered."""

    logins: FirstLogin
    problems: tuple[str, ...]


def load() -> Loaded:
    """Make what is missing; leave what people changed. Safe to call at every start."""
    logins = _people()
    register_router()
    problems = [problem for shown in AGENTS if (problem := _register(shown))]
    problems += [problem for slug in PLANS if (problem := _register_plan(slug))]
    return Loaded(logins, tuple(problems))


def plan(slug: str) -> PlanDefinition:
    """A plan of the showcase, as its file defines it."""
    file = Path(__file__).parent / "plans" / PLANS[slug]
    return PlanDefinition.read(plain_yaml.read(file.read_text(encoding="utf-8")))


def _people() -> FirstLogin:
    kept = FirstLogin.read()
    demo, demo_is_new = _person(kept, DEMO, name="Demo")
    _, admin_is_new = _person(kept, ADMIN, name="Admin", is_staff=True, is_superuser=True)
    key_is_new = demo_is_new or not demo.api_keys.exists()
    if key_is_new:
        kept.api_keys[DEMO] = ApiKey.issue(demo, "first key")[1]
    if demo_is_new or admin_is_new or key_is_new:
        kept.write()
    return kept


def _person(kept: FirstLogin, email: str, **fields: object) -> tuple[User, bool]:
    """The user, made with a random password where there is none; and whether that was so."""
    if user := User.objects.filter(email=email).first():
        return user, False
    kept.passwords[email] = secrets.token_urlsafe(12)
    return User.objects.create_user(email, kept.passwords[email], **fields), True


def _register(shown: Shown) -> str:
    """Register or refresh an agent; somebody's own agent of that name is left alone. Returns what went wrong."""
    found = Agent.objects.filter(slug=shown.slug).first()
    if found and found.handler != shown.handler:
        return ""
    policies: dict[str, Any] = {} if found else {"access": shown.access}
    try:
        register_hosted(shown.slug, shown.handler, **policies)
    except HandlerError as error:
        return f"The agent {shown.slug!r} is left out. {error}"
    return ""


def _register_plan(slug: str) -> str:
    """Register or refresh a plan, unless somebody edited it, or has an agent of that name. Returns what went wrong."""
    found = Agent.objects.filter(slug=slug).select_related("current_version").first()
    if found and (found.kind != Agent.Kind.PLAN or (found.current_version and found.current_version.author_id)):
        return ""
    policies: dict[str, Any] = {} if found else {"access": Agent.Access.AUTHENTICATED}
    try:
        register_plan(slug, plan(slug), **policies)
    except ValidationError as error:
        return f"The plan {slug!r} is left out. {' '.join(error.messages)}"
    return ""
