"""A minimal plan for tests to change."""

from typing import Any

from django.core.exceptions import ValidationError

from apps.plans.definitions import PlanDefinition

ASK: dict[str, Any] = {"agent": "echo", "message": "Look at {{ inputs.text }}."}
"""A step that an agent does."""


def plan(steps: dict[str, Any] | None = None, **fields: Any) -> PlanDefinition:
    """A plan of these steps; each may omit what is in `ASK`."""
    whole = {key: {**ASK, **step} for key, step in (steps or {"look": {}}).items()}
    return PlanDefinition.read({"name": "Look", "description": "Looks at things.", "steps": whole, **fields})


def told(error: ValidationError) -> dict[str, str]:
    return {path: " ".join(sentences) for path, sentences in error.message_dict.items()}
