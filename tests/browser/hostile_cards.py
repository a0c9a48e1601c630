"""Remote agents whose cards say hostile things, as `manage.py shell` registers them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

from django.core.exceptions import ValidationError

from apps.gateway.errors import BadCard
from apps.gateway.registering import register_remote
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


def register(payloads: Sequence[str] = PAYLOADS[::12]) -> None:
    """One agent for each card that the registry takes."""
    for number, said in enumerate(payloads):
        with contextlib.suppress(BadCard, ValidationError):
            register_remote(f"hostile-{number}", card=card(said))
