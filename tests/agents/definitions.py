"""A minimal agent without code, for tests to change."""

from typing import Any

from apps.agents.definitions import Definition
from apps.agents.models import Agent
from apps.agents.registration import register_model

PLAIN: dict[str, Any] = {"name": "Clerk", "description": "Answers letters.", "instructions": "Answer in one sentence."}


def definition(**fields: Any) -> Definition:
    return Definition.read({**PLAIN, **fields})


def clerk(slug: str = "clerk", **fields: Any) -> Agent:
    return register_model(slug, definition(**fields))
