"""An agent without code to begin with, for tests that change what matters to them."""

from typing import Any

from apps.agents.definitions import Definition
from apps.agents.models import Agent
from apps.agents.registration import register_model

PLAIN: dict[str, Any] = {
    "name": "Clerk",
    "description": "Answers letters.",
    "instructions": "Answer in one sentence.",
}


def definition(**fields: Any) -> Definition:
    return Definition.read({**PLAIN, **fields})


def clerk(slug: str = "clerk", **fields: Any) -> Agent:
    """The agent without code `slug`, registered or brought up to date with `fields`."""
    return register_model(slug, definition(**fields))
