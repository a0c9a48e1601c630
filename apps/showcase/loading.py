"""What a new installation starts with: two people, and agents to try."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from agentkit import HandlerError
from apps.accounts.models import ApiKey, User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.runtime.router import register_router
from apps.showcase.first_login import FirstLogin

DEMO = "demo@parley.local"
ADMIN = "admin@parley.local"


@dataclass(frozen=True)
class Shown:
    """An agent of the showcase, with the policies of its first registration; later ones are the operator's."""

    slug: str
    handler: str
    access: str = Agent.Access.AUTHENTICATED


AGENTS = (
    Shown("hello", "apps.showcase.agents.hello:Hello", Agent.Access.PUBLIC),
    Shown("echo", "apps.showcase.agents.echo:Echo"),
    Shown("countdown", "apps.showcase.agents.countdown:Countdown"),
    Shown("report", "apps.showcase.report.agent:Report"),
    Shown("travel", "apps.showcase.agents.travel.agent:Travel"),
    Shown("writer", "apps.showcase.agents.writer.agent:Writer"),
    Shown("reviewer", "apps.showcase.agents.reviewer.agent:Reviewer"),
    Shown("translator", "apps.showcase.agents.translator.agent:Translator"),
    Shown("builder", "apps.showcase.agents.builder.agent:Builder"),
    Shown("builder-worker", "apps.showcase.agents.builder.worker:BuilderWorker"),
    Shown("assistant", "apps.showcase.agents.assistant:Assistant"),
    Shown("smart-router", "apps.showcase.agents.smart_router:SmartRouter"),
)


@dataclass(frozen=True)
class Loaded:
    """What is there now, and in `problems` a sentence for each agent that could not be registered."""

    logins: FirstLogin
    problems: tuple[str, ...]


def load() -> Loaded:
    """Make what is missing; leave what people changed. Safe to call at every start."""
    logins = _people()
    register_router()
    problems = [problem for shown in AGENTS if (problem := _register(shown))]
    return Loaded(logins, tuple(problems))


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
