"""All outgoing calls to addresses that users or agents provide go through here.

    async with outbound.exchange(Limits(seconds=10)) as way:
        async with way.send("POST", url, headers, content) as answer: ...

A name is resolved once. Each address is checked, and the connection uses a checked address. Redirects are not followed,
and responses are limited in size and time. Libraries with their own client get a `transports.Transport` (httpx,
httpx2). What speaks another protocol gets a connection: `connect`, `websocket`.

It knows neither Django nor settings: the composition root calls `configure` to allow more than the internet. What
`Allowances` give may change while it runs.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from parley.outbound import connections
from parley.outbound.connections import encrypted
from parley.outbound.errors import (
    Forbidden,
    Misleading,
    OutboundError,
    Private,
    Redirected,
    TooLarge,
    TooSlow,
    Unreachable,
    Unsendable,
    Untrusted,
)
from parley.outbound.exchanges import MOST_BYTES, Answer, Exchange, Limits
from parley.outbound.targets import Allowances, Allowed, Guard, Target, is_private
from parley.outbound.trust import chosen_authorities, trusted

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = [
    "MOST_BYTES",
    "Allowances",
    "Allowed",
    "Answer",
    "Exchange",
    "Forbidden",
    "Guard",
    "Limits",
    "Misleading",
    "OutboundError",
    "Private",
    "Redirected",
    "Target",
    "TooLarge",
    "TooSlow",
    "Unreachable",
    "Unsendable",
    "Untrusted",
    "chosen_authorities",
    "configure",
    "connect",
    "encrypted",
    "exchange",
    "guard",
    "is_private",
    "trusted",
    "websocket",
]

_guard = Guard()
_more: Allowances | None = None


def configure(allow: Iterable[str], more: Allowances | None = None) -> None:
    """Allow private networks and hosts by name (see `Allowed.read`), and what `more` gives at each call.

    Without `more`, those that were given before stay. Raises ValueError for another entry.
    """
    global _guard, _more
    _more = more or _more
    _guard = Guard(Allowed.read(allow), more=_more)


def guard() -> Guard:
    """This process's guard, as configured."""
    return _guard


def exchange(limits: Limits | None = None, *, also: Iterable[str] = ()) -> Exchange:
    """An exchange with this process's guard, for one event loop; close it at the end.

    `also` allows more for this exchange only (see `Allowed.read`).
    """
    return Exchange(_guard.opening(also), limits or Limits())


async def connect(host: str, port: int, seconds: float = 10.0) -> socket.socket:
    """A TCP connection for a thread (see `connections.connect`); `encrypted` adds TLS. Raises OutboundError."""
    return await connections.connect(_guard, host, port, seconds)


def websocket(
    url: str, seconds: float = 10.0, most_bytes: int = MOST_BYTES
) -> AbstractAsyncContextManager[ClientConnection]:
    """An open WebSocket (see `connections.websocket`). Raises OutboundError."""
    return connections.websocket(_guard, url, seconds, most_bytes)
