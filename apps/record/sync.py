"""Synchronizing a client with everything one user has: its position, what it missed, and what comes now.

A position (the sync cursor) is a time and some indexes; clients keep it as a signed token. Of a session in `indexes`
the client has all events up to that index; of any other session, all events recorded up to the time. Transactions do
not commit in the order of their times, so each session that changed within COMMIT_MARGIN before the time is in
`indexes`. An event that commits later than its time says, but by less than the margin, is therefore new to every
position.

Each session's events come once and in order. A waiting stream holds no thread and no database connection.
"""

from __future__ import annotations

import base64
import datetime
import struct
import uuid
from collections.abc import AsyncGenerator, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from django.conf import settings
from django.core import signing
from django.db.models import OuterRef, Q, Subquery
from django.utils import timezone

import db
from apps.accounts.principals import Principal
from apps.record import feed, lineage
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.events import EventType
from apps.record.feed import COMMIT_MARGIN, Subscription, running_hub
from apps.record.models import Context, ContextQuerySet, Event
from apps.record.sql import EVENT_RANGE

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
    updated_at: datetime.datetime  # of the session
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
        head += TOKEN_PAGE.pack(_microseconds(page.started_at), _microseconds(page.updated_at), page.session.bytes)
    newest = list(position.indexes.items())[-MAX_SESSIONS:]
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
    return signing.Signer(salt=f"record.sync_cursor.{principal.user_id}", sep=".")


def current_position(principal: Principal) -> Position:
    """The position before reading everything. One query."""
    now = timezone.now()  # before the query: what the query misses commits later
    return position_after(
        now, Context.objects.ever_visible_to(principal).listed().filter(updated_at__gt=now - COMMIT_MARGIN)
    )


def position_after(at: datetime.datetime, rows: Iterable[Context]) -> Position:
    """The position after these rows, which were read at that time or later."""
    recent = sorted((row for row in rows if row.updated_at > at - COMMIT_MARGIN), key=lambda row: row.updated_at)
    return Position(at, {row.pk: row.last_event for row in recent})


def changes_since(principal: Principal, position: Position, limit: int = 100) -> Changes:
    """What changed in the user's sessions after a position, in at most two queries."""
    now = position.page.started_at if position.page else max(timezone.now(), position.at)
    rows = list(_rows(principal).filter(_changed_since(position))[: limit + len(position.indexes) + 1])
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


def _changed_since(position: Position) -> Q:
    """The condition for sessions with changes that the client may not have."""
    if position.page is None:
        return Q(updated_at__gt=position.margin_start)
    _, at, session = position.page
    return Q(updated_at__gte=at) & (Q(updated_at__gt=at) | Q(pk__gt=session))


def _rows(principal: Principal) -> ContextQuerySet:
    found = Context.objects.ever_visible_to(principal).listed().select_related("agent").defer("memory")
    return found.order_by("updated_at", "pk")


def _is_new(row: Context, position: Position) -> bool:
    """Was the session begun after the position?"""
    return row.pk not in position.indexes and row.created_at > position.margin_start


def _position_within_page(position: Position, started_at: datetime.datetime, sent: list[Context]) -> Position:
    """The position between pages. It does not name the sent sessions: a token may not hold them all."""
    indexes = position.indexes | {row.pk: row.last_event for row in sent if row.pk in position.indexes}
    return Position(position.at, indexes, PageProgress(started_at, sent[-1].updated_at, sent[-1].pk))


@dataclass(frozen=True, slots=True)
class MissedEvents:
    """A session's events that are new to a position: after `after`, up to `last` at least."""

    session: uuid.UUID
    after: int
    last: int
    forked_at: int  # up to this index its log is its parents'; 0 for a session that is no fork
    is_deleted: bool


def missed_events(principal: Principal, position: Position, sessions: Collection[uuid.UUID] = ()) -> list[MissedEvents]:
    """The events that are new to a position; with `sessions`, an entry for each of these.

    Two queries at most. A new fork begins with its own first event.
    """
    before = Event.objects.filter(context=OuterRef("pk"), at__lte=position.margin_start).order_by("-index")
    newest_before = Subquery(before.values("index")[:1])
    if sessions:
        found = Context.objects.ever_visible_to(principal).filter(pk__in=sessions).annotate(before=newest_before)
        return [_missed(row, position) for row in found]
    listed = _rows(principal).annotate(before=newest_before)
    rows = list(listed.filter(updated_at__gt=position.margin_start))
    others = position.indexes.keys() - {row.pk for row in rows}
    rows += listed.filter(pk__in=others) if others else ()
    return [one for row in rows if (one := _missed(row, position)).last > one.after]


def _missed(row: Context, position: Position) -> MissedEvents:
    forked_at, after = row.forked_at or 0, position.indexes.get(row.pk)
    if after is None:
        after = max(row.before or 0, forked_at)  # type: ignore[attr-defined]
    return MissedEvents(row.pk, after, row.last_event, forked_at, row.deleted_at is not None)


BATCH_SIZE = feed.BATCH_SIZE  # events per fetch
MAX_CONCURRENT_SESSIONS = 16  # sessions per fetch
MAX_UNLISTED = 1000  # remembered contexts that are not sessions


@dataclass(frozen=True, slots=True)
class SyncItem:
    """An event of a session; without one, the client must read the session again, for the `reason`.

    `session` is the followed one: a fork's early events are recorded in its parent.
    """

    session: uuid.UUID
    index: int
    event: Event | None
    reason: str = ""


class SyncStream:
    """A client's stream of a user's events, or of named sessions' events.

    Attributes:
        position: what the client has; `acknowledge` advances it.
        is_caught_up: all missed events were sent.
    """

    def __init__(self, principal: Principal, position: Position, sessions: frozenset[uuid.UUID] = frozenset()) -> None:
        self.principal, self.sessions, self.position = principal, sessions, position
        self.is_caught_up = False
        self._newest: dict[uuid.UUID, int] = {}  # the newest announced index
        self._updated_at: dict[uuid.UUID, datetime.datetime] = {}  # of sessions with new events
        self._forked_at: dict[uuid.UUID, int] = {}
        self._unlisted: set[uuid.UUID] = set()
        self._subscription: Subscription | None = None

    def acknowledge(self, item: SyncItem) -> Position:
        """The client has this item; gives the position after it."""
        self.position.indexes.pop(item.session, None)  # tokens drop the first entries, so the newest goes last
        self.position.indexes[item.session] = item.index
        if item.event is not None:
            self._updated_at[item.session] = item.event.at
        return self.position

    async def batches(self) -> AsyncGenerator[list[SyncItem]]:
        """New items, for as long as the caller iterates. It must acknowledge each before the next batch.

        One batch is empty: the client has caught up, and live events follow.
        """
        owner = None if self.sessions else self.principal.user_id
        with running_hub().subscribe(owner=owner, contexts=self.sessions) as self._subscription:
            await self._find_missed()
            while True:
                if behind := self._sessions_behind():
                    yield await self._fetch(behind)
                elif not self.is_caught_up:
                    self.is_caught_up = True
                    yield []
                else:
                    self.settle()
                    await self._subscription.wait()
                    await self._note(self._subscription.take_pending())

    def settle(self) -> Position:
        """The position, advanced to the newest poll if the client has everything up to it."""
        subscription = self._subscription
        if subscription is None or subscription.pending or self.sessions or self._sessions_behind():
            return self.position
        poll = subscription.last_poll
        if poll and poll.at > self.position.at and poll.updated_at.keys() <= self.position.indexes.keys():
            # Events after the poll are not in it.
            after_poll = {key: when for key, when in self._updated_at.items() if when > poll.at}
            updated_at = self._updated_at | poll.updated_at | after_poll
            self._updated_at = {key: when for key, when in updated_at.items() if when > poll.at - COMMIT_MARGIN}
            indexes = {key: index for key, index in self.position.indexes.items() if key in self._updated_at}
            self._newest = {key: index for key, index in self._newest.items() if key in indexes}
            self.position = Position(poll.at, indexes)
        return self.position

    async def _note(self, announced: dict[uuid.UUID, int]) -> None:
        """Remember announced indexes; an unknown context may be a new session."""
        for session in announced.keys() & self.position.indexes.keys():
            self._newest[session] = max(announced[session], self._newest.get(session, 0))
        if unknown := announced.keys() - self.position.indexes.keys() - self._unlisted:
            await self._find_missed()
            if len(self._unlisted) > MAX_UNLISTED:
                self._unlisted.clear()
            self._unlisted |= unknown - self.position.indexes.keys()

    async def _find_missed(self) -> None:
        """Set where each session with new events continues."""
        for missed in await db.run(missed_events, self.principal, self.position, self.sessions):
            # Of a deleted session only its deletion is sent.
            after = max(missed.after, missed.last - 1) if missed.is_deleted else missed.after
            self.position.indexes[missed.session] = after
            self._newest[missed.session] = max(missed.last, self._newest.get(missed.session, 0))
            self._forked_at[missed.session] = missed.forked_at

    def _sessions_behind(self) -> list[uuid.UUID]:
        """Sessions with events to fetch, the least recently acknowledged first."""
        indexes = self.position.indexes
        behind = [session for session in indexes if self._newest.get(session, 0) > indexes[session]]
        return behind[:MAX_CONCURRENT_SESSIONS]

    async def _fetch(self, sessions: list[uuid.UUID]) -> list[SyncItem]:
        size = BATCH_SIZE // len(sessions)
        ranges = [(session, after := self.position.indexes[session], after + size) for session in sessions]
        own_ranges = tuple(one for one in ranges if not self._is_of_a_parent(one))
        found = await running_hub().fetch(read_ranges, own_ranges)
        items = []
        for one in ranges:
            session, after, _ = one
            is_of_a_parent = self._is_of_a_parent(one)
            events = await running_hub().fetch(read_fork_range, *one) if is_of_a_parent else found[session]
            items += await self._items(session, after, events)
        return items

    def _is_of_a_parent(self, range_: tuple[uuid.UUID, int, int]) -> bool:
        session, after, _ = range_
        return after < self._forked_at.get(session, 0)

    async def _items(self, session: uuid.UUID, after: int, events: list[Event]) -> list[SyncItem]:
        if events and events[0].index == after + 1:
            return [SyncItem(session, event.index, event) for event in events]
        end = await db.run(end_of_session, session)
        self._newest[session] = end.index
        return [end]


def read_ranges(ranges: tuple[tuple[uuid.UUID, int, int], ...]) -> dict[uuid.UUID, list[Event]]:
    """Each session's own events after one index, up to another; in one query."""
    found: dict[uuid.UUID, list[Event]] = {session: [] for session, _, _ in ranges}
    if len(ranges) == 1:
        return {ranges[0][0]: EVENT_RANGE.all(*ranges[0])}
    some = Q()
    for session, after, upto in ranges:
        some |= Q(context=session, index__gt=after, index__lte=upto)
    for event in Event.objects.filter(some).order_by("context_id", "index") if ranges else ():
        found[event.context_id].append(event)
    return found


def read_fork_range(session: uuid.UUID, after: int, upto: int) -> list[Event]:
    """The same for one session, with the events that a fork shares with its parents."""
    return list(lineage.events(Context.objects.get(pk=session), after, upto))


def end_of_session(session: uuid.UUID) -> SyncItem:
    """The item for a session whose next events are gone: it was deleted, or is in cold storage."""
    context = Context.objects.filter(pk=session).only("last_event", "deleted_at").first()
    if context is None:
        return SyncItem(session, 0, None, "deleted")
    end = Event.objects.filter(context=session, index=context.last_event, type=EventType.SESSION_DELETED).first()
    return SyncItem(session, context.last_event, end, "deleted" if context.deleted_at else "archived")


def open_stream(principal: Principal, sessions: frozenset[uuid.UUID], since: Position | int | None) -> SyncStream:
    """A stream of these sessions, or of all, from a position, an event index of one session, or now.

    Raises ContextNotFound, InvalidParams for an invalid index.
    """
    now = current_position(principal)
    found = Context.objects.ever_visible_to(principal).filter(pk__in=sessions)
    last = dict(found.values_list("pk", "last_event"))
    if last.keys() != sessions:
        raise ContextNotFound
    if isinstance(since, Position):
        return SyncStream(principal, since, sessions)
    if isinstance(since, int):
        if len(sessions) != 1:
            raise InvalidParams(
                "An index works for one session only. Name one session, or send a position token.", "since"
            )
        if since > min(last.values()):
            raise InvalidParams("The session has no event with this index yet.", "since")
        last = dict.fromkeys(last, since)
    return SyncStream(principal, Position(now.at, now.indexes | last), sessions)
