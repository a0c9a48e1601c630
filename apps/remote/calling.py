"""A remote agent as it is called for somebody: by its approved card, with what that person or everybody gave for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from apps.agents.models import Agent
from apps.remote import cards, connecting, credentials
from apps.remote.connecting import Peer
from apps.remote.errors import BadCard


@asynccontextmanager
async def peer_of(
    agent: Agent,
    owner: int | None,
    *,
    traceparent: str = "",
    skill: str = "",
    keep_out: Callable[[str], None] = lambda secret: None,
) -> AsyncIterator[Peer]:
    """The agent, whose version is loaded, in the name of a user; `keep_out` is told the secrets that are used.

    Raises errors.RemoteError.
    """
    if agent.current_version is None:
        raise BadCard(f"{agent.name} has no card: an operator has to refresh it.")
    card = cards.card_of(agent.current_version)
    auth = await credentials.auth_for(agent, owner, skill=skill, keep_out=keep_out)
    headers = {"traceparent": traceparent} if traceparent else {}
    async with connecting.peer(card, auth=auth, headers=headers) as peer:
        yield peer
