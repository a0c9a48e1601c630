"""Which remote agents are of paired installations, and which get signed requests, remembered for a moment."""

from __future__ import annotations

import time

from django.db.models import Q

from apps.remote.models import Peer, RemoteAgent

KNOWN_SECONDS = 2.0

_known: tuple[float, dict[int, RemoteAgent]] = (0.0, {})


def peer_of(agent_id: int) -> Peer | None:
    """The peer whose agent it is."""
    row = peer_or_signed(agent_id)
    return row.peer if row else None


def peer_or_signed(agent_id: int) -> RemoteAgent | None:
    """The remote agent, if it has a peer or gets signed requests. A process asks at most every KNOWN_SECONDS."""
    global _known
    until, rows = _known
    if until < time.monotonic():
        found = RemoteAgent.objects.filter(Q(peer__isnull=False) | Q(signs_requests=True)).select_related("peer")
        rows = {row.agent_id: row for row in found}
        _known = time.monotonic() + KNOWN_SECONDS, rows
    return rows.get(agent_id)


def forget() -> None:
    global _known
    _known = (0.0, {})
