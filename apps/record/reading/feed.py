"""Following contexts: events already recorded, then new ones, each once and in order.

`follow` is for one context: its followers share one reader, which reads what is new once. `Hub.subscribe` is for many:
all of an owner's, even future ones, or named ones. Each event loop has one hub, which listens to notifications and
polls for lost ones. A waiting follower holds no thread and no connection.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import math
import random
import threading
import time
import uuid
import weakref
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Concatenate, NamedTuple

from django.conf import settings

from apps.record import lineage
from apps.record.events import EventType
from apps.record.models import Context, Event
from apps.record.reading import notifications
from apps.record.reading.lookup import restore_by_id
from apps.record.sql import EVENTS
from parley import db
from parley.db.sql import corrected_time
from parley.telemetry import metrics

log = logging.getLogger("parley.feed")

BATCH_SIZE = 500  # events per query
MAX_RECENT = 5000  # contexts whose newest announced index is remembered
WOKEN_AT_ONCE = 8  # waiting streams
PAUSE_SECONDS = 0.004  # until the next are woken
HEAR_SECONDS = 0.1  # that Redis may take to confirm a subscription; then the poll must find what was missed
COMMIT_MARGIN = datetime.timedelta(seconds=60)  # how late a commit may be, clock differences included


async def follow(context_id: uuid.UUID, after: int = 0, *, since: float | None = None) -> AsyncGenerator[list[Event]]:
    """The context's events after index `after`, in batches, for as long as the caller iterates.

    `since` (from `start_listening`) saves the first query, if `after` was the newest event at some time after it. Close
    the iterator (`contextlib.aclosing`) to stop.
    """
    hub = running_hub()
    reached, began = after, time.time()
    with hub.reader(context_id) as reader:
        may_be_more = await hub.may_miss(context_id, since)
        while True:
            if not may_be_more:
                await reader.grown_beyond(reached)
            events = await reader.read(reached)
            may_be_more = len(events) == BATCH_SIZE
            if events:
                reached = events[-1].index
                if (recorded_at := events[0].at.timestamp()) >= began:
                    metrics.FANOUT_SECONDS.observe(max(0.0, time.time() - recorded_at))
                yield events


async def growth(
    context_id: uuid.UUID, after: int = 0, *, since: float | None = None, settled: bool = False
) -> AsyncGenerator[int]:
    """The context's newest index, whenever it grows, for callers that read rows instead of events.

    `since` is as in `follow`; without it, `after` comes at once. `settled`: only events that may have settled a task.
    """
    hub = _hubs.get(asyncio.get_running_loop()) or running_hub()
    reached = after
    with hub.reader(context_id) as reader:
        if await hub.may_miss(context_id, since):
            yield reached
        while True:
            beyond = reader.settled_beyond(reached) if settled else reader.grown_beyond(reached, at_once=True)
            reached = await beyond
            yield reached


async def shared[**P, T](
    events: list[Event], name: str, show: Callable[Concatenate[list[Event], P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """What `show` makes of these events; followers who got them together share it by its name."""
    shown, key = events[-1].shown, (name, events[0].index)
    if key not in shown:
        shown[key] = asyncio.ensure_future(db.run_for_stream(show, events, *args, **kwargs))
        shown[key].add_done_callback(lambda showing: (showing.cancelled() or showing.exception()) and shown.pop(key))
    result: T = await asyncio.shield(shown[key])
    return result


def start_listening() -> float:
    """Listen for notifications of new contexts from now on; gives the monotonic time, for `follow`."""
    if asyncio.get_running_loop() not in _hubs:
        running_hub()
    return time.monotonic()


class Turns:
    """Wakes waiting streams a few at a time, callers in turn, so that many streams leave the event loop to others."""

    def __init__(self) -> None:
        self._woken: dict[str, deque[asyncio.Future[None]]] = {}  # by caller; the next turn is first
        self._left = WOKEN_AT_ONCE  # until the end of the pause
        self._pause: asyncio.TimerHandle | None = None

    def wake(self, waiting: Mapping[asyncio.Future[None], str]) -> None:
        """Wake these streams of callers, after those that wait for their turn."""
        for waiter, caller in waiting.items():
            self._woken.setdefault(caller, deque()).append(waiter)
        self._wake_some()

    def _wake_some(self) -> None:
        while self._left and self._woken:
            caller = next(iter(self._woken))
            waiters = self._woken.pop(caller)
            waiter = waiters.popleft()
            if waiters:
                self._woken[caller] = waiters  # as the last
            if not waiter.done():
                waiter.set_result(None)
                self._left -= 1
        if self._left < WOKEN_AT_ONCE and self._pause is None:
            self._pause = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._left, self._pause = WOKEN_AT_ONCE, None
        self._wake_some()


@dataclass(slots=True)
class Bell:
    """What streams wait for."""

    _turns: Turns
    _waiting: dict[asyncio.Future[None], str] = field(default_factory=dict)  # their callers

    async def wait(self, *, at_once: bool = False) -> None:
        """Wait for `ring`; a stream wakes when it is its turn, unless `at_once`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = "" if at_once else db.caller.get() or "somebody"
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)

    def ring(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        for waiter in [waiter for waiter, caller in waiting.items() if not caller]:
            del waiting[waiter]
            if not waiter.done():
                waiter.set_result(None)
        if waiting:
            self._turns.wake(waiting)


class Announced(NamedTuple):
    """The highest index of a context that was announced, and the highest by which a task may have settled."""

    newest: int = 0
    settled: int = 0


@dataclass(eq=False, slots=True)
class Reader:
    """Follows one context for all its followers in this event loop: those that keep up share each read."""

    context_id: uuid.UUID
    _grown: Bell
    _may_have_settled: Bell
    _newest: int = 0  # the highest index that was announced
    _settled: int = 0  # the highest by which a task may have settled
    followers: int = 0
    _recent: list[Event] = field(default_factory=list)  # the newest that were read, without a gap
    _was_read: bool = False  # since the last `forget`
    _reads: dict[tuple[Hashable, int], asyncio.Task[list[Event]]] = field(default_factory=dict)  # under way

    def notify(self, index: int, settles: bool = True) -> None:
        """The context has reached `index`."""
        if index > self._newest:
            self._newest = index
            self._grown.ring()
        if settles and index > self._settled:
            self._settled = index
            self._may_have_settled.ring()

    async def grown_beyond(self, index: int, *, at_once: bool = False) -> int:
        """Wait for events after `index`, `at_once` before others; gives the newest index."""
        while self._newest <= index:
            await self._grown.wait(at_once=at_once)
        return self._newest

    async def settled_beyond(self, index: int) -> int:
        """Wait, before others, for an event after `index` by which a task may have settled; gives its index."""
        while self._settled <= index:
            await self._may_have_settled.wait(at_once=True)
        return self._settled

    async def read(self, after: int, function: ReadEvents | None = None) -> list[Event]:
        """Up to BATCH_SIZE events after `after`, read by `function` unless it has them."""
        key = function or read_events, after
        reading = self._reads.get(key)
        if reading is not None and reading.done():  # it may have begun before the newest event
            self._keep(key, reading)
            reading = None
        recent = self._recent
        if recent and recent[0].index <= after + 1 <= recent[-1].index:
            return recent[after + 1 - recent[0].index :]
        if reading is None:
            reading = self._reads[key] = asyncio.ensure_future(db.run_for_stream(key[0], self.context_id, after))
            reading.add_done_callback(lambda ended: self._keep(key, ended))
        return await asyncio.shield(reading)

    def _keep(self, key: tuple[Hashable, int], reading: asyncio.Task[list[Event]]) -> None:
        """Keep what was read for followers that wake later."""
        if self._reads.get(key) is not reading:
            return  # kept already
        del self._reads[key]
        events = [] if reading.cancelled() or reading.exception() else reading.result()
        after, recent = key[1], self._recent
        reached = recent[-1].index if recent else 0
        if events and events[-1].index == after + len(events) > reached:
            is_erased = any(event.type == EventType.SESSION_DELETED for event in events)
            self._recent = [*(recent if reached == after and not is_erased else ()), *events][-BATCH_SIZE:]
            self._was_read = True

    def forget(self) -> None:
        """Drop the events that were read before the last call."""
        if not self._was_read:
            self._recent = []
        self._was_read = False


ReadEvents = Callable[[uuid.UUID, int], list[Event]]
"""Reads up to BATCH_SIZE of a context's events after an index, oldest first, on a database thread."""


def read_events(context_id: uuid.UUID, after: int) -> list[Event]:
    """Up to BATCH_SIZE of the context's events after index `after`, oldest first; of a fork also those of its past."""
    return read_present_events(context_id, after) or (
        read_present_events(context_id, after) if restore_by_id(context_id) else []
    )


def read_present_events(context_id: uuid.UUID, after: int) -> list[Event]:
    """Like `read_events`, but nothing is restored from cold storage."""
    own = EVENTS.all(context_id, after, BATCH_SIZE)
    if not own or own[-1].index == after + len(own):
        return own
    fork = Context(pk=context_id, forked_at=0)  # only a fork's own events have a gap before them
    return list(lineage.events(fork, after, after + BATCH_SIZE)) or own


class Poll(NamedTuple):
    """A poll's result: its time, and when the newest event of each changed context was recorded."""

    at: datetime.datetime
    recorded_at: dict[uuid.UUID, datetime.datetime]


class Subscription:
    """A subscriber to an owner's contexts, or to `contexts`.

    Attributes:
        topics: `owner KEY`, or the keys of `contexts`: by these the hub finds it.
        started_at: when it began to listen.
        last_poll: with all changes since COMMIT_MARGIN before the previous poll.
        pending: the newest index of each context announced since `take_pending`.
    """

    def __init__(self, owner: int | None, contexts: frozenset[uuid.UUID], turns: Turns) -> None:
        self.owner, self.contexts = owner, contexts
        self.topics = {f"owner {owner}"} if owner is not None else {str(context) for context in contexts}
        self.started_at = corrected_time()
        self.last_poll: Poll | None = None
        self.pending: dict[uuid.UUID, int] = {}
        self._bell = Bell(turns)

    def notify(self, context: uuid.UUID, index: int) -> None:
        was_pending = bool(self.pending)
        self.pending[context] = max(index, self.pending.get(context, 0))
        if not was_pending:
            self._bell.ring()

    def take_pending(self) -> dict[uuid.UUID, int]:
        pending, self.pending = self.pending, {}
        return pending

    async def wait(self) -> None:
        """Wait until something is pending."""
        while not self.pending:
            await self._bell.wait()


class Hub:
    """The readers and subscriptions of one event loop, and the poll that finds what notifications missed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._lock = threading.Lock()  # guards the three dicts below: `_reached` reads them in any thread
        self._recent: dict[str, Announced] = {}  # by context, the least recent first
        self._readers: dict[str, Reader] = {}
        self._subscriptions: dict[str, set[Subscription]] = {}  # by topic
        self.turns = Turns()
        self._poll: asyncio.Task[None] | None = None
        self._stop_listening = notifications.on_reached(self._reached)
        self._heard: dict[str, Future[float]] = {}  # channels, and since when they are heard
        self._own: list[str] = []  # the ids whose channels new contexts get, the newest last
        self._renew_own()

    def hear(self, topic: str) -> Future[float]:
        """Hear of a topic: until the next poll, or for as long as it is followed."""
        channel = notifications.channel_of(topic)
        if (since := self._heard.get(channel)) is None:
            since = self._heard[channel] = notifications.listen(channel)
            self._poll_from_now_on()
        return since

    async def heard(self, *topics: str) -> float:
        """Since when, by the monotonic clock, all announcements of these are received."""
        heard = [self.hear(topic) for topic in topics]
        if waiting := [asyncio.wrap_future(since) for since in heard if not since.done()]:
            await asyncio.wait(waiting, timeout=HEAR_SECONDS)
        return max(since.result() if since.done() else math.inf for since in heard)

    async def may_miss(self, context_id: uuid.UUID, since: float | None) -> bool:
        """Whether something may have been announced after `since` that was not received; if so, read once."""
        return await self.heard(str(context_id)) >= (-math.inf if since is None else since)

    def _renew_own(self) -> None:
        """Choose another channel for new contexts: who follows one of them elsewhere then hears of few others."""
        own = str(uuid.uuid4())
        self._own = [*self._own[-1:], own]
        self.hear(own).add_done_callback(lambda _: notifications.begin_new_ids_as(own))

    def _forget_channels(self) -> None:
        followed = {notifications.channel_of(topic) for topic in (*self._own, *self._readers, *self._subscriptions)}
        for channel in self._heard.keys() - followed:
            del self._heard[channel]
            notifications.leave(channel)

    @contextmanager
    def reader(self, context_id: uuid.UUID) -> Iterator[Reader]:
        key = str(context_id)
        with self._lock:
            announced = self._recent.get(key, Announced())
            reader = self._readers.get(key) or Reader(context_id, Bell(self.turns), Bell(self.turns), *announced)
            self._readers[key] = reader
        reader.followers += 1
        metrics.FOLLOWERS["context"].inc()
        self._poll_from_now_on()
        try:
            yield reader
        finally:
            reader.followers -= 1  # the poll removes it, later: others may be about to read the same
            metrics.FOLLOWERS["context"].dec()

    @asynccontextmanager
    async def subscribe(
        self, *, owner: int | None = None, contexts: frozenset[uuid.UUID] = frozenset()
    ) -> AsyncIterator[Subscription]:
        subscription = Subscription(owner, contexts, self.turns)
        with self._lock:
            for topic in subscription.topics:
                self._subscriptions.setdefault(topic, set()).add(subscription)
        metrics.FOLLOWERS["subscription"].inc()
        self._poll_from_now_on()
        try:
            await self.heard(*subscription.topics)
            yield subscription
        finally:
            metrics.FOLLOWERS["subscription"].dec()
            with self._lock:
                for topic in subscription.topics:
                    self._subscriptions[topic].discard(subscription)
                    if not self._subscriptions[topic]:
                        del self._subscriptions[topic]

    def _reached(self, context_id: str, index: int, owner: str = "", settles: bool = True) -> None:
        """Called from any thread."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            self._stop_listening()
            self._own, self._readers, self._subscriptions = [], {}, {}
            self._forget_channels()
            return
        with self._lock:
            newest, settled = self._recent.pop(context_id, (0, 0))
            self._recent[context_id] = Announced(max(newest, index), max(settled, index if settles else 0))
            if len(self._recent) > MAX_RECENT:
                self._recent.pop(next(iter(self._recent)))
            is_subscribed = context_id in self._subscriptions or f"owner {owner}" in self._subscriptions
            is_followed = is_subscribed or context_id in self._readers
        if is_followed:
            with suppress(RuntimeError):  # the loop ends just now
                loop.call_soon_threadsafe(self._notify, context_id, index, owner, settles)

    def _notify(self, context_id: str, index: int, owner: str, settles: bool) -> None:
        if reader := self._readers.get(context_id):
            reader.notify(index, settles)
        for topic in (context_id, f"owner {owner}"):
            for subscription in self._subscriptions.get(topic, ()):
                subscription.notify(uuid.UUID(context_id), index)

    def _poll_from_now_on(self) -> None:
        if self._poll is None or self._poll.done():
            self._poll = asyncio.get_running_loop().create_task(self._poll_while_followed())

    async def _poll_while_followed(self) -> None:
        db.caller.set("feed")  # not who happened to follow first
        while self._readers or self._subscriptions or len(self._heard) > len(self._own):
            await asyncio.sleep(settings.FEED_POLL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
            try:
                await self._poll_readers()
                await self._poll_subscriptions()
            except Exception:
                log.warning("could not poll for new events; trying again", exc_info=True)
            self._renew_own()
            self._forget_channels()

    async def _poll_readers(self) -> None:
        """One query for all of them."""
        self._forget_readers()
        if not self._readers:
            return
        for context_id, index in await db.run(_newest_indexes, list(self._readers)):
            if reader := self._readers.get(str(context_id)):
                reader.notify(index)

    def _forget_readers(self) -> None:
        with self._lock:
            self._readers = {key: reader for key, reader in self._readers.items() if reader.followers}
        for reader in self._readers.values():
            reader.forget()

    async def _poll_subscriptions(self) -> None:
        """Two queries for all of them."""
        subscriptions = {one for of_topic in self._subscriptions.values() for one in of_topic}
        if not subscriptions:
            return
        owners = frozenset(one.owner for one in subscriptions if one.owner is not None)
        named = frozenset(context for one in subscriptions for context in one.contexts)
        now = corrected_time()
        since = min(one.last_poll.at if one.last_poll else one.started_at for one in subscriptions)
        rows: dict[str, list[ContextRow]] = defaultdict(list)
        for topic, row in await db.run(_newest_rows, owners, named, since - COMMIT_MARGIN):
            rows[topic].append(row)
        for subscription in subscriptions:
            own = [row for topic in subscription.topics for row in rows[topic]]
            subscription.last_poll = Poll(now, {context: recorded_at for context, _, recorded_at in own})
            for context, index, _ in own:
                subscription.notify(context, index)


def _newest_indexes(context_ids: list[str]) -> list[tuple[uuid.UUID, int]]:
    return list(Context.objects.filter(pk__in=context_ids).values_list("pk", "last_event"))


ContextRow = tuple[uuid.UUID, int, datetime.datetime]
"""A context, the index of its newest event, and that event's time."""


def _newest_rows(
    owners: frozenset[int], named: frozenset[uuid.UUID], since: datetime.datetime
) -> list[tuple[str, ContextRow]]:
    """The owners' contexts that changed since, and all named ones, each with its topic."""
    times = ("updated_at", "imported_at")
    changed = (
        Context.objects.listed().filter(owner__in=owners).recorded_after(since).only("owner", "last_event", *times)
    )
    some = Context.objects.filter(pk__in=named).only("last_event", *times)
    found = [(f"owner {one.owner_id}", one) for one in changed] + [(str(one.pk), one) for one in some]
    return [(topic, (one.pk, one.last_event, one.recorded_at)) for topic, one in found]


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = weakref.WeakKeyDictionary()


def running_hub() -> Hub:
    """The running event loop's hub."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub(loop)
    return _hubs[loop]
