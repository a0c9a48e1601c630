"""The part of a worker process that calls webhooks: one event loop, a bounded number of calls, few at one host."""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import Coroutine
from typing import Any
from weakref import WeakValueDictionary

from django.conf import settings

import db
import outbound
from apps.a2a.webhooks.queues import Posting, Result, settle, take, url_of
from db.single import Single
from outbound import Limits, OutboundError

log = logging.getLogger("parley.webhooks")

AT_ONCE = 200  # calls of one process at a time
AT_ONE_HOST = 10  # of these to one host, so that one that never answers does not take all the places


class Courier:
    """Works off the queues of webhooks, each in order, side by side with the others; on one event loop."""

    def __init__(self) -> None:
        self._way = outbound.exchange(Limits(seconds=settings.WEBHOOK_SECONDS, connections=AT_ONCE))
        self._places = asyncio.Semaphore(AT_ONCE)
        self._at_host: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def work_off(self, config: uuid.UUID) -> None:
        """Send what is due at one webhook, until nothing is, a call fails, or another courier is at it."""
        async with self._at(host_of(await db.run(url_of, config))), self._places:
            posting = await db.run(take, config)
            while posting is not None:
                posting = await db.persist(settle, posting, await self._call(posting))

    async def close(self) -> None:
        await self._way.aclose()

    async def _call(self, posting: Posting) -> Result:
        """One POST. Only its status counts: what else is answered is not read."""
        try:
            async with self._way.send("POST", posting.url, posting.headers, posting.body) as answer:
                return Result(answer.status)
        except OutboundError as error:
            return Result(error=str(error))

    def _at(self, host: str) -> asyncio.Semaphore:
        return self._at_host.setdefault(host, asyncio.Semaphore(AT_ONE_HOST))


def host_of(url: str) -> str:
    """The host and port of a URL; "" for what is none any more."""
    try:
        target = outbound.guard().check(url)
    except outbound.Forbidden:
        return ""
    return f"{target.host}:{target.port}"


class DeliveringProcess:
    """A courier on a thread of its own."""

    def __init__(self) -> None:
        self._works: dict[uuid.UUID, asyncio.Task[None]] = {}
        self._again: set[uuid.UUID] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="webhooks", daemon=True).start()
        self._courier = self._run(_made())

    def offer(self, config: uuid.UUID) -> None:
        """Have the courier look at a webhook's queue. Called from any thread."""
        self._loop.call_soon_threadsafe(self._begin, config)

    def close(self) -> None:
        """Stop. What is in its hands is taken up by another when the leases end."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _begin(self, config: uuid.UUID) -> None:
        if config in self._works:
            self._again.add(config)
        else:
            self._works[config] = self._loop.create_task(self._work_off(config))

    async def _work_off(self, config: uuid.UUID) -> None:
        try:
            await self._courier.work_off(config)
        except Exception:
            log.exception("webhook %s could not be worked off; it is taken up again by the sweep", config)
        finally:
            del self._works[config]
        if config in self._again:
            self._again.discard(config)
            self._begin(config)

    async def _end(self) -> None:
        works = list(self._works.values())
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        await self._courier.close()

    def _run[T](self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)


async def _made() -> Courier:
    return Courier()


_single = Single(DeliveringProcess)


def this_process() -> DeliveringProcess:
    """The one of this process, made when the first webhook is to be called."""
    return _single.get()


def close_this_process() -> None:
    """End it (see `DeliveringProcess.close`); a later webhook makes a new one."""
    if (closing := _single.take()) is not None:
        closing.close()
