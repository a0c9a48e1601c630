"""The event loop on which a process does the work that awaits: each key once at a time, all side by side."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from celery.signals import worker_init, worker_shutdown
from django.conf import settings

from parley import db, outbound
from parley.db.threads import Singleton
from parley.outbound import Forbidden, Limits
from parley.telemetry import metrics
from parley.work.lists import WorkList

log = logging.getLogger("parley.work")

CLOSE_SECONDS = 30
MOST_CALLS = 300  # connections of one process
type Place = tuple[str, str]
"""The name of a list, and a key."""


def run(work_list: WorkList, key: str) -> None:
    """What the Celery job of a list does."""
    if inspect.iscoroutinefunction(work_list.work):
        runner().wake(work_list, key)
    else:
        work_list.work(work_list.key_of(key))


class Runner:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._running: dict[Place, asyncio.Task[None]] = {}
        self._again: set[Place] = set()
        self._slots: dict[str, Slots] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="work", daemon=True)
        self._thread.start()
        self._client = outbound.exchange(Limits(seconds=settings.WEBHOOK_SECONDS, connections=MOST_CALLS))

    def wake(self, work_list: WorkList, key: str) -> None:
        """Do what is due for a key; again, if somebody is at it. Thread-safe; does not wait."""
        try:
            self._loop.call_soon_threadsafe(self._begin, work_list, key)
        except RuntimeError:  # the process ends, and its loop was closed in between
            work_list.publish(key)

    def close(self) -> None:
        """End the thread. What it had claimed can be claimed when the leases end."""
        try:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(CLOSE_SECONDS)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _begin(self, work_list: WorkList, key: str) -> None:
        place = work_list.name, key
        if place in self._running:
            self._again.add(place)
        else:
            self._running[place] = self._loop.create_task(self._work(work_list, key))

    async def _work(self, work_list: WorkList, key: str) -> None:
        place = work_list.name, key
        slots = self._slots.setdefault(work_list.name, Slots(work_list.at_once, work_list.per_host))
        try:
            await work(work_list, work_list.key_of(key), slots, self._client)
        except Exception:
            metrics.WORK_FAILURES[work_list.name].inc()
            log.exception("%s: %s failed; the sweep tries it again", *place)
        finally:
            del self._running[place]
        if place in self._again:
            self._again.discard(place)
            self._begin(work_list, key)

    async def _end(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._client.aclose()


async def work(work_list: WorkList, key: Any, slots: Slots, client: outbound.Exchange) -> None:
    """Do what is due for a key, once there is room. Room comes before the claim, whose lease is short."""
    host: str = str(key)
    more: tuple[outbound.Exchange, ...] = ()
    if work_list.url_of is not None:
        host, more = host_of(await db.run(work_list.url_of, key)), (client,)
    elif work_list.host_of is not None:
        host = await db.run(work_list.host_of, key)
    async with slots.at(host):
        await work_list.work(key, *more)


class Slots:
    """Bounds work at a time: in all, and for one host, so that one silent host does not take all."""

    def __init__(self, at_once: int, per_host: int) -> None:
        self._all = asyncio.Semaphore(at_once)
        self._per_host = per_host
        self._hosts: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def at(self, host: str) -> AsyncIterator[None]:
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._hosts.setdefault(host, asyncio.Semaphore(self._per_host)))
            await held.enter_async_context(self._all)
            yield


def host_of(url: str) -> str:
    """Host and port; "" for a forbidden URL."""
    try:
        target = outbound.guard().check(url)
    except Forbidden:
        return ""
    return f"{target.host}:{target.port}"


_single = Singleton(Runner)
_is_worker = threading.Event()  # this process


def runner() -> Runner:
    """This process's, created on first use."""
    return _single.get()


def do_soon(work_list: WorkList, key: Any) -> None:
    """Do what is due for a key, after the commit: here if this process is a worker, otherwise in one."""
    if _is_worker.is_set():
        runner().wake(work_list, str(key))
    else:
        work_list.publish(key)


@worker_init.connect  # type: ignore[untyped-decorator]
def begin(**_: Any) -> None:
    _is_worker.set()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def end(**_: Any) -> None:
    """End the loop; later work creates another."""
    _is_worker.clear()
    if (closing := _single.take()) is not None:
        closing.close()
