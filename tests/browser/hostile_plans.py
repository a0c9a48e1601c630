"""Plans whose every word is hostile: names, descriptions, inputs, steps, and what a person is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from django.core.exceptions import ValidationError

from apps.accounts.models import User
from apps.orchestration.definitions import PlanDefinition
from apps.orchestration.registration import register_plan
from apps.showcase.loading import DEMO
from tests.browser.hostile import PAYLOADS


def definition(said: str) -> PlanDefinition:
    """Two steps: the hostile agent says what it is told, then a person is asked."""
    field = {"type": "string", "title": said[:200], "description": said[:500]}
    content = {
        "name": said[:100],
        "description": said,
        "inputs": {"type": "object", "properties": {"topic": field}},
        "skills": [{"name": said[:100], "description": said, "tags": [said[:60]], "examples": [said]}],
        "steps": {
            "said": {"title": said[:120], "agent": "hostile", "message": "say {{ inputs.text }}"},
            "asked": {"title": said[:120], "depends_on": ["said"], "person": {"ask": said}},
        },
    }
    return PlanDefinition.read(content)


def register(payloads: Sequence[str] = PAYLOADS[::25]) -> None:
    """A plan of the demo user's for each definition that the registry takes."""
    author = User.objects.get(email=DEMO)
    for number, said in enumerate(payloads):
        with contextlib.suppress(ValidationError):
            register_plan(f"hostile-plan-{number}", definition(said), author=author)
