"""Hearing of many contexts at once: of all that an owner has, those that begin later too, or of some that are named.

An event loop has one ear at the wake-ups and one poll behind it, however many listen; who waits holds neither a thread
nor a connection.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
import threading
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.conf import settings
from django.utils import timezone

import db
from apps.record import notifications
from apps.record.models import Context
from apps.record.sync_cursors import MARGIN

log = logging.getLogger("parley.feed")


class Ear:
    """What one listener has heard and not taken yet. It listens for all of an owner's contexts, or for `contexts`.

    Attributes:
        began: since when it listens.
        looked: when the database was last looked at for all of the owner's contexts, and those that had changed shortly
            before or since the look before, with their times.
    """

    def __init__(self, owner: int | None, contexts: frozenset[uuid.UUID]) -> None:
        self.owner, self.contexts = owner, contexts
        self.places = {f"owner {owner}"} if owner is not None else {str(context) for context in contexts}
        self.began = timezone.now()
        self.looked: tuple[datetime.datetime, dict[uuid.UUID, datetime.datetime]] | None = None
        self._told: dict[uuid.UUID, int] = {}
        self._news: asyncio.Future[None] | None = None

    def tell(self, context: uuid.UUID, index: int) -> None:
        self._told[context] = max(index, self._told.get(context, 0))
        if self._news and not self._news.done():
            self._news.set_result(None)

    def take(self) -> dict[uuid.UUID, int]:
        """The newest index of each context that was heard of since the last time."""
        told, self._told = self._told, {}
        return told

    async def news(self) -> None:
        """Wait until something is to be taken."""
        while not self._told:
            self._news = asyncio.get_running_loop().create_future()
            await self._news

    @property
    def is_silent(self) -> bool:
        """Was all taken that was told?"""
        return not self._told


class Exchange:
    """The ears of one event loop, and the poll that finds what wake-ups did not bring."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._lock = threading.Lock()  # of the ears, which threads that announce look up
        self._ears: dict[str, set[Ear]] = {}
        self._reads: dict[Hashable, asyncio.Future[Any]] = {}
        self._poll: asyncio.Task[None] | None = None
        self._stop_listening = notifications.on_reached(self._reached)

    @contextmanager
    def ear(self, *, owner: int | None = None, contexts: frozenset[uuid.UUID] = frozenset()) -> Iterator[Ear]:
        ear = Ear(owner, contexts)
        with self._lock:
            for place in ear.places:
                self._ears.setdefault(place, set()).add(ear)
        if self._poll is None or self._poll.done():
            self._poll = asyncio.get_running_loop().create_task(self._poll_while_heard())
        try:
            yield ear
        finally:
            with self._lock:
                for place in ear.places:
                    self._ears[place].discard(ear)
                    if not self._ears[place]:
                        del self._ears[place]

    async def read[T](self, function: Callable[..., T], *args: Hashable) -> T:
        """What a function reads from the database; who asks for the same at the same time shares the query."""
        key = function, *args
        if key not in self._reads:
            self._reads[key] = asyncio.ensure_future(db.run(function, *args))
            self._reads[key].add_done_callback(lambda _: self._reads.pop(key, None))
        result: T = await asyncio.shield(self._reads[key])
        return result

    def _reached(self, context_id: str, index: int, owner: str) -> None:
        """Called from any thread."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            self._stop_listening()
            return
        with self._lock:
            is_heard = context_id in self._ears or f"owner {owner}" in self._ears
        if is_heard:
            with suppress(RuntimeError):  # the loop ends just now
                loop.call_soon_threadsafe(self._tell, uuid.UUID(context_id), index, owner)

    def _tell(self, context: uuid.UUID, index: int, owner: object) -> None:
        for place in (str(context), f"owner {owner}"):
            for ear in self._ears.get(place, ()):
                ear.tell(context, index)

    async def _poll_while_heard(self) -> None:
        """Now and then one query for all ears together."""
        while self._ears:
            await asyncio.sleep(settings.FEED_POLL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
            try:
                await self._look()
            except Exception:
                log.warning("could not look for new events; trying again", exc_info=True)

    async def _look(self) -> None:
        ears = {ear for ears in self._ears.values() for ear in ears}
        owners = frozenset(ear.owner for ear in ears if ear.owner is not None)
        named = frozenset(context for ear in ears for context in ear.contexts)
        now = timezone.now()
        since = min((ear.looked[0] if ear.looked else ear.began for ear in ears), default=now)
        rows = await db.run(_newest, owners, named, since - MARGIN)
        found: dict[str, list[Row]] = defaultdict(list)
        for place, row in rows:
            found[place].append(row)
        for ear in ears:
            own = [row for place in ear.places for row in found[place]]
            ear.looked = now, {context: updated_at for context, _, updated_at in own}
            for context, index, _ in own:
                ear.tell(context, index)


Row = tuple[uuid.UUID, int, datetime.datetime]
"""A context, the index of its newest event, and its time."""


def _newest(owners: frozenset[int], named: frozenset[uuid.UUID], since: datetime.datetime) -> list[tuple[str, Row]]:
    """What of the owners' contexts changed since, and how far those are that are named; with the place of each."""
    changed = Context.objects.listed().filter(owner__in=owners, updated_at__gt=since)
    rows = changed.values_list("owner", "pk", "last_event", "updated_at")
    some = Context.objects.filter(pk__in=named).values_list("pk", "last_event", "updated_at")
    found: list[tuple[str, Row]] = [(f"owner {owner}", (key, last, at)) for owner, key, last, at in rows]
    return found + [(str(row[0]), row) for row in some]


_exchanges: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Exchange] = weakref.WeakKeyDictionary()


def exchange() -> Exchange:
    """That of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _exchanges:
        _exchanges[loop] = Exchange(loop)
    return _exchanges[loop]
