"""Synchronizing a client with all that one user has: how far it has come, what it missed, and what comes now.

A position is a time and some indexes; the client keeps it as a token and shows it again. Of a session in `moved` the
client has all events up to that index; of any other, all that were recorded up to the time. Transactions do not commit
in the order of their times, so what was recorded shortly before the time is not left to it: each session that changed
within COMMIT_MARGIN before it is in `moved`. An event that commits later than its time says is therefore new to every
position, as long as it is late by less.

Of each session the events come once and in order. A follower that waits holds no thread and no database connection.
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
from apps.record.feed import COMMIT_MARGIN, Subscription, subscription_hub
from apps.record.models import Context, ContextQuerySet, Event
from apps.record.sql import EVENT_RANGE

MAX_SESSIONS = 200  # sessions that a token names; of more that changed within a minute, the oldest are told again
TOKEN_FORMAT = 1
TOKEN_HEAD, TOKEN_ENTRY = (
    struct.Struct(">BQ?"),
    struct.Struct(">16sBI"),
)  # format, time, is read; session, index in 5 bytes
TOKEN_PAGE = struct.Struct(">QQ16s")  # times in microseconds, session
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


class PositionTooOld(Exception):
    """What happened since is not known any more. Begin again without a position."""


class PageProgress(NamedTuple):
    """How far one is in what changed, read page by page: when that began, and the last session that was told of."""

    began: datetime.datetime
    at: datetime.datetime
    session: uuid.UUID


@dataclass(frozen=True, slots=True)
class Position:
    """Up to when (`at`), and of each session that changed about then or since, up to which event (`moved`).

    With `reading` some of what comes after it was told already: whatever changed up to that session, as it was then.
    """

    at: datetime.datetime
    moved: dict[uuid.UUID, int]
    reading: PageProgress | None = None

    @property
    def window(self) -> datetime.datetime:
        """What was recorded after this time is new, but for what `moved` says."""
        return self.at - COMMIT_MARGIN


@dataclass(frozen=True, slots=True)
class Changes:
    """Sessions that changed after a position, those that changed first first, and the position after them.

    Attributes:
        created: those of `sessions` that are new to the client.
        deleted: sessions that the client knew and that are gone.
        more: there are more changes after the new position.
    """

    sessions: list[Context]
    created: list[uuid.UUID]
    deleted: list[uuid.UUID]
    position: Position
    more: bool


def position_token(principal: Principal, position: Position) -> str:
    """The position as text for this user alone; printable, and fit for URLs and headers."""
    reading = position.reading
    head = TOKEN_HEAD.pack(TOKEN_FORMAT, _microseconds(position.at), reading is not None)
    if reading is not None:
        head += TOKEN_PAGE.pack(_microseconds(reading.began), _microseconds(reading.at), reading.session.bytes)
    newest = list(position.moved.items())[-MAX_SESSIONS:]
    entries = (TOKEN_ENTRY.pack(key.bytes, index >> 32, index & 0xFFFFFFFF) for key, index in newest)
    return _signer(principal).sign(base64.urlsafe_b64encode(b"".join((head, *entries))).decode())


def parse_position(principal: Principal, text: str) -> Position:
    """The position of a token. Raises InvalidParams for any that this user was not given, PositionTooOld."""
    try:
        packed = base64.urlsafe_b64decode(_signer(principal).unsign(text))
        format_, microseconds, is_read = TOKEN_HEAD.unpack_from(packed)
    except (signing.BadSignature, ValueError, struct.error):
        raise InvalidParams("This is no position that you were given. Begin again without one.", "since") from None
    if format_ != TOKEN_FORMAT:
        raise InvalidParams("This position is of another version of Parley. Begin again without one.", "since")
    at = _time(microseconds)
    if timezone.now() - at > datetime.timedelta(days=settings.SYNC_DAYS):
        raise PositionTooOld
    rest, reading = packed[TOKEN_HEAD.size :], None
    if is_read:
        began, told, session = TOKEN_PAGE.unpack_from(rest)
        rest, reading = rest[TOKEN_PAGE.size :], PageProgress(_time(began), _time(told), uuid.UUID(bytes=session))
    moved = {uuid.UUID(bytes=key): (high << 32) + low for key, high, low in TOKEN_ENTRY.iter_unpack(rest)}
    return Position(at, moved, reading)


def _microseconds(at: datetime.datetime) -> int:
    return (at - EPOCH) // MICROSECOND


def _time(microseconds: int) -> datetime.datetime:
    return EPOCH + microseconds * MICROSECOND


def _signer(principal: Principal) -> signing.Signer:
    return signing.Signer(salt=f"record.sync_cursor.{principal.user_id}", sep=".")


def current_position(principal: Principal) -> Position:
    """The position of who is about to read everything. One query."""
    now = timezone.now()  # before it is looked: what is missed commits later
    return position_after(
        now, Context.objects.ever_visible_to(principal).listed().filter(updated_at__gt=now - COMMIT_MARGIN)
    )


def position_after(at: datetime.datetime, rows: Iterable[Context]) -> Position:
    """The position of who has everything that these rows stand for, which were read at that time or after."""
    recent = sorted((row for row in rows if row.updated_at > at - COMMIT_MARGIN), key=lambda row: row.updated_at)
    return Position(at, {row.pk: row.last_event for row in recent})


def changes_since(principal: Principal, position: Position, limit: int = 100) -> Changes:
    """What changed in the user's sessions after a position. Two queries, whatever there is."""
    now = position.reading.began if position.reading else max(timezone.now(), position.at)
    rows = list(_rows(principal).filter(_changed_since(position))[: limit + len(position.moved) + 1])
    changed = [row for row in rows if row.last_event > position.moved.get(row.pk, -1)]
    told, more = changed[:limit], len(changed) > limit
    if not more:
        # Of a session that is followed by itself, the client may lack what is older than its position.
        elsewhere = position.moved.keys() - {row.pk for row in rows}
        told += [row for row in _rows(principal).filter(pk__in=elsewhere) if row.last_event > position.moved[row.pk]]
    known = [row for row in told if row.deleted_at is None or not _is_new(row, position)]
    return Changes(
        sessions=[row for row in known if row.deleted_at is None],
        created=[row.pk for row in known if row.deleted_at is None and _is_new(row, position)],
        deleted=[row.pk for row in known if row.deleted_at is not None],
        position=_position_within_page(position, now, told) if more else position_after(now, rows),
        more=more,
    )


def _changed_since(position: Position) -> Q:
    """Of sessions in their order, those of which the client may not have been told."""
    if position.reading is None:
        return Q(updated_at__gt=position.window)
    _, at, session = position.reading
    return Q(updated_at__gte=at) & (Q(updated_at__gt=at) | Q(pk__gt=session))


def _rows(principal: Principal) -> ContextQuerySet:
    found = Context.objects.ever_visible_to(principal).listed().select_related("agent").defer("memory")
    return found.order_by("updated_at", "pk")


def _is_new(row: Context, position: Position) -> bool:
    """Was the session begun after the position?"""
    return row.pk not in position.moved and row.created_at > position.window


def _position_within_page(position: Position, began: datetime.datetime, told: list[Context]) -> Position:
    """The position of who was told some of the changes. It does not name them: there may be more than a token holds."""
    moved = position.moved | {row.pk: row.last_event for row in told if row.pk in position.moved}
    return Position(position.at, moved, PageProgress(began, told[-1].updated_at, told[-1].pk))


@dataclass(frozen=True, slots=True)
class MissedEvents:
    """Events of a session that are new to a position: those after index `after`, up to `last` at least."""

    session: uuid.UUID
    after: int
    last: int
    begins: int  # up to where its log is that of its parents, where it is a fork
    is_deleted: bool


def missed_events(principal: Principal, position: Position, sessions: Collection[uuid.UUID] = ()) -> list[MissedEvents]:
    """What of all that the user has is new to a position, as indexes; or of some sessions, with those that have nothing
    new too.

    Two queries at most. A fork that is new begins with its own first event: what it shares with its parent is not told
    again.
    """
    before = Event.objects.filter(context=OuterRef("pk"), at__lte=position.window).order_by("-index")
    known = Subquery(before.values("index")[:1])
    if sessions:
        found = Context.objects.ever_visible_to(principal).filter(pk__in=sessions).annotate(before=known)
        return [_missed(row, position) for row in found]
    listed = _rows(principal).annotate(before=known)
    rows = list(listed.filter(updated_at__gt=position.window))
    elsewhere = position.moved.keys() - {row.pk for row in rows}
    rows += listed.filter(pk__in=elsewhere) if elsewhere else ()
    return [one for row in rows if (one := _missed(row, position)).last > one.after]


def _missed(row: Context, position: Position) -> MissedEvents:
    begins, known = row.forked_at or 0, position.moved.get(row.pk)
    after = max(row.before or 0, begins) if known is None else known  # type: ignore[attr-defined]
    return MissedEvents(row.pk, after, row.last_event, begins, row.deleted_at is not None)


BATCH_SIZE = feed.BATCH_SIZE  # events read at once
MAX_CONCURRENT_SESSIONS = 16  # sessions whose events are read at once
MAX_UNLISTED = 1000  # contexts that are no sessions, of which it is remembered that they are none


@dataclass(frozen=True, slots=True)
class SyncItem:
    """An event of a session; or, without one, that the client has to read the session anew, and why.

    `session` is the one that is followed: what a fork shares with its parent is recorded there.
    """

    session: uuid.UUID
    index: int
    event: Event | None
    reason: str = ""


class SyncStream:
    """One client's way through all that a user has, or through the sessions that it names.

    Attributes:
        position: how far the client has come; who hands on what is told moves it, by `take`.
        is_caught_up: all that was missed has been told.
    """

    def __init__(self, principal: Principal, position: Position, sessions: frozenset[uuid.UUID] = frozenset()) -> None:
        self.principal, self.sessions, self.position = principal, sessions, position
        self.is_caught_up = False
        self._last: dict[uuid.UUID, int] = {}  # the newest index that is known
        self._changed: dict[uuid.UUID, datetime.datetime] = {}  # when that was, of those in which something happened
        self._begins: dict[uuid.UUID, int] = {}  # of forks: before which index their log is that of their parents
        self._unlisted: set[uuid.UUID] = set()
        self._ear: Subscription | None = None

    def take(self, told: SyncItem) -> Position:
        """The client has been told this: its position after that."""
        self.position.moved.pop(told.session, None)  # the newest stands last
        self.position.moved[told.session] = told.index
        if told.event is not None:
            self._changed[told.session] = told.event.at
        return self.position

    async def batches(self) -> AsyncGenerator[list[SyncItem]]:
        """What is new, for as long as the caller iterates; each of it is to be taken before the next batch.

        One batch is empty: after it comes what happens from then on.
        """
        owner = None if self.sessions else self.principal.user_id
        with subscription_hub().ear(owner=owner, contexts=self.sessions) as self._ear:
            await self._look()
            while True:
                if wanted := self._wanted():
                    yield await self._read(wanted)
                elif not self.is_caught_up:
                    self.is_caught_up = True
                    yield []
                else:
                    self.settle()
                    await self._ear.news()
                    await self._hear(self._ear.take())

    def settle(self) -> Position:
        """The position, its time moved on to the newest at which the client has all that there was."""
        ear = self._ear
        if ear is not None and ear.looked and ear.is_silent and not self.sessions and not self._wanted():
            at, changed_at = ear.looked
            if at > self.position.at and changed_at.keys() <= self.position.moved.keys():
                # What happened after that look is not in it.
                changed = self._changed | changed_at
                changed |= {key: when for key, when in self._changed.items() if when > at}
                self._changed = {key: when for key, when in changed.items() if when > at - feed.COMMIT_MARGIN}
                moved = {key: index for key, index in self.position.moved.items() if key in self._changed}
                self._last = {key: index for key, index in self._last.items() if key in moved}
                self.position = Position(at, moved)
        return self.position

    async def _hear(self, told: dict[uuid.UUID, int]) -> None:
        for session in told.keys() & self.position.moved.keys():
            self._last[session] = max(told[session], self._last.get(session, 0))
        if unknown := told.keys() - self.position.moved.keys() - self._unlisted:
            await self._look()
            if len(self._unlisted) > MAX_UNLISTED:
                self._unlisted.clear()
            self._unlisted |= unknown - self.position.moved.keys()

    async def _look(self) -> None:
        """Find out, for sessions of which nothing is known yet, from where on they are new."""
        for missed in await db.run(missed_events, self.principal, self.position, self.sessions):
            # Of what was deleted nothing is told but that.
            after = max(missed.after, missed.last - 1) if missed.is_deleted else missed.after
            self.position.moved[missed.session] = after
            self._last[missed.session] = max(missed.last, self._last.get(missed.session, 0))
            self._begins[missed.session] = missed.begins

    def _wanted(self) -> list[uuid.UUID]:
        """Sessions with something new, the one that was heard of least recently first."""
        have = self.position.moved
        return [session for session in have if self._last.get(session, 0) > have[session]][:MAX_CONCURRENT_SESSIONS]

    async def _read(self, wanted: list[uuid.UUID]) -> list[SyncItem]:
        size = BATCH_SIZE // len(wanted)
        stretches = [(session, after := self.position.moved[session], after + size) for session in wanted]
        found = await subscription_hub().read(
            read_ranges, tuple(one for one in stretches if not self._is_of_a_parent(one))
        )
        told = []
        for stretch in stretches:
            session, after, _ = stretch
            events = (
                await subscription_hub().read(read_fork_range, *stretch)
                if self._is_of_a_parent(stretch)
                else found[session]
            )
            told += await self._told(session, after, events)
        return told

    def _is_of_a_parent(self, stretch: tuple[uuid.UUID, int, int]) -> bool:
        session, after, _ = stretch
        return after < self._begins.get(session, 0)

    async def _told(self, session: uuid.UUID, after: int, events: list[Event]) -> list[SyncItem]:
        if events and events[0].index == after + 1:
            return [SyncItem(session, event.index, event) for event in events]
        told = await db.run(end_of_session, session)
        self._last[session] = told.index
        return [told]


def read_ranges(stretches: tuple[tuple[uuid.UUID, int, int], ...]) -> dict[uuid.UUID, list[Event]]:
    """Of each session the events that it recorded itself after one index, up to another; in one query."""
    found: dict[uuid.UUID, list[Event]] = {session: [] for session, _, _ in stretches}
    if len(stretches) == 1:
        return {stretches[0][0]: EVENT_RANGE.all(*stretches[0])}
    some = Q()
    for session, after, upto in stretches:
        some |= Q(context=session, index__gt=after, index__lte=upto)
    for event in Event.objects.filter(some).order_by("context_id", "index") if stretches else ():
        found[event.context_id].append(event)
    return found


def read_fork_range(session: uuid.UUID, after: int, upto: int) -> list[Event]:
    """The same of one session, with what a fork shares with its parent."""
    return list(lineage.events(Context.objects.get(pk=session), after, upto))


def end_of_session(session: uuid.UUID) -> SyncItem:
    """What to tell of a session whose next events are not in its log: it was deleted, or put into cold storage."""
    context = Context.objects.filter(pk=session).only("last_event", "deleted_at").first()
    if context is None:
        return SyncItem(session, 0, None, "deleted")
    end = Event.objects.filter(context=session, index=context.last_event, type=EventType.SESSION_DELETED).first()
    return SyncItem(session, context.last_event, end, "deleted" if context.deleted_at else "archived")


def open_stream(principal: Principal, sessions: frozenset[uuid.UUID], since: Position | int | None) -> SyncStream:
    """A client that follows these sessions, or all it has, from a position, from an event of one session, or from now.

    Raises ContextNotFound for a session that the caller never had, InvalidParams for an index that is none.
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
            raise InvalidParams("An index says where to begin in one session. Name one, or give a position.", "since")
        if since > min(last.values()):
            raise InvalidParams("The session has no such event yet.", "since")
        last = dict.fromkeys(last, since)
    return SyncStream(principal, Position(now.at, now.moved | last), sessions)
