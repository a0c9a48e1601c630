"""What lets somebody in at a remote agent."""

import httpx

from apps.agents.models import Agent


async def auth_for(agent: Agent, owner_id: int | None) -> httpx.Auth | None:
    """What signs requests to the agent in the name of a user."""
    return None
