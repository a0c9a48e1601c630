"""The one way out: every call that Parley makes to an address that it was told goes through here.

    async with outbound.exchange(Limits(seconds=10)) as way:
        async with way.send("POST", url, headers, content) as answer: ...

A name is looked up once, each of its addresses is checked, and the connection goes to the very address that was
checked; no redirect is followed, and what comes back is bounded in size and time. Libraries that bring a client of
their own are given a `transports.Transport` (httpx, httpx2).

It knows neither Django nor settings: the composition root says with `configure` what is open besides the internet.
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
    """Open private networks and hosts by name (see `Allowed.read`). Raises ValueError for an entry that is neither."""
    global _guard
    _guard = Guard(Allowed.read(allow))


def guard() -> Guard:
    """The guard of this process, as it is configured."""
    return _guard


def exchange(limits: Limits | None = None, *, also: Iterable[str] = ()) -> Exchange:
    """A way out with the guard of this process, for one event loop; close it at the end.

    `also` opens more for this way alone (see `Allowed.read`).
    """
    return Exchange(_guard.opening(also), limits or Limits())
