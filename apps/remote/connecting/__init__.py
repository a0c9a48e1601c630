"""The only place that speaks A2A outward.

    async with connecting.peer(card, auth=auth) as peer:
        async for event in peer.send(message): ...

The SDK's client knows the methods, paths and versions of A2A; what is around it bounds what agents send and takes, and
says what went wrong in words for people.
"""

from apps.remote.connecting.interfaces import Interface, choose, origin_of
from apps.remote.connecting.peers import Peer, peer

__all__ = ["Interface", "Peer", "choose", "origin_of", "peer"]
