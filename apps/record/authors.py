"""Who wrote a message: which agent, in which run, by which version; its slug also stands in the message itself.

The log says it: a message's own event names the agent and the run, and the event that began the run the version.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from apps.agents.models import Agent
from apps.record.events import JSON, EventType
from apps.record.models import Event

KEY = "agent"

SPEAKING = (EventType.AGENT_START, EventType.AGENT_STATUS, EventType.AGENT_MESSAGE)
"""The types of the events that say who takes a turn, or bring what an agent says."""


@dataclass(frozen=True, slots=True)
class Author:
    """Of an agent's message: the agent's key, the run, the number of its version; None is what the log does not say."""

    agent: int | None = None
    run: uuid.UUID | None = None
    version: int | None = None


def named(metadata: JSON, agent: Agent) -> JSON:
    """A message's metadata with its author, in the place of whatever an agent itself writes there."""
    return {**metadata, KEY: agent.slug}


def read(events: Iterable[Event]) -> dict[int, Author]:
    """By their index, the authors of the messages that the events bring; events are those of one log, in order.

    Only those of the SPEAKING types count.
    """
    found: dict[int, Author] = {}
    versions: dict[uuid.UUID | None, int | None] = {}
    for event in events:
        payload = event.payload
        if event.type == EventType.AGENT_START or (event.type == EventType.AGENT_STATUS and "version" in payload):
            versions[event.run] = payload.get("version")
        if event.type in SPEAKING and "message" in payload and "progress" not in payload:
            version = payload.get("version", versions.get(event.run) if event.run else None)
            found[event.index] = Author(payload.get("agent"), event.run, version)
    return found
