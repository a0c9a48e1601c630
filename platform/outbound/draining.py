"""A thread that works off queues of outgoing calls: each queue in order, all side by side on one event loop.

Whoever drains a queue claims its rows in the database, so that several processes share the work.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol
from weakref import WeakValueDictionary

from outbound.errors import Forbidden
from outbound.targets import Guard

log = logging.getLogger("parley.outbound")

CLOSE_SECONDS = 30


class Drainer(Protocol):
    """Works off one queue at a time for each key; belongs to one event loop."""

    async def drain(self, key: uuid.UUID) -> None: ...

    async def close(self) -> None: ...


class DrainThread:
    """A drainer in a thread. `make` is called in the thread that creates this."""

    def __init__(self, make: Callable[[], Drainer], name: str) -> None:
        self._running: dict[uuid.UUID, asyncio.Task[None]] = {}
        self._rerun: set[uuid.UUID] = set()
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()
        self._drainer = make()

    def wake(self, key: uuid.UUID) -> None:
        """Work off a queue. Thread-safe."""
        self._loop.call_soon_threadsafe(self._begin, key)

    def close(self) -> None:
        """End the thread. What it had claimed can be claimed when the leases end."""
        try:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(CLOSE_SECONDS)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _begin(self, key: uuid.UUID) -> None:
        if key in self._running:
            self._rerun.add(key)
        else:
            self._running[key] = self._loop.create_task(self._drain(key))

    async def _drain(self, key: uuid.UUID) -> None:
        try:
            await self._drainer.drain(key)
        except Exception:
            log.exception("%s: queue %s failed; the sweep tries it again", self._name, key)
        finally:
            del self._running[key]
        if key in self._rerun:
            self._rerun.discard(key)
            self._begin(key)

    async def _end(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._drainer.close()


class Slots:
    """Bounds calls at a time: in all, and to one host, so that one silent host does not take all."""

    def __init__(self, calls: int, per_host: int) -> None:
        self._calls = asyncio.Semaphore(calls)
        self._per_host = per_host
        self._hosts: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def at(self, host: str) -> AsyncIterator[None]:
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._hosts.setdefault(host, asyncio.Semaphore(self._per_host)))
            await held.enter_async_context(self._calls)
            yield


def host_of(guard: Guard, url: str) -> str:
    """Host and port; "" for a forbidden URL."""
    try:
        target = guard.check(url)
    except Forbidden:
        return ""
    return f"{target.host}:{target.port}"


def retry_seconds(attempts: int, first: float, longest: float) -> float:
    """The wait after so many failed attempts: exponential backoff with jitter."""
    seconds = min(longest, first * 2 ** min(attempts - 1, 30))
    return random.uniform(seconds / 2, seconds)  # noqa: S311 - spreads load, hides nothing
