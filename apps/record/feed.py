"""Following contexts: what has been recorded, then what is being recorded, each event once and in order.

`follow` is for one context: an event loop has one reader for each, shared by its followers. `subscription_hub` is for
many at once: of all that an owner has, those that begin later too, or of some that are named. Behind both is one
listener to wake-ups and one poll for each event loop. A follower that waits holds no thread and no database connection.
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
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.conf import settings
from django.utils import timezone

import db
from apps.record import lineage, notifications
from apps.record.lookup import restore_by_id
from apps.record.models import Context, Event
from apps.record.sql import EVENTS

log = logging.getLogger("parley.feed")

BATCH_SIZE = 500  # events read at once
MAX_RECENT = 5000  # contexts whose newest announced event is remembered


async def follow(context_id: uuid.UUID, after: int = 0, *, since: float | None = None) -> AsyncGenerator[list[Event]]:
    """The context's events after index `after`, in batches, for as long as the caller iterates.

    With `since` (see `start_listening`), `after` was the newest event at some time after that: what came later was
    announced and is not looked for first. Close the iterator (`contextlib.aclosing`) to stop following.
    """
    hub = _reader_hub()
    reached, may_be_more = after, not hub.has_listened_since(since)
    with hub.reader(context_id) as reader:
        while True:
            if not may_be_more:
                await reader.grown_beyond(reached)
            events = await reader.read(reached)
            may_be_more = len(events) == BATCH_SIZE
            if events:
                reached = events[-1].index
                yield events


async def growth(context_id: uuid.UUID, after: int = 0, *, since: float | None = None) -> AsyncGenerator[int]:
    """The index that the context has reached, whenever it has grown beyond the one before, `after` at first.

    For who looks at rows instead of events. `since` is as in `follow`; without it the context counts as grown at once.
    """
    hub = _reader_hub()
    reached = after
    with hub.reader(context_id) as reader:
        if not hub.has_listened_since(since):
            yield reached
        while True:
            reached = await reader.grown_beyond(reached)
            yield reached


def start_listening() -> float:
    """Listen for announcements from now on; gives the time, by the event loop's clock, for `follow`."""
    _reader_hub()
    return asyncio.get_running_loop().time()


class Reader:
    """Follows one context for all its followers in this event loop."""

    def __init__(self, context_id: uuid.UUID, known: int) -> None:
        self.context_id = context_id
        self.followers = 0
        self._known = known  # the newest index that anybody told of
        self._grown = asyncio.Event()
        self._reading: asyncio.Task[list[Event]] | None = None
        self._reading_after = -1

    def tell(self, index: int) -> None:
        """The context has reached `index`."""
        if index > self._known:
            self._known = index
            self._grown.set()
            self._grown = asyncio.Event()

    async def grown_beyond(self, index: int) -> int:
        """Wait until the context is known to have events after `index`; gives the newest."""
        while self._known <= index:
            await self._grown.wait()
        return self._known

    async def read(self, after: int) -> list[Event]:
        """Up to BATCH_SIZE events after `after`; followers that ask for the same at once share one query."""
        if self._reading is None or self._reading.done() or self._reading_after != after:
            self._reading_after = after
            self._reading = asyncio.ensure_future(db.run(read_events, self.context_id, after))
        return await asyncio.shield(self._reading)


def read_events(context_id: uuid.UUID, after: int) -> list[Event]:
    """Up to BATCH_SIZE of the context's events after index `after`, oldest first: of a fork also those of its past."""
    own = EVENTS.all(context_id, after, BATCH_SIZE)
    if not own and restore_by_id(context_id):
        own = EVENTS.all(context_id, after, BATCH_SIZE)
    if not own or own[-1].index == after + len(own):
        return own
    fork = Context(pk=context_id, forked_at=0)  # nothing but a fork has a gap
    return list(lineage.events(fork, after, after + BATCH_SIZE)) or own


class ReaderHub:
    """The readers of one event loop, and the poll that finds what wake-ups did not bring."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._born = loop.time()
        self._lock = threading.Lock()  # of what follows, which threads that announce share with the loop
        self._recent: dict[str, int] = {}  # what contexts reached lately, the oldest first
        self._readers: dict[str, Reader] = {}
        self._poll: asyncio.Task[None] | None = None
        self._stop_listening = notifications.on_reached(self._reached)

    @contextmanager
    def reader(self, context_id: uuid.UUID) -> Iterator[Reader]:
        key = str(context_id)
        with self._lock:
            reader = self._readers.setdefault(key, Reader(context_id, self._recent.get(key, 0)))
        reader.followers += 1
        if self._poll is None or self._poll.done():
            self._poll = asyncio.get_running_loop().create_task(self._poll_while_followed())
        try:
            yield reader
        finally:
            reader.followers -= 1
            if not reader.followers:
                self._readers.pop(str(context_id), None)

    def has_listened_since(self, since: float | None) -> bool:
        """Has everything that was announced since then been heard? A new hub's ear needs a moment to open."""
        return since is not None and since - self._born > 1.0

    def _reached(self, context_id: str, index: int, owner: str = "") -> None:
        """Called from any thread."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            self._stop_listening()
            return
        with self._lock:
            self._recent[context_id] = max(index, self._recent.pop(context_id, 0))
            if len(self._recent) > MAX_RECENT:
                self._recent.pop(next(iter(self._recent)))
            is_followed = context_id in self._readers
        if is_followed:
            with suppress(RuntimeError):  # the loop ends just now
                loop.call_soon_threadsafe(self._tell, context_id, index)

    def _tell(self, context_id: str, index: int) -> None:
        if reader := self._readers.get(context_id):
            reader.tell(index)

    async def _poll_while_followed(self) -> None:
        """One query now and then for all followed contexts together."""
        while self._readers:
            await asyncio.sleep(settings.FEED_POLL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
            try:
                for context_id, index in await db.run(_newest_indexes, list(self._readers)):
                    self._tell(str(context_id), index)
            except Exception:
                log.warning("could not look for new events; trying again", exc_info=True)


def _newest_indexes(context_ids: list[str]) -> list[tuple[uuid.UUID, int]]:
    return list(Context.objects.filter(pk__in=context_ids).values_list("pk", "last_event"))


_reader_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ReaderHub] = weakref.WeakKeyDictionary()


def _reader_hub() -> ReaderHub:
    loop = asyncio.get_running_loop()
    if loop not in _reader_hubs:
        _reader_hubs[loop] = ReaderHub(loop)
    return _reader_hubs[loop]


COMMIT_MARGIN = datetime.timedelta(seconds=60)  # by which a commit may be late, and clocks may differ


class Subscription:
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


class SubscriptionHub:
    """The ears of one event loop, and the poll that finds what wake-ups did not bring."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._lock = threading.Lock()  # of the ears, which threads that announce look up
        self._ears: dict[str, set[Subscription]] = {}
        self._reads: dict[Hashable, asyncio.Future[Any]] = {}
        self._poll: asyncio.Task[None] | None = None
        self._stop_listening = notifications.on_reached(self._reached)

    @contextmanager
    def ear(self, *, owner: int | None = None, contexts: frozenset[uuid.UUID] = frozenset()) -> Iterator[Subscription]:
        ear = Subscription(owner, contexts)
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
        rows = await db.run(_newest_rows, owners, named, since - COMMIT_MARGIN)
        found: dict[str, list[ContextRow]] = defaultdict(list)
        for place, row in rows:
            found[place].append(row)
        for ear in ears:
            own = [row for place in ear.places for row in found[place]]
            ear.looked = now, {context: updated_at for context, _, updated_at in own}
            for context, index, _ in own:
                ear.tell(context, index)


ContextRow = tuple[uuid.UUID, int, datetime.datetime]
"""A context, the index of its newest event, and its time."""


def _newest_rows(
    owners: frozenset[int], named: frozenset[uuid.UUID], since: datetime.datetime
) -> list[tuple[str, ContextRow]]:
    """What of the owners' contexts changed since, and how far those are that are named; with the place of each."""
    changed = Context.objects.listed().filter(owner__in=owners, updated_at__gt=since)
    rows = changed.values_list("owner", "pk", "last_event", "updated_at")
    some = Context.objects.filter(pk__in=named).values_list("pk", "last_event", "updated_at")
    found: list[tuple[str, ContextRow]] = [(f"owner {owner}", (key, last, at)) for owner, key, last, at in rows]
    return found + [(str(row[0]), row) for row in some]


_subscription_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, SubscriptionHub] = weakref.WeakKeyDictionary()


def subscription_hub() -> SubscriptionHub:
    """That of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _subscription_hubs:
        _subscription_hubs[loop] = SubscriptionHub(loop)
    return _subscription_hubs[loop]
