"""Remote agents that are called in a special way, remembered for a moment."""

from __future__ import annotations

import time

from django.db.models import Q

from apps.remote.models import Peer, RemoteAgent
from parley import db

KNOWN_SECONDS = 2.0

_known: tuple[float, dict[int, RemoteAgent]] = (0.0, {})


def peer_of(agent_id: int) -> Peer | None:
    """The peer whose agent it is."""
    row = special_remote(agent_id)
    return row.peer if row else None


def special_remote(agent_id: int) -> RemoteAgent | None:
    """The remote agent, if it has a peer, gets signed requests, or speaks another version than its card says.

    A process asks at most every KNOWN_SECONDS.
    """
    global _known
    until, rows = _known
    if until < time.monotonic():
        is_special = Q(peer__isnull=False) | Q(signs_requests=True) | ~Q(spoken_version="")
        found = RemoteAgent.objects.filter(is_special).select_related("peer")
        rows = {row.agent_id: row for row in found}
        _known = time.monotonic() + KNOWN_SECONDS, rows
    return rows.get(agent_id)


async def find_special(agent_id: int) -> RemoteAgent | None:
    """As `special_remote`, on an event loop."""
    until, rows = _known
    return await db.run(special_remote, agent_id) if until < time.monotonic() else rows.get(agent_id)


def remember_version(agent_id: int, version: str) -> None:
    """The agent answers in this version of A2A."""
    RemoteAgent.objects.filter(agent=agent_id).update(spoken_version=version)
    forget()


def forget() -> None:
    global _known
    _known = (0.0, {})
