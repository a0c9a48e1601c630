"""Which agent wrote a message: `agent` in its event and row, and its slug in the message itself, for other systems."""

from __future__ import annotations

from apps.agents.models import Agent
from apps.conversations.events import JSON

KEY = "agent"


def named(metadata: JSON, agent: Agent) -> JSON:
    """A message's metadata with its author, in the place of whatever an agent itself writes there."""
    return {**metadata, KEY: agent.slug}
