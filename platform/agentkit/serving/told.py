"""What a caller tells a served agent beside a message, by extensions of A2A: the project, and the person's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentkit.content import memories, projects
from agentkit.content.memories import UserMemory
from agentkit.content.projects import Project
from agentkit.handlers import SkillHandler

type Json = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """None: the message says nothing of it."""

    project: Project | None = None
    user_memory: UserMemory | None = None


def extensions(handler: SkillHandler) -> list[Json]:
    """The entries in the card of an agent that asks for them."""
    return [
        *([_entry(projects.URI, ABOUT_PROJECTS)] if handler.takes_projects else []),
        *([_entry(memories.URI, ABOUT_MEMORY)] if handler.takes_memory else []),
    ]


ABOUT_PROJECTS = "The agent is told the project of a conversation: instructions and files."
ABOUT_MEMORY = "The agent is told what the person who asks wants agents to know about them."


def _entry(uri: str, description: str) -> Json:
    return {"uri": uri, "description": description}


def take(handler: SkillHandler, message: Json) -> Told:
    """Take it out of a message, so that no history keeps it. Raises ValueError with a sentence.

    Memory is personal data: an agent that does not ask for it does not get it.
    """
    project = _taken(message, projects.ENDING, "project")
    memory = _taken(message, memories.ENDING, "memory")
    return Told(
        Project.from_wire(project) if project is not None else None,
        UserMemory.from_wire(memory) if memory is not None and handler.takes_memory else None,
    )


def _taken(message: Json, ending: str, what: str) -> Json | None:
    """The value of an extension that the message names, by the end of its URI."""
    metadata = message.get("metadata", {})
    stated = {name: one for name, one in metadata.items() if name.endswith(ending)}
    if not stated:
        return None
    message["metadata"] = {name: one for name, one in metadata.items() if name not in stated}
    named = next((stated[name] for name in message.get("extensions") or () if name in stated), None)
    if named is not None and not isinstance(named, dict):
        raise ValueError(f"The {what} in the message's metadata must be an object.")
    return named
