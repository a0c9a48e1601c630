"""Which remote agents are of paired installations, remembered for a moment."""

from __future__ import annotations

import time

from apps.remote.models import Peer, RemoteAgent

KNOWN_SECONDS = 2.0

_known: tuple[float, dict[int, Peer]] = (0.0, {})


def peer_of(agent_id: int) -> Peer | None:
    """The peer whose agent it is. A process asks the database at most every KNOWN_SECONDS."""
    global _known
    until, peers = _known
    if until < time.monotonic():
        rows = RemoteAgent.objects.filter(peer__isnull=False).select_related("peer")
        peers = {row.agent_id: row.peer for row in rows if row.peer is not None}
        _known = time.monotonic() + KNOWN_SECONDS, peers
    return peers.get(agent_id)


def forget_peers() -> None:
    global _known
    _known = (0.0, {})
