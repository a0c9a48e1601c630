"""Connections that are used again: for each event loop, a pool for each origin.

An origin has a pool of its own so that one whose agents hang takes no connection from another.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from django.conf import settings

import outbound
from outbound.transports import Transport

UNUSED_SECONDS = 60.0  # after which a pool that nobody uses is closed

Key = tuple[str, outbound.Guard, outbound.Limits]


@dataclass(slots=True)
class Pool:
    """The connections to one origin."""

    transport: Transport
    users: int = 0
    used_at: float = 0.0


@dataclass(slots=True)
class Pools:
    """The pools of one event loop."""

    pools: dict[Key, Pool] = field(default_factory=dict)
    looked_at: float = 0.0
    keeper: AsyncGenerator[None] | None = None

    @asynccontextmanager
    async def lending(self, key: Key) -> AsyncIterator[Transport]:
        pool = self.pools.get(key)
        if pool is None:
            pool = self.pools[key] = Pool(Transport(outbound.Exchange(key[1], key[2])))
        pool.users += 1
        try:
            yield pool.transport
        finally:
            pool.users -= 1
            pool.used_at = asyncio.get_running_loop().time()
            await self._close_unused(pool.used_at)

    async def _close_unused(self, now: float) -> None:
        if now - self.looked_at < UNUSED_SECONDS / 4:
            return
        self.looked_at = now
        unused = [key for key, pool in self.pools.items() if not pool.users and now - pool.used_at > UNUSED_SECONDS]
        for key in unused:
            await self.pools.pop(key).transport.aclose()

    async def keep(self) -> AsyncGenerator[None]:
        """Held open by the loop, which closes its generators at its end: then the connections are closed."""
        try:
            yield
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        pools, self.pools = self.pools, {}
        for pool in pools.values():
            await pool.transport.aclose()


_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Pools] = weakref.WeakKeyDictionary()


@asynccontextmanager
async def lent(origin: str) -> AsyncIterator[Transport]:
    """A way to one origin, over connections of this loop that others use too."""
    loop = asyncio.get_running_loop()
    pools = _of_loop.get(loop)
    if pools is None:
        pools = _of_loop[loop] = Pools()
        pools.keeper = pools.keep()
        await anext(pools.keeper)
    async with pools.lending((origin, outbound.guard(), _limits())) as transport:
        yield transport


async def close() -> None:
    """Close the connections of this loop that are open; the next call opens others."""
    if pools := _of_loop.get(asyncio.get_running_loop()):
        await pools.aclose()


def _limits() -> outbound.Limits:
    return outbound.Limits(
        seconds=None,
        connect_seconds=settings.REMOTE_CONNECT_SECONDS,
        bytes=settings.REMOTE_STREAM_BYTES,
        connections=settings.REMOTE_CONNECTIONS,
    )
