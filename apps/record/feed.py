"""Following a context: what has been recorded, then what is being recorded, each event once and in order.

A process has one reader per followed context, shared by its followers. A follower that waits holds no thread and no
database connection.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import uuid
import weakref
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress

from django.conf import settings

import db
from apps.record import lineage, notifications
from apps.record.cold import restore_key
from apps.record.models import Context, Event
from db.selections import Selection

log = logging.getLogger("parley.feed")

BATCH = 500  # events read at once
RECENT = 5000  # contexts whose newest announced event is remembered
EVENTS = Selection(
    lambda context, after: Event.objects.filter(context_id=context, index__gt=after).order_by("index")[:BATCH],
    uuid.UUID(int=0),
    0,
)


async def follow(context_id: uuid.UUID, after: int = 0, *, since: float | None = None) -> AsyncGenerator[list[Event]]:
    """The context's events after index `after`, in batches, for as long as the caller iterates.

    With `since` (see `listening`), `after` was the newest event at some time after that: what came later was announced
    and is not looked for first. Close the iterator (`contextlib.aclosing`) to stop following.
    """
    hub = _hub()
    reached, may_be_more = after, not hub.has_listened_since(since)
    with hub.reader(context_id) as reader:
        while True:
            if not may_be_more:
                await reader.grown_beyond(reached)
            events = await reader.read(reached)
            may_be_more = len(events) == BATCH
            if events:
                reached = events[-1].index
                yield events


async def growth(context_id: uuid.UUID, after: int = 0, *, since: float | None = None) -> AsyncGenerator[int]:
    """The index that the context has reached, whenever it has grown beyond the one before, `after` at first.

    For who looks at rows instead of events. `since` is as in `follow`; without it the context counts as grown at once.
    """
    hub = _hub()
    reached = after
    with hub.reader(context_id) as reader:
        if not hub.has_listened_since(since):
            yield reached
        while True:
            reached = await reader.grown_beyond(reached)
            yield reached


def listening() -> float:
    """Listen for announcements from now on; gives the time, by the event loop's clock, for `follow`."""
    _hub()
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
        """Up to BATCH events after `after`; followers that ask for the same at once share one query."""
        if self._reading is None or self._reading.done() or self._reading_after != after:
            self._reading_after = after
            self._reading = asyncio.ensure_future(db.run(read, self.context_id, after))
        return await asyncio.shield(self._reading)


def read(context_id: uuid.UUID, after: int) -> list[Event]:
    """Up to BATCH of the context's events after index `after`, oldest first: of a fork also those of its past."""
    own = EVENTS.all(context_id, after)
    if not own and restore_key(context_id):
        own = EVENTS.all(context_id, after)
    if not own or own[-1].index == after + len(own):
        return own
    fork = Context(pk=context_id, forked_at=0)  # nothing but a fork has a gap
    return list(lineage.events(fork, after, after + BATCH)) or own


class Hub:
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
            if len(self._recent) > RECENT:
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
                for context_id, index in await db.run(_newest, list(self._readers)):
                    self._tell(str(context_id), index)
            except Exception:
                log.warning("could not look for new events; trying again", exc_info=True)


def _newest(context_ids: list[str]) -> list[tuple[uuid.UUID, int]]:
    return list(Context.objects.filter(pk__in=context_ids).values_list("pk", "last_event"))


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = weakref.WeakKeyDictionary()


def _hub() -> Hub:
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub(loop)
    return _hubs[loop]
