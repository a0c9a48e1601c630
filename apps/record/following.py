"""Following many sessions at once, from a position on: what is new to it, then what is being recorded.

Of each session the events come once and in order. A follower that waits holds no thread and no database connection.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from django.db.models import Q

import db
from apps.accounts.principals import Principal
from apps.record import feed, lineage, sync_cursors
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.events import EventType
from apps.record.models import Context, Event
from apps.record.owner_feed import Ear, exchange
from apps.record.sync_cursors import Position
from db.selections import Selection

BATCH = feed.BATCH  # events read at once
SIDE_BY_SIDE = 16  # sessions whose events are read at once
MOST_UNLISTED = 1000  # contexts that are no sessions, of which it is remembered that they are none
RANGE = Selection(
    lambda context, after, upto: Event.objects.filter(context_id=context, index__gt=after, index__lte=upto).order_by(
        "index"
    ),
    uuid.UUID(int=0),
    0,
    1,
)


@dataclass(frozen=True, slots=True)
class Told:
    """An event of a session; or, without one, that the client has to read the session anew, and why.

    `session` is the one that is followed: what a fork shares with its parent is recorded there.
    """

    session: uuid.UUID
    index: int
    event: Event | None
    reason: str = ""


class Following:
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
        self._ear: Ear | None = None

    def take(self, told: Told) -> Position:
        """The client has been told this: its position after that."""
        self.position.moved.pop(told.session, None)  # the newest stands last
        self.position.moved[told.session] = told.index
        if told.event is not None:
            self._changed[told.session] = told.event.at
        return self.position

    async def batches(self) -> AsyncGenerator[list[Told]]:
        """What is new, for as long as the caller iterates; each of it is to be taken before the next batch.

        One batch is empty: after it comes what happens from then on.
        """
        owner = None if self.sessions else self.principal.user_id
        with exchange().ear(owner=owner, contexts=self.sessions) as self._ear:
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
                self._changed = {key: when for key, when in changed.items() if when > at - sync_cursors.MARGIN}
                moved = {key: index for key, index in self.position.moved.items() if key in self._changed}
                self._last = {key: index for key, index in self._last.items() if key in moved}
                self.position = Position(at, moved)
        return self.position

    async def _hear(self, told: dict[uuid.UUID, int]) -> None:
        for session in told.keys() & self.position.moved.keys():
            self._last[session] = max(told[session], self._last.get(session, 0))
        if unknown := told.keys() - self.position.moved.keys() - self._unlisted:
            await self._look()
            if len(self._unlisted) > MOST_UNLISTED:
                self._unlisted.clear()
            self._unlisted |= unknown - self.position.moved.keys()

    async def _look(self) -> None:
        """Find out, for sessions of which nothing is known yet, from where on they are new."""
        for missed in await db.run(sync_cursors.missed, self.principal, self.position, self.sessions):
            # Of what was deleted nothing is told but that.
            after = max(missed.after, missed.last - 1) if missed.is_deleted else missed.after
            self.position.moved[missed.session] = after
            self._last[missed.session] = max(missed.last, self._last.get(missed.session, 0))
            self._begins[missed.session] = missed.begins

    def _wanted(self) -> list[uuid.UUID]:
        """Sessions with something new, the one that was heard of least recently first."""
        have = self.position.moved
        return [session for session in have if self._last.get(session, 0) > have[session]][:SIDE_BY_SIDE]

    async def _read(self, wanted: list[uuid.UUID]) -> list[Told]:
        size = BATCH // len(wanted)
        stretches = [(session, after := self.position.moved[session], after + size) for session in wanted]
        found = await exchange().read(recorded, tuple(one for one in stretches if not self._is_of_a_parent(one)))
        told = []
        for stretch in stretches:
            session, after, _ = stretch
            events = await exchange().read(composed, *stretch) if self._is_of_a_parent(stretch) else found[session]
            told += await self._told(session, after, events)
        return told

    def _is_of_a_parent(self, stretch: tuple[uuid.UUID, int, int]) -> bool:
        session, after, _ = stretch
        return after < self._begins.get(session, 0)

    async def _told(self, session: uuid.UUID, after: int, events: list[Event]) -> list[Told]:
        if events and events[0].index == after + 1:
            return [Told(session, event.index, event) for event in events]
        told = await db.run(lost, session)
        self._last[session] = told.index
        return [told]


def recorded(stretches: tuple[tuple[uuid.UUID, int, int], ...]) -> dict[uuid.UUID, list[Event]]:
    """Of each session the events that it recorded itself after one index, up to another; in one query."""
    found: dict[uuid.UUID, list[Event]] = {session: [] for session, _, _ in stretches}
    if len(stretches) == 1:
        return {stretches[0][0]: RANGE.all(*stretches[0])}
    some = Q()
    for session, after, upto in stretches:
        some |= Q(context=session, index__gt=after, index__lte=upto)
    for event in Event.objects.filter(some).order_by("context_id", "index") if stretches else ():
        found[event.context_id].append(event)
    return found


def composed(session: uuid.UUID, after: int, upto: int) -> list[Event]:
    """The same of one session, with what a fork shares with its parent."""
    return list(lineage.events(Context.objects.get(pk=session), after, upto))


def lost(session: uuid.UUID) -> Told:
    """What to tell of a session whose next events are not in its log: it was deleted, or put into cold storage."""
    context = Context.objects.filter(pk=session).only("last_event", "deleted_at").first()
    if context is None:
        return Told(session, 0, None, "deleted")
    end = Event.objects.filter(context=session, index=context.last_event, type=EventType.SESSION_DELETED).first()
    return Told(session, context.last_event, end, "deleted" if context.deleted_at else "archived")


def begin(principal: Principal, sessions: frozenset[uuid.UUID], since: Position | int | None) -> Following:
    """A client that follows these sessions, or all it has, from a position, from an event of one session, or from now.

    Raises ContextNotFound for a session that the caller never had, InvalidParams for an index that is none.
    """
    now = sync_cursors.here(principal)
    found = Context.objects.ever_visible_to(principal).filter(pk__in=sessions)
    last = dict(found.values_list("pk", "last_event"))
    if last.keys() != sessions:
        raise ContextNotFound
    if isinstance(since, Position):
        return Following(principal, since, sessions)
    if isinstance(since, int):
        if len(sessions) != 1:
            raise InvalidParams("An index says where to begin in one session. Name one, or give a position.", "since")
        if since > min(last.values()):
            raise InvalidParams("The session has no such event yet.", "since")
        last = dict.fromkeys(last, since)
    return Following(principal, Position(now.at, now.moved | last), sessions)
