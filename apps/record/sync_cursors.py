"""A position in all that one user has: how far a client has come, as a token that it keeps and shows again.

A position is a time and some indexes. Of a session in `moved` the client has all events up to that index; of any
other, all that were recorded up to the time. Transactions do not commit in the order of their times, so what was
recorded shortly before the time is not left to it: each session that changed within MARGIN before it is in `moved`.
An event that commits later than its time says is therefore new to every position, as long as it is late by less.
"""

from __future__ import annotations

import base64
import datetime
import struct
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from django.conf import settings
from django.core import signing
from django.db.models import OuterRef, Q, Subquery
from django.utils import timezone

from apps.accounts.principals import Principal
from apps.record.errors import InvalidParams
from apps.record.models import Context, Event
from apps.record.models.record import ContextQuerySet

MARGIN = datetime.timedelta(seconds=60)  # by which a commit may be late, and clocks may differ
MOST = 200  # sessions that a token names; of more that changed within a minute, the oldest are told again
FORMAT = 1
HEAD, ENTRY = struct.Struct(">BQ?"), struct.Struct(">16sBI")  # format, time, is read; session, index in 5 bytes
READING = struct.Struct(">QQ16s")  # times in microseconds, session
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


class PositionTooOld(Exception):
    """What happened since is not known any more. Begin again without a position."""


class Reading(NamedTuple):
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
    reading: Reading | None = None

    @property
    def window(self) -> datetime.datetime:
        """What was recorded after this time is new, but for what `moved` says."""
        return self.at - MARGIN


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


def token(principal: Principal, position: Position) -> str:
    """The position as text for this user alone; printable, and fit for URLs and headers."""
    reading = position.reading
    head = HEAD.pack(FORMAT, _microseconds(position.at), reading is not None)
    if reading is not None:
        head += READING.pack(_microseconds(reading.began), _microseconds(reading.at), reading.session.bytes)
    newest = list(position.moved.items())[-MOST:]
    entries = (ENTRY.pack(key.bytes, index >> 32, index & 0xFFFFFFFF) for key, index in newest)
    return _signer(principal).sign(base64.urlsafe_b64encode(b"".join((head, *entries))).decode())


def position_of(principal: Principal, text: str) -> Position:
    """The position of a token. Raises InvalidParams for any that this user was not given, PositionTooOld."""
    try:
        packed = base64.urlsafe_b64decode(_signer(principal).unsign(text))
        format_, microseconds, is_read = HEAD.unpack_from(packed)
    except (signing.BadSignature, ValueError, struct.error):
        raise InvalidParams("This is no position that you were given. Begin again without one.", "since") from None
    if format_ != FORMAT:
        raise InvalidParams("This position is of another version of Parley. Begin again without one.", "since")
    at = _time(microseconds)
    if timezone.now() - at > datetime.timedelta(days=settings.SYNC_DAYS):
        raise PositionTooOld
    rest, reading = packed[HEAD.size :], None
    if is_read:
        began, told, session = READING.unpack_from(rest)
        rest, reading = rest[READING.size :], Reading(_time(began), _time(told), uuid.UUID(bytes=session))
    moved = {uuid.UUID(bytes=key): (high << 32) + low for key, high, low in ENTRY.iter_unpack(rest)}
    return Position(at, moved, reading)


def _microseconds(at: datetime.datetime) -> int:
    return (at - EPOCH) // MICROSECOND


def _time(microseconds: int) -> datetime.datetime:
    return EPOCH + microseconds * MICROSECOND


def _signer(principal: Principal) -> signing.Signer:
    return signing.Signer(salt=f"record.sync_cursor.{principal.user_id}", sep=".")


def here(principal: Principal) -> Position:
    """The position of who is about to read everything. One query."""
    now = timezone.now()  # before it is looked: what is missed commits later
    return reached(now, Context.objects.ever_visible_to(principal).listed().filter(updated_at__gt=now - MARGIN))


def reached(at: datetime.datetime, rows: Iterable[Context]) -> Position:
    """The position of who has everything that these rows stand for, which were read at that time or after."""
    recent = sorted((row for row in rows if row.updated_at > at - MARGIN), key=lambda row: row.updated_at)
    return Position(at, {row.pk: row.last_event for row in recent})


def changed(principal: Principal, position: Position, limit: int = 100) -> Changes:
    """What changed in the user's sessions after a position. Two queries, whatever there is."""
    now = position.reading.began if position.reading else max(timezone.now(), position.at)
    rows = list(_rows(principal).filter(_beyond(position))[: limit + len(position.moved) + 1])
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
        position=_in_the_middle(position, now, told) if more else reached(now, rows),
        more=more,
    )


def _beyond(position: Position) -> Q:
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


def _in_the_middle(position: Position, began: datetime.datetime, told: list[Context]) -> Position:
    """The position of who was told some of the changes. It does not name them: there may be more than a token holds."""
    moved = position.moved | {row.pk: row.last_event for row in told if row.pk in position.moved}
    return Position(position.at, moved, Reading(began, told[-1].updated_at, told[-1].pk))


@dataclass(frozen=True, slots=True)
class Missed:
    """Events of a session that are new to a position: those after index `after`, up to `last` at least."""

    session: uuid.UUID
    after: int
    last: int
    begins: int  # up to where its log is that of its parents, where it is a fork
    is_deleted: bool


def missed(principal: Principal, position: Position, sessions: Collection[uuid.UUID] = ()) -> list[Missed]:
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


def _missed(row: Context, position: Position) -> Missed:
    begins, known = row.forked_at or 0, position.moved.get(row.pk)
    after = max(row.before or 0, begins) if known is None else known  # type: ignore[attr-defined]
    return Missed(row.pk, after, row.last_event, begins, row.deleted_at is not None)
