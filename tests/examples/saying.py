"""Messages to the showcase's agents, and their artifacts."""

from __future__ import annotations

from typing import Any

from agentkit import load_handler, testing
from agentkit.messages import data_part

NOTE = "Offline: no language model is connected, so a simple script wrote this."

AGENTS = {
    "builder": "examples.agents.builder:Builder",
    "builder-worker": "examples.agents.builder:BuilderWorker",
    "reviewer": "examples.agents.reviewer:Reviewer",
    "smart-router": "examples.agents.smart_router:SmartRouter",
    "travel": "examples.agents.travel:Travel",
    "writer": "examples.agents.writer:Writer",
}


def handlers() -> dict[str, Any]:
    """Handlers by slug, as they call each other."""
    return {slug: load_handler(path) for slug, path in AGENTS.items()}


def empty() -> dict[str, Any]:
    return {"messageId": "empty", "role": "ROLE_USER", "parts": []}


def form(**values: Any) -> dict[str, Any]:
    return {"messageId": "form", "role": "ROLE_USER", "parts": [data_part(values)]}


def content(run: testing.Run, name: str) -> str:
    (found,) = [artifact for artifact in run.artifacts if artifact.name == name]
    return "".join(part["text"] for part in found.parts)
