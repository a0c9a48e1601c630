"""Registering a hosted agent: the handler says what it is, the platform how it is used."""

import re
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from agentkit import SkillHandler, load_handler
from apps.accounts.models import Workspace
from apps.agents.models import Agent


def house_workspace() -> Workspace:
    """The workspace of agents that belong to the installation rather than to a person."""
    found = Workspace.objects.filter(personal_of=None).order_by("pk").first()
    return found or Workspace.objects.create(name="Parley")


@transaction.atomic
def register_hosted(slug: str, handler: str, **policies: Any) -> Agent:
    """Register or update the hosted agent `slug` from its handler's own description.

    `policies` are further fields of Agent, such as `access`; those not given keep their value.
    Raises agentkit.HandlerError for a path that leads to no handler, ValidationError for a value that cannot be.
    """
    described = described_by(load_handler(handler), slug)
    fields = {"kind": Agent.Kind.HOSTED, "handler": handler, **described, **policies}
    agent = Agent.objects.filter(slug=slug).first() or Agent(slug=slug, workspace=house_workspace())
    if not agent.is_available:  # its handler was loaded just now
        fields |= {"health": Agent.Health.OK, "ailment": ""}
    for name, value in fields.items():
        setattr(agent, name, value)
    agent.full_clean()
    agent.save()
    return agent


def described_by(handler: SkillHandler, slug: str) -> dict[str, Any]:
    """The fields of Agent that a handler states about itself."""
    name = handler.name or slug.replace("-", " ").capitalize()
    return {
        "name": name,
        "description": handler.description or first_sentence(handler.__doc__) or f"The agent {name}.",
        "version": handler.version,
        "skills": [skill.wire for skill in handler.skills],
        "input_modes": list(handler.input_modes),
        "output_modes": list(handler.output_modes),
        "capabilities": {"streaming": True},
        "time_limit": handler.time_limit,
        "attempts": handler.attempts,
        "retry_safe": handler.retry_safe,
    }


def first_sentence(text: str | None) -> str:
    return re.split(r"\n\s*\n", (text or "").strip(), maxsplit=1)[0].strip()


def explain(error: ValidationError) -> str:
    """A validation error as sentences, each with the field it is about."""
    return " ".join(f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items())
