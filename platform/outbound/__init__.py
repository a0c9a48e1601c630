"""All outgoing calls to addresses that users or agents provide go through here.

    async with outbound.exchange(Limits(seconds=10)) as way:
        async with way.send("POST", url, headers, content) as answer: ...

A name is resolved once. Each address is checked, and the connection uses a checked address. Redirects are not followed,
and responses are limited in size and time. Libraries with their own client get a `transports.Transport` (httpx,
httpx2).

It knows neither Django nor settings: the composition root calls `configure` to allow more than the internet.
"""

from __future__ import annotations

from collections.abc import Iterable

from outbound.errors import Forbidden, Misleading, OutboundError, TooLarge, TooSlow, Unreachable, Unsendable, Untrusted
from outbound.exchanges import Answer, Exchange, Limits
from outbound.targets import Allowed, Guard, Target

__all__ = [
    "Answer",
    "Exchange",
    "Forbidden",
    "Guard",
    "Limits",
    "Misleading",
    "OutboundError",
    "Target",
    "TooLarge",
    "TooSlow",
    "Unreachable",
    "Unsendable",
    "Untrusted",
    "configure",
    "exchange",
    "guard",
]

_guard = Guard()


def configure(allow: Iterable[str]) -> None:
    """Allow private networks and hosts by name (see `Allowed.read`). Raises ValueError for another entry."""
    global _guard
    _guard = Guard(Allowed.read(allow))


def guard() -> Guard:
    """This process's guard, as configured."""
    return _guard


def exchange(limits: Limits | None = None, *, also: Iterable[str] = ()) -> Exchange:
    """An exchange with this process's guard, for one event loop; close it at the end.

    `also` allows more for this exchange only (see `Allowed.read`).
    """
    return Exchange(_guard.opening(also), limits or Limits())
