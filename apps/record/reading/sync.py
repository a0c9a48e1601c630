"""Synchronizing a client with everything one user has: its position, what it missed, and what comes now.

A position (the sync cursor) is a time and some indexes; clients keep it as a signed token. Of a session in `indexes`
the client has all events up to that index; of any other session, all events recorded up to the time. Transactions do
not commit in the order of their times, so each session that changed within COMMIT_MARGIN before the time is in
`indexes`. An event that commits later than its time says, but by less than the margin, is therefore new to every
position.

Each session's events come once and in order. All streams of a process that follow the same sessions of the same user
share one `LiveEvents`; a stream that is behind reads on by itself. A waiting stream holds no thread and no database
connection.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import itertools
import struct
import uuid
import weakref
from collections.abc import AsyncGenerator, Callable, Collection, Hashable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings
from django.core import signing
from django.db.models import Max, Min, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Greatest
from django.utils import timezone

from apps.accounts.principals import Principal
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.events import EventType
from apps.record.models import Context, ContextQuerySet, Event
from apps.record.reading import feed
from apps.record.reading.feed import COMMIT_MARGIN, Bell, Poll, running_hub
from parley import db
from parley.db.sql import corrected_time

MAX_SESSIONS = 200  # in a token; if more changed within a minute, the oldest are sent again
TOKEN_FORMAT = 1
TOKEN_HEAD = struct.Struct(">BQ?")  # format, time, has a page
TOKEN_PAGE = struct.Struct(">QQ16s")  # times in microseconds, session
TOKEN_ENTRY = struct.Struct(">16sBI")  # session, index in 5 bytes
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


class PositionTooOld(Exception):
    """What happened since is not known any more. Begin again without a position."""


class PageProgress(NamedTuple):
    """A client's place in changes read page by page: the start, and the last session."""

    started_at: datetime.datetime
    recorded_at: datetime.datetime  # of the session
    session: uuid.UUID


@dataclass(frozen=True, slots=True)
class Position:
    """What a client has: all up to `at`, some sessions up to `indexes`; with `page`, some later changes too."""

    at: datetime.datetime
    indexes: dict[uuid.UUID, int]
    page: PageProgress | None = None

    @property
    def margin_start(self) -> datetime.datetime:
        """Later events are new, unless `indexes` covers them."""
        return self.at - COMMIT_MARGIN


@dataclass(frozen=True, slots=True)
class Changes:
    """Sessions that changed after a position, in order, and the position after them.

    Attributes:
        created: sessions that are new to the client.
        deleted: sessions that the client has and that were deleted.
        more: more changes follow.
    """

    sessions: list[Context]
    created: list[uuid.UUID]
    deleted: list[uuid.UUID]
    position: Position
    more: bool


def position_token(principal: Principal, position: Position) -> str:
    """The position as signed text for this user, safe in URLs and headers."""
    page = position.page
    head = TOKEN_HEAD.pack(TOKEN_FORMAT, _microseconds(position.at), page is not None)
    if page is not None:
        head += TOKEN_PAGE.pack(_microseconds(page.started_at), _microseconds(page.recorded_at), page.session.bytes)
    newest = reversed(list(itertools.islice(reversed(position.indexes.items()), MAX_SESSIONS)))
    entries = (TOKEN_ENTRY.pack(key.bytes, index >> 32, index & 0xFFFFFFFF) for key, index in newest)
    return _signer(principal).sign(base64.urlsafe_b64encode(b"".join((head, *entries))).decode())


def parse_position(principal: Principal, text: str) -> Position:
    """The position of a token. Raises InvalidParams for a token not issued to this user, PositionTooOld."""
    try:
        packed = base64.urlsafe_b64decode(_signer(principal).unsign(text))
        format_, microseconds, has_page = TOKEN_HEAD.unpack_from(packed)
    except (signing.BadSignature, ValueError, struct.error):
        raise InvalidParams("This position is not valid. Start again without one.", "since") from None
    if format_ != TOKEN_FORMAT:
        raise InvalidParams("This position is from another version of Parley. Start again without one.", "since")
    at = _time(microseconds)
    if timezone.now() - at > datetime.timedelta(days=settings.SYNC_DAYS):
        raise PositionTooOld
    rest, page = packed[TOKEN_HEAD.size :], None
    if has_page:
        started, updated, session = TOKEN_PAGE.unpack_from(rest)
        rest, page = rest[TOKEN_PAGE.size :], PageProgress(_time(started), _time(updated), uuid.UUID(bytes=session))
    indexes = {uuid.UUID(bytes=key): (high << 32) + low for key, high, low in TOKEN_ENTRY.iter_unpack(rest)}
    return Position(at, indexes, page)


def _microseconds(at: datetime.datetime) -> int:
    return (at - EPOCH) // MICROSECOND


def _time(microseconds: int) -> datetime.datetime:
    return EPOCH + microseconds * MICROSECOND


def _signer(principal: Principal) -> signing.Signer:
    return signing.Signer(salt=f"record.sync_cursor.{principal.user_id}.{principal.workspace_id}", sep=".")


def current_position(principal: Principal, sessions: frozenset[uuid.UUID] = frozenset()) -> Position:
    """The position before reading everything, or these sessions. One query, or two.

    Raises ContextNotFound.
    """
    now = corrected_time()  # before the query: what the query misses commits later
    visible = Context.objects.ever_visible_to(principal)
    position = position_after(now, visible.listed().recorded_after(now - COMMIT_MARGIN))
    if sessions:
        newest = dict(Context.objects.ever_seen_by(principal).filter(pk__in=sessions).values_list("pk", "last_event"))
        if newest.keys() != sessions:
            raise ContextNotFound
        position.indexes.update(newest)
    return position


def position_after(at: datetime.datetime, rows: Iterable[Context]) -> Position:
    """The position after these rows, which were read at that time or later."""
    recent = sorted((row for row in rows if row.recorded_at > at - COMMIT_MARGIN), key=lambda row: row.recorded_at)
    return Position(at, {row.pk: row.last_event for row in recent})


def changes_since(principal: Principal, position: Position, limit: int = 100) -> Changes:
    """What changed in the user's sessions after a position, in at most two queries."""
    now = position.page.started_at if position.page else max(corrected_time(), position.at)
    rows = list(_changed_since(_rows(principal), position)[: limit + len(position.indexes) + 1])
    changed = [row for row in rows if row.last_event > position.indexes.get(row.pk, -1)]
    sent, more = changed[:limit], len(changed) > limit
    if not more:
        # A client that followed one session alone may lack events older than its position.
        others = position.indexes.keys() - {row.pk for row in rows}
        sent += [row for row in _rows(principal).filter(pk__in=others) if row.last_event > position.indexes[row.pk]]
    alive = [row for row in sent if row.deleted_at is None]
    return Changes(
        sessions=alive,
        created=[row.pk for row in alive if _is_new(row, position)],
        deleted=[row.pk for row in sent if row.deleted_at is not None and not _is_new(row, position)],
        position=_position_within_page(position, now, sent) if more else position_after(now, rows),
        more=more,
    )


def _changed_since(rows: ContextQuerySet, position: Position) -> ContextQuerySet:
    """Those with changes that the client may not have."""
    if position.page is None:
        return rows.recorded_after(position.margin_start)
    _, at, session = position.page
    by_index = Q(updated_at__gte=at) | Q(imported_at__gte=at)
    return rows.filter(by_index, Q(recorded__gt=at) | Q(recorded=at, pk__gt=session))


def _rows(principal: Principal) -> ContextQuerySet:
    found = Context.objects.ever_visible_to(principal).listed().select_related("agent").defer("memory")
    recorded = Greatest("updated_at", Coalesce("imported_at", "updated_at"))
    return found.alias(recorded=recorded).order_by("recorded", "pk")


def _is_new(row: Context, position: Position) -> bool:
    """Was the session begun after the position?"""
    return row.pk not in position.indexes and (row.imported_at or row.created_at) > position.margin_start


def _position_within_page(position: Position, started_at: datetime.datetime, sent: list[Context]) -> Position:
    """The position between pages. It does not name the sent sessions: a token may not hold them all."""
    indexes = position.indexes | {row.pk: row.last_event for row in sent if row.pk in position.indexes}
    return Position(position.at, indexes, PageProgress(started_at, sent[-1].recorded_at, sent[-1].pk))


@dataclass(frozen=True, slots=True)
class MissedEvents:
    """A session's events that are new to a position: after `after`, up to `last` at least."""

    session: uuid.UUID
    after: int
    last: int
    is_deleted: bool


def missed_events(
    principal: Principal, position: Position, sessions: Collection[uuid.UUID] = (), *, listed: bool = False
) -> list[MissedEvents]:
    """The events that are new to a position; with `sessions`, an entry for each of these, or of the `listed` ones.

    Two queries at most. A new fork begins with its own first event.
    """
    before = Event.objects.filter(context=OuterRef("pk"), at__lte=position.margin_start).order_by("-index")
    newest_before = Subquery(before.values("index")[:1])
    if sessions:
        some = _rows(principal) if listed else Context.objects.ever_seen_by(principal)
        return [_missed(row, position) for row in some.filter(pk__in=sessions).annotate(before=newest_before)]
    every = _rows(principal).annotate(before=newest_before)
    rows = list(every.recorded_after(position.margin_start))
    others = position.indexes.keys() - {row.pk for row in rows}
    rows += every.filter(pk__in=others) if others else ()
    return [one for row in rows if (one := _missed(row, position)).last > one.after]


def _missed(row: Context, position: Position) -> MissedEvents:
    after = position.indexes.get(row.pk)
    if after is None:
        after = max(row.before or 0, row.forked_at or 0)  # type: ignore[attr-defined]
    return MissedEvents(row.pk, after, row.last_event, row.deleted_at is not None)


type Stretch = tuple[datetime.datetime | None, list[MissedEvents]]


def first_stretch(position: Position, missed: list[MissedEvents]) -> Stretch:
    """What to read first of many missed events: those up to a time, of so many sessions that a token can name them.

    A time of None: all of it. Three queries at most.
    """
    room = max(MAX_SESSIONS - len(position.indexes), 0)
    unnamed = [one.session for one in missed if one.session not in position.indexes]
    if len(unnamed) <= room:
        return None, missed
    new = Event.objects.filter(context__in=unnamed, at__gt=position.margin_start).order_by()
    begins = new.values("context").annotate(first=Min("at")).order_by("first").values_list("first", flat=True)
    following = begins[room : room + 1].first()
    until = following - MICROSECOND if following is not None else position.at
    if until <= position.at:
        return None, missed
    newest = _newest_until(until, [one.session for one in missed])
    bounded = [replace(one, last=newest.get(one.session, 0)) for one in missed]
    return until, [one for one in bounded if one.last > one.after]


def position_at(position: Position, at: datetime.datetime) -> Position:
    """The position of a client that has all up to a time, and some sessions further. One query."""
    known = _newest_until(at - COMMIT_MARGIN, list(position.indexes))
    return Position(at, {key: index for key, index in position.indexes.items() if index > known.get(key, 0)})


def _newest_until(at: datetime.datetime, sessions: list[uuid.UUID]) -> dict[uuid.UUID, int]:
    until = Event.objects.filter(context__in=sessions, at__lte=at).order_by()
    found: Any = until.values("context").annotate(newest=Max("index")).values_list("context", "newest")
    return dict(found)


BATCH_SIZE = feed.BATCH_SIZE  # events per fetch
MAX_CONCURRENT_SESSIONS = 16  # sessions per fetch
MAX_UNLISTED = 1000  # remembered contexts that are not sessions
MAX_UNREAD = 4 * BATCH_SIZE  # live events that are kept for slow streams
MAX_SESSIONS_WITHIN = 100  # if the position has more, only the last item of a batch has a token


@dataclass(slots=True)
class SyncItem:
    """An event of a session; without one, the client must read the session again, for the `reason`.

    Attributes:
        session: the followed one: a fork's early events are recorded in its parent.
        place: the token of the position after it; empty for some items within a batch.
        shown: what `show` made of it, once for all streams.
    """

    session: uuid.UUID
    index: int
    event: Event | None
    reason: str = ""
    place: str = ""
    shown: Any = None

    @property
    def is_deletion(self) -> bool:
        return self.reason == "deleted" or (self.event is not None and self.event.type == EventType.SESSION_DELETED)


Show = Callable[[Sequence[SyncItem]], Sequence[Any]]
"""Makes what streams send of items, without their places; called on a database thread."""


class Progress:
    """Reads a user's events, or those of named sessions, from a position on.

    If more sessions have missed events than a token can name, it reads stretch by stretch of time, so that a client
    that is cut off goes on from the newest stretch.
    """

    def __init__(self, principal: Principal, position: Position, sessions: frozenset[uuid.UUID], show: Show) -> None:
        self.principal, self.sessions, self.show, self.position = principal, sessions, show, position
        self._behind: dict[uuid.UUID, int] = {}  # sessions with events to read, and their newest; the next is first
        self.recorded_at: dict[uuid.UUID, datetime.datetime] = {}  # of sessions with new events
        self._unlisted: set[uuid.UUID] = set()
        self._until: datetime.datetime | None = None  # the end of the stretch that is read now

    @property
    def is_behind(self) -> bool:
        return bool(self._behind)

    async def find_missed(self, sessions: Collection[uuid.UUID] = ()) -> None:
        """Find where each session with new events continues, or each of these."""
        of, listed = self.sessions or sessions, not self.sessions
        found = await db.run_for_stream(missed_events, self.principal, self.position, of, listed=listed)
        # Of a deleted session only its deletion is sent.
        found = [replace(one, after=max(one.after, one.last - 1)) if one.is_deleted else one for one in found]
        if not of:
            self._until, found = await db.run_for_stream(first_stretch, self.position, found)
        for missed in found:
            self.position.indexes[missed.session] = missed.after
            self._note(missed.session, missed.last)

    async def find_next_stretch(self) -> bool:
        """Go on after a stretch that was read; says whether there was one."""
        if self._until is None:
            return False
        self.position = await db.run_for_stream(position_at, self.position, self._until)
        await self.find_missed()
        return True

    async def note_announced(self, announced: dict[uuid.UUID, int]) -> None:
        """Contexts have reached these indexes; an unknown one may be a new session."""
        indexes = self.position.indexes
        for session in announced.keys() & indexes.keys():
            self._note(session, announced[session])
        if unknown := announced.keys() - indexes.keys() - self._unlisted:
            await self.find_missed(unknown)
            if len(self._unlisted) > MAX_UNLISTED:
                self._unlisted.clear()
            self._unlisted |= unknown - indexes.keys()

    def _note(self, session: uuid.UUID, newest: int) -> None:
        """A session of the position has reached this index."""
        if newest > self.position.indexes[session]:
            self._behind[session] = max(newest, self._behind.get(session, 0))

    async def read(self) -> list[SyncItem]:
        """The next items; the position moves after them."""
        sessions = list(itertools.islice(self._behind, MAX_CONCURRENT_SESSIONS))
        size = BATCH_SIZE // len(sessions)
        batches = await asyncio.gather(*(self._read_session(session, size) for session in sessions))
        items = list(itertools.chain.from_iterable(batches))
        for item, shown in zip(items, await db.run_for_stream(self.show, items), strict=True):
            self._move_after(item)
            item.shown = shown
            if item is items[-1] or len(self.position.indexes) <= MAX_SESSIONS_WITHIN:
                item.place = position_token(self.principal, self.position)
        return items

    async def _read_session(self, session: uuid.UUID, size: int) -> list[SyncItem]:
        after = self.position.indexes[session]
        with running_hub().reader(session) as reader:
            events = await reader.read(after, feed.read_present_events)
        if events and events[0].index == after + 1:
            last = self._behind[session] if self._until else events[-1].index
            return [SyncItem(session, event.index, event) for event in events[:size] if event.index <= last]
        return [await db.run_for_stream(end_of_session, session)]

    def _move_after(self, item: SyncItem) -> None:
        self.position.indexes.pop(item.session, None)  # tokens drop the first entries, so the newest goes last
        self.position.indexes[item.session] = item.index
        newest = self._behind.pop(item.session, 0)
        if item.event is not None:
            self.recorded_at[item.session] = item.event.at
            if newest > item.index:
                self._behind[item.session] = newest  # as the last

    def settle(self, poll: Poll | None) -> bool:
        """Move the position to a poll if it has everything up to it; says whether it moved."""
        if self.sessions or poll is None or poll.at <= self.position.at:
            return False
        if not poll.recorded_at.keys() <= self.position.indexes.keys():
            return False
        # Events after the poll are not in it.
        after_poll = {key: when for key, when in self.recorded_at.items() if when > poll.at}
        recorded_at = self.recorded_at | poll.recorded_at | after_poll
        self.recorded_at = {key: when for key, when in recorded_at.items() if when > poll.at - COMMIT_MARGIN}
        indexes = {key: index for key, index in self.position.indexes.items() if key in self.recorded_at}
        self.position = Position(poll.at, indexes)
        return True


class LiveEvents:
    """What happens from now on in a user's sessions, or in named ones: read and shown once for all streams.

    `place` is the token of the position after all of it. A stream that is far behind is left to itself.
    """

    def __init__(self, principal: Principal, sessions: frozenset[uuid.UUID], show: Show) -> None:
        self.principal, self.sessions, self.show = principal, sessions, show
        self.place = ""
        self.end = 0  # the number of the next item
        self._items: list[SyncItem] = []  # the newest
        self._streams: set[SyncStream] = set()
        self._bell = Bell(running_hub().turns)
        self._begun = asyncio.Event()
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(self._ended)

    async def join(self, stream: SyncStream) -> None:
        """Let the stream follow from now on."""
        self._streams.add(stream)
        await self._begun.wait()
        self._raise_error()
        stream.joined_at = self.place
        if not stream.is_behind:
            stream.number = self.end

    def leave(self, stream: SyncStream) -> None:
        self._streams.discard(stream)
        if not self._streams:
            self._reading.cancel()

    async def items_for(self, stream: SyncStream) -> list[SyncItem]:
        """Wait for the items from the stream's number on; none if it fell behind."""
        while stream.number == self.end:
            self._raise_error()
            await self._bell.wait()
        items = self._unread(stream.number)
        if stream.number is not None:
            stream.number = self.end
        return items

    def _unread(self, number: int | None) -> list[SyncItem]:
        return [] if number is None or number == self.end else self._items[number - self.end :]

    def covers(self, progress: Progress) -> bool:
        """Whether each index of this position is at or below the live one."""
        return all(self._has(progress, session, index) for session, index in progress.position.indexes.items())

    def _has(self, progress: Progress, session: uuid.UUID, index: int) -> bool:
        own = self._progress.position
        if session in own.indexes:
            return own.indexes[session] >= index
        return progress.recorded_at.get(session, own.margin_start) <= own.margin_start

    async def _read(self) -> None:
        owner = None if self.sessions else self.principal.user_id
        db.caller.set(f"{self.principal.sender}, live")  # its turns come before those of the user's many streams
        async with running_hub().subscribe(owner=owner, contexts=self.sessions) as subscription:
            self._subscription = subscription
            position = await db.run_for_stream(current_position, self.principal, self.sessions)
            self._progress = progress = Progress(self.principal, position, self.sessions, self.show)
            self.place = position_token(self.principal, position)
            self._begun.set()
            while True:
                while progress.is_behind:
                    self._publish(await progress.read())
                self.settle()
                await subscription.wait()
                await progress.note_announced(subscription.take_pending())

    def settle(self) -> None:
        """Move `place` to the newest poll, if nothing is to be read before it."""
        is_current = not (self._subscription.pending or self._progress.is_behind)
        if is_current and self._progress.settle(self._subscription.last_poll):
            self.place = position_token(self.principal, self._progress.position)

    def _publish(self, items: list[SyncItem]) -> None:
        self._items += items
        for item in items:
            if item.is_deletion:
                self._forget_before(item)
        self.end += len(items)
        self.place = items[-1].place
        numbers = {stream.number for stream in self._streams if stream.number is not None}
        oldest, position_at = max(min(numbers, default=self.end), self.end - MAX_UNREAD), cache(self._position_at)
        for stream in self._streams:
            if stream.number is not None and stream.number < oldest:
                stream.fall_behind(position_at(stream.number))
        del self._items[: len(self._items) - (self.end - oldest)]
        self._bell.ring()

    def _forget_before(self, deletion: SyncItem) -> None:
        """Send the deletion instead of earlier events of the session that a slow stream has not read yet."""
        for item in self._items:
            if item.session == deletion.session and item.index < deletion.index:
                item.event, item.reason, item.shown = deletion.event, deletion.reason, copy(deletion.shown)

    def _position_at(self, number: int) -> Position:
        """The position before the item with this number, one of the newest."""
        position = self._progress.position
        indexes = dict(position.indexes)
        for item in reversed(self._unread(number)):
            indexes[item.session] = max(item.index - 1, 0)
        return Position(position.at, indexes)

    @property
    def is_ended(self) -> bool:
        return self._reading.done() or self._reading.cancelling() > 0

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._begun.set()
        self._bell.ring()

    def _raise_error(self) -> None:
        if self._reading.done():
            self._reading.result()


_live_events: weakref.WeakValueDictionary[Hashable, LiveEvents] = weakref.WeakValueDictionary()


def live_events(principal: Principal, sessions: frozenset[uuid.UUID], show: Show) -> LiveEvents:
    """The live events that this user's streams share in this event loop, whatever their keys, of the same agents."""
    key = asyncio.get_running_loop(), principal.user_id, principal.workspace_id, principal.agents, sessions, show
    live = _live_events.get(key)
    if live is None or live.is_ended:
        live = _live_events[key] = LiveEvents(principal, sessions, show)
    return live


class SyncStream:
    """A client's stream: what it missed, then what happens. Close it at the end.

    Attributes:
        number: of the next live item; None if the stream fell behind.
        joined_at: the token of the first live position.
    """

    __slots__ = ("_is_caught_up", "_live", "_missed", "joined_at", "number")

    def __init__(self, live: LiveEvents, position: Position | None) -> None:
        self.number: int | None = None
        self.joined_at = ""
        self._live = live
        self._missed = None if position is None else self._progress_from(position)
        self._is_caught_up = False

    def _progress_from(self, position: Position) -> Progress:
        own = Position(position.at, dict(position.indexes))
        return Progress(self._live.principal, own, self._live.sessions, self._live.show)

    @property
    def is_behind(self) -> bool:
        return self._missed is not None

    @property
    def newest_place(self) -> str:
        """The token of the newest position; empty before the client has caught up."""
        if self._missed is None:
            self._live.settle()
            return self._live.place if self.number == self._live.end else ""
        return position_token(self._live.principal, self._missed.position) if self._is_caught_up else ""

    async def batches(self) -> AsyncGenerator[list[SyncItem]]:
        """New items, for as long as the caller iterates. An empty batch: the client has caught up."""
        while True:
            if self._missed is not None:
                async for batch in self._missed_batches(self._missed):
                    yield batch
                self._missed = None
            if not self._is_caught_up:
                self._is_caught_up = True
                yield []
            if items := await self._live.items_for(self):
                yield items

    async def _missed_batches(self, missed: Progress) -> AsyncGenerator[list[SyncItem]]:
        """What was missed, and what happens meanwhile, until the stream is where the live events are."""
        while True:
            if self.number is None:
                self.number = self._live.end  # first: what happens from here on may be missed, too
                await missed.find_missed()
            while missed.is_behind or await missed.find_next_stretch():
                if missed.is_behind:
                    yield await missed.read()
            if self.number == self._live.end:
                if self._live.covers(missed):
                    return
                if not self._is_caught_up:
                    self._is_caught_up = True
                    yield []
            items = await self._live.items_for(self)
            await missed.note_announced({item.session: item.index for item in items})

    def fall_behind(self, position: Position) -> None:
        """Its next items are not kept any longer; it has the position before them, unless it is catching up anyway."""
        self.number, self._is_caught_up = None, False
        self._missed = self._missed or self._progress_from(position)

    def close(self) -> None:
        self._live.leave(self)


def end_of_session(session: uuid.UUID) -> SyncItem:
    """The item for a session whose next events are gone: it was deleted, or is in cold storage."""
    context = Context.objects.filter(pk=session).only("last_event", "deleted_at").first()
    if context is None:
        return SyncItem(session, 0, None, "deleted")
    end = Event.objects.filter(context=session, index=context.last_event, type=EventType.SESSION_DELETED).first()
    return SyncItem(session, context.last_event, end, "deleted" if context.deleted_at else "archived")


async def open_stream(
    principal: Principal, sessions: frozenset[uuid.UUID], since: Position | int | None, show: Show
) -> SyncStream:
    """A stream of these sessions, or of all, from a position, an event index of one session, or now.

    Raises ContextNotFound, InvalidParams for an invalid index.
    """
    if isinstance(since, int) and len(sessions) != 1:
        raise InvalidParams("An index works for one session only. Name one session, or send a position token.", "since")
    position = since if isinstance(since, Position) else None
    if sessions:
        position = await db.run_for_stream(_starting_position, principal, sessions, since)
    live = live_events(principal, sessions, show)
    stream = SyncStream(live, position)
    try:
        await live.join(stream)
    except BaseException:
        stream.close()
        raise
    return stream


def _starting_position(
    principal: Principal, sessions: frozenset[uuid.UUID], since: Position | int | None
) -> Position | None:
    """Where a stream of these sessions starts; None for now. Raises ContextNotFound, InvalidParams."""
    now = current_position(principal, sessions)
    if not isinstance(since, int):
        return since
    for session in sessions:
        if since > now.indexes[session]:
            raise InvalidParams("The session has no event with this index yet.", "since")
        now.indexes[session] = since
    return now
