"""Server-sent events: live (`GET /events`) and replayed (`GET /sessions/{id}/play`).

`consumers` sends the live ones over a WebSocket.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings
from django.http import QueryDict
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.exceptions import APIException, NotAuthenticated
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from apps.accounts.principals import Principal
from apps.accounts.requests.authentication import WORKSPACE_HEADER, OpenStream, request_principal
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Choice, Query, Token
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON, Slugs, event_json, events_json, slugs_in
from apps.limits import current as limits
from apps.record import lineage, wire
from apps.record.errors import InvalidParams
from apps.record.events import EventType
from apps.record.models import Context, Event
from apps.record.reading import sync
from apps.record.reading.lookup import find_session
from apps.record.reading.sync import PositionTooOld, SyncItem, SyncStream
from parley import db

MAX_SESSIONS = 200  # in one request


class Frames(BaseRenderer):
    """Accepts `text/event-stream`."""

    media_type, format = "text/event-stream", "events"


class EventsQuery(Query):
    session_ids = serializers.ListField(
        child=serializers.UUIDField(),
        default=list,
        max_length=MAX_SESSIONS,
        help_text="Only events of these sessions. By default events of all your sessions, including new ones.",
    )
    since = Token(
        max_length=10_000,
        help_text="The position after which the stream starts: a token, or the index of an event if you "
        "name exactly one session. The header `Last-Event-ID` takes precedence. Without either, "
        "the stream starts now.",
    )
    types = serializers.ListField(
        child=Choice(choices=EventType.values),
        default=list,
        help_text="Only events of these types.",
    )

    def __init__(self, *, data: QueryDict | None = None, **options: Any) -> None:
        """Also accepts `session_ids[]`, as forms spell it."""
        named = QueryDict(mutable=True)
        for name, values in (data or named).lists():
            named.setlist(name.removesuffix("[]"), named.getlist(name.removesuffix("[]")) + values)
        super().__init__(data=named, **options)


class Events(Endpoint):
    renderer_classes = [Frames, *Endpoint.renderer_classes]

    @documented(
        "events_follow",
        "Stream events of your sessions",
        query=EventsQuery,
        answers={(200, "text/event-stream"): OpenApiTypes.STR},
        refuses=(404,),
    )
    async def get(self, request: Request) -> wire.EventStream:
        """The response is a stream of server-sent events. It has each session's events after the given position,
        in order, followed by new events as they happen.

        The name of a server-sent event is the event's `type`. Its data is an Event. Its `id` is a position in all
        sessions that you follow. Send it back as `Last-Event-ID` to continue after that event; browsers do this
        automatically. If more than 100 sessions changed lately, only the last of several events has an `id`; it may
        come in a comment after them. The events of a new fork start with the first event of its own.

        The event `reset` means that you must read a session again. `sessionId` names the session; null means all
        sessions. The `reason` is `too_old` if you were disconnected for too long, `deleted` if the session was
        deleted, or `archived` if it was moved to cold storage.

        Store events by session and index, because an event may be sent twice after a reconnection.
        """
        asked = self.query(EventsQuery)
        since = request.headers.get("Last-Event-ID", "") or asked["since"]
        ended = limits.open_stream(self.principal, self.address)
        try:
            follower = await follow(self.principal, asked["session_ids"], since, asked["types"])
        except BaseException:
            ended()
            raise

        return wire.EventStream(_live_frames(follower, _access_check(self)), partial(_end, follower, ended))


def _end(follower: Follower, ended: Callable[[], None]) -> None:
    follower.close()
    ended()


def _live_frames(follower: Follower, check: wire.AccessCheck) -> AsyncGenerator[bytes]:
    """Frames; once caught up, heartbeats carry the position. Who loses access learns why from the next request."""
    lost = [wire.sse_frame(TOO_OLD, event=RESET)] if follower.is_lost else []
    first = [wire.STREAM_STARTED, *lost]
    return wire.with_heartbeats(follower.batches(), partial(_say, follower), follower.heartbeat, check, first=first)


def _say(follower: Follower, batch: Batch | None) -> Iterator[bytes]:
    if batch is None:
        yield follower.heartbeat()
        return
    yield from map(_frame, batch.items)
    if not batch.items[-1].place:
        yield wire.HEARTBEAT_WITH_ID % batch.place.encode()


def _access_check(endpoint: Endpoint) -> wire.AccessCheck:
    """Keeps of the request only what says who the caller is."""
    meta, cookies = endpoint.request.META, endpoint.request.COOKIES
    session = settings.SESSION_COOKIE_NAME
    said = {name: meta[name] for name in IDENTIFYING if name in meta}
    cookie = {session: cookies[session]} if session in cookies else {}
    key = endpoint.principal, said.get("HTTP_AUTHORIZATION"), cookie.get(session)
    return wire.AccessCheck.shared(key, partial(_find_refusal, endpoint.principal, said, cookie))


IDENTIFYING = "HTTP_AUTHORIZATION", f"HTTP_{WORKSPACE_HEADER.upper().replace('-', '_')}", "REMOTE_ADDR"


def _find_refusal(principal: Principal, meta: dict[str, str], cookies: dict[str, str]) -> Exception | None:
    """Why the caller has no access any more."""
    again = OpenStream()
    again.method, again.META, again.COOKIES = "GET", meta, cookies
    request = Endpoint().initialize_request(again)
    try:
        return None if request_principal(request) == principal else NotAuthenticated()
    except APIException as refusal:
        return refusal


RESET = "reset"
TOO_OLD: JSON = {"sessionId": None, "reason": "too_old"}
"""The reset of who has been away for too long: it must read everything again."""


@dataclass(slots=True)
class StreamEvent:
    """An event as all streams send it: its data as JSON, and the server-sent event once it is made."""

    name: str
    text: str
    frame: bytes = b""


def show(items: Sequence[SyncItem]) -> list[StreamEvent]:
    """At most one query; what other streams made of the same events is used."""
    slugs = slugs_in(item.event for item in items if item.event and item.session not in item.event.shown)
    return [_stream_event(item, slugs) for item in items]


def _stream_event(item: SyncItem, slugs: Slugs) -> StreamEvent:
    if item.event is None:
        return StreamEvent(RESET, wire.json_text({"sessionId": str(item.session), "reason": item.reason}))
    shown = item.event.shown
    if item.session not in shown:
        shown[item.session] = wire.json_text(event_json(item.session, item.event, slugs))
    return StreamEvent(item.event.type, shown[item.session])


def _frame(item: SyncItem) -> bytes:
    said: StreamEvent = item.shown
    said.frame = said.frame or wire.text_frame(said.text, id_=item.place or None, event=said.name)
    return said.frame


class Batch(NamedTuple):
    """Items with StreamEvents, and the position after them."""

    items: list[SyncItem]
    place: str


@dataclass(frozen=True, slots=True)
class Follower:
    """A client that follows sessions; without `types` all events.

    `is_lost`: the position was too old; it follows from now on.
    """

    principal: Principal
    stream: SyncStream
    types: Collection[str] = field(default_factory=frozenset)
    is_lost: bool = False

    async def batches(self) -> AsyncGenerator[Batch | None]:
        """Events as they come. None means that the client has caught up. Ends when a session is private again."""
        async with aclosing(self.stream.batches()) as batches:
            async for batch in batches:
                if batch and await self._lost_access(batch):
                    return
                if not batch:
                    yield None
                elif wanted := [item for item in batch if self._wants(item)] if self.types else batch:
                    yield Batch(wanted, batch[-1].place)

    async def _lost_access(self, batch: Sequence[SyncItem]) -> bool:
        changed = {one.session for one in batch if one.event and one.event.type == EventType.SESSION_SHARED}
        if not changed:
            return False
        seen = Context.objects.ever_seen_by(self.principal).filter(pk__in=changed)
        return await db.run(seen.count) < len(changed)

    def _wants(self, item: SyncItem) -> bool:
        return item.event is None or item.event.type in self.types

    @property
    def newest_place(self) -> str:
        """The newest position; empty before the client has caught up."""
        return self.stream.newest_place

    def heartbeat(self) -> bytes:
        place = self.newest_place.encode()
        return wire.HEARTBEAT_WITH_ID % place if place else wire.HEARTBEAT

    def close(self) -> None:
        self.stream.close()


async def follow(principal: Principal, sessions: Collection[uuid.UUID], since: str, types: Collection[str]) -> Follower:
    """Follow these sessions, or all, from a token, from an index, or from now on. Close it at the end.

    Raises ContextNotFound, InvalidParams.
    """
    place, is_lost = None, False
    try:
        place = int(since) if is_index(since) else sync.parse_position(principal, since) if since else None
    except PositionTooOld:
        is_lost = True
    stream = await sync.open_stream(principal, frozenset(sessions), place, show)
    return Follower(principal, stream, frozenset(types), is_lost)


def is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


READ_BATCH = 200  # events
END = "end"


class PlayQuery(Query):
    speed = serializers.FloatField(
        default=1.0,
        min_value=0.0,
        max_value=100.0,
        help_text="The speed relative to the original. 0 sends all events at once.",
    )
    max_gap = serializers.FloatField(
        default=5.0,
        min_value=0.0,
        max_value=3600.0,
        help_text="The longest pause between events, in seconds at original speed.",
    )

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """`from` is a keyword of Python."""
        first = serializers.IntegerField(default=1, min_value=1, help_text="The index of the first event.")
        last = serializers.IntegerField(
            default=None, min_value=1, help_text="The index of the last event. By default the newest event."
        )
        return {"from": first, "to": last, **super().get_fields()}


@dataclass(frozen=True, slots=True)
class Playback:
    """Events `first` to `last` of a session.

    Attributes:
        speed: 1 is the original; 0 does not pause.
        max_gap: the longest pause, in seconds at original speed.
    """

    context: Context
    first: int
    last: int
    speed: float
    max_gap: float

    async def play(self) -> AsyncGenerator[list[JSON]]:
        """Pauses hold no thread or connection."""
        reached, before = self.first - 1, None
        while events := await db.run(self._read, reached):
            shown = await db.run(events_json, self.context.pk, events)
            if not self.speed:
                yield shown
            for event, one in zip(events, shown, strict=True) if self.speed else ():
                await asyncio.sleep(self._pause(before, event))
                before = event
                yield [one]
            reached = events[-1].index

    def _read(self, after: int) -> list[Event]:
        return (
            list(lineage.events(self.context, after, min(after + READ_BATCH, self.last))) if after < self.last else []
        )

    def _pause(self, before: Event | None, event: Event) -> float:
        """In seconds."""
        gap = (event.at - before.at).total_seconds() if before else 0.0
        return min(max(gap, 0.0), self.max_gap) / self.speed


class Play(Endpoint):
    renderer_classes = [Frames, *Endpoint.renderer_classes]

    @documented(
        "sessions_play",
        "Replay the events of a session",
        query=PlayQuery,
        answers={(200, "text/event-stream"): OpenApiTypes.STR},
    )
    async def get(self, request: Request, session: uuid.UUID) -> wire.EventStream:
        """The response is a stream of server-sent events. It has the same Events as the live stream had, followed
        by the event `end`.

        The `id` of a server-sent event is the event's index. Send it back as `Last-Event-ID` to continue after
        that event.
        """
        asked = self.query(PlayQuery)
        context = await db.run(find_session, self.principal, session)
        last = context.last_event if asked["to"] is None else asked["to"]
        if not 1 <= asked["from"] <= last <= context.last_event:
            raise InvalidParams(
                f"The session has the events 1 to {context.last_event}.", "to" if asked["to"] else "from"
            )
        heard = request.headers.get("Last-Event-ID", "")
        first = max(asked["from"], int(heard) + 1) if is_index(heard) else asked["from"]
        ended = limits.open_stream(self.principal, self.address)
        playback = Playback(context, first, last, asked["speed"], asked["max_gap"])
        return wire.EventStream(_playback_frames(playback, _access_check(self)), ended)


async def _playback_frames(playback: Playback, check: wire.AccessCheck) -> AsyncGenerator[bytes]:
    def say(batch: list[JSON]) -> Iterator[bytes]:
        return (wire.sse_frame(one, id_=one["index"], event=one["type"]) for one in batch)

    async for frame in wire.with_heartbeats(playback.play(), say, check=check):
        yield frame
    yield wire.sse_frame({"sessionId": str(playback.context.pk), "index": playback.last}, event=END)


urlpatterns = [
    path("events", Events.as_view(), name="events"),
    path("sessions/<uuid:session>/play", Play.as_view(), name="play"),
]
