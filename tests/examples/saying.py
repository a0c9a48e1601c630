"""Messages to the showcase's agents, and what they deliver."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from agentkit import load_handler, testing
from agentkit.content.messages import data_part
from examples import showcase

NOTE = "Offline: no language model is connected, so a simple script wrote this."
DATA = Path(showcase.__file__).parent / "research" / "data"
HANDLERS = {shown.slug: load_handler(shown.handler) for shown in showcase.AGENTS}
"""Handlers by slug, as they call each other."""

Part = dict[str, Any]


def wire(*parts: Part, **more: Any) -> dict[str, Any]:
    return {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": list(parts), **more}


def message(text: str, *parts: Part, **more: Any) -> dict[str, Any]:
    return wire({"text": text}, *parts, **more)


def form(**values: Any) -> dict[str, Any]:
    return wire(data_part(values))


def data(run: testing.Run) -> dict[str, Any]:
    return next(value for artifact in run.delivered for value in artifact.data)


def content(run: testing.Run, name: str) -> str:
    (found,) = [artifact for artifact in run.artifacts if artifact.name == name]
    return "".join(part["text"] for part in found.parts)


def names_of(run: testing.Run) -> list[str]:
    return [artifact.name for artifact in run.artifacts]
