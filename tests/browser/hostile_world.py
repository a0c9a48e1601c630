"""Hostile remote agents and plans, registered through `manage.py shell`."""

from __future__ import annotations

import contextlib
import json

from django.core.exceptions import ValidationError

from apps.accounts.models import User
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from apps.remote.errors import BadCard
from apps.remote.registration import register_remote
from tests.browser.hostile import AWAY, PAYLOADS, RUN

PLACE = {"url": "https://agents.invalid/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}


def card(said: str) -> str:
    skill = {"id": said[:50], "name": said[:100], "description": said, "tags": [said[:60]], "examples": [said]}
    about = {
        "name": said[:100],
        "description": said,
        "version": said[:30],
        "documentationUrl": f"javascript:{RUN}",
        "iconUrl": f"{AWAY}/icon.png",
        "provider": {"organization": said, "url": f"javascript:{RUN}"},
        "supportedInterfaces": [PLACE],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [skill],
    }
    return json.dumps(about)


def definition(said: str) -> PlanDefinition:
    """Two steps: the hostile agent repeats its message, then a person is asked."""
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


def register(email: str) -> None:
    """One agent for each accepted card, and one plan for each definition."""
    for number, said in enumerate(PAYLOADS[::10]):
        with contextlib.suppress(BadCard, ValidationError):
            register_remote(f"hostile-{number}", card=card(said))
    author = User.objects.get(email=email)
    for number, said in enumerate(PAYLOADS[::20]):
        with contextlib.suppress(ValidationError):
            register_plan(f"hostile-plan-{number}", definition(said), author=author)
