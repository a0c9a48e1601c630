"""Server-sent events: live (`GET /events`) and replayed (`GET /sessions/{id}/play`).

`consumers` sends the live ones over a WebSocket.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.http import HttpRequest, QueryDict
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.exceptions import APIException
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

import db
from apps.accounts import quotas
from apps.accounts.authentication import request_principal
from apps.accounts.principals import Principal
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Choice, Query, Token
from apps.api.framework.views import Endpoint
from apps.api.messages import find_session
from apps.api.shapes import JSON, events_json
from apps.record import lineage, sync, wire
from apps.record.errors import InvalidParams
from apps.record.events import EventType
from apps.record.models import Context, Event
from apps.record.sync import PositionTooOld, SyncItem, SyncStream

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
        automatically. The events of a new fork start with the first event of its own.

        The event `reset` means that you must read a session again. `sessionId` names the session; null means all
        sessions. The `reason` is `too_old` if you were disconnected for too long, `deleted` if the session was
        deleted, or `archived` if it was moved to cold storage.

        Store events by session and index, because an event may be sent twice after a reconnection.
        """
        asked = self.query(EventsQuery)
        since = request.headers.get("Last-Event-ID", "") or asked["since"]
        ended = quotas.open_stream(self.principal, self.address)
        try:
            follower = await db.run(follow, self.principal, asked["session_ids"], since, asked["types"])
        except BaseException:
            ended()
            raise
        return wire.EventStream(_until_revoked(_live_frames(follower), self), ended)


async def _live_frames(follower: Follower) -> AsyncGenerator[bytes]:
    """Frames; once caught up, heartbeats carry the position."""

    def say(batch: list[StreamEvent]) -> bytes:
        return b"".join(wire.sse_frame(said.data, id_=said.place, event=said.name) for said in batch) or alive()

    def alive() -> bytes:
        place = follower.newest_place.encode()
        return wire.HEARTBEAT_WITH_ID % place if place else wire.HEARTBEAT

    yield wire.STREAM_STARTED
    if follower.is_lost:
        yield wire.sse_frame(TOO_OLD, event=RESET)
    async with aclosing(wire.with_heartbeats(follower.batches(), say, alive)) as spoken:
        async for frame in spoken:
            yield frame


def _until_revoked(stream: AsyncGenerator[bytes], endpoint: Endpoint) -> AsyncGenerator[bytes]:
    """The stream until the caller loses access. The next request explains the end."""
    return wire.until_revoked(stream, lambda: None if _is_still_authorized(endpoint) else b"")


def _is_still_authorized(endpoint: Endpoint) -> bool:
    """Whether the caller still has access."""
    again = HttpRequest()
    again.method, again.META, again.COOKIES = "GET", endpoint.request.META, endpoint.request.COOKIES
    request = endpoint.initialize_request(again)
    try:
        return request_principal(request) == endpoint.principal
    except APIException:
        return False


RESET = "reset"
TOO_OLD = {"sessionId": None, "reason": "too_old"}
"""The reset of who has been away for too long: it must read everything again."""


class StreamEvent(NamedTuple):
    """An event for a client; the token is the position after it."""

    name: str
    data: JSON
    place: str


@dataclass(frozen=True, slots=True)
class Follower:
    """A client that follows sessions; without `types` all events.

    `is_lost`: the position was too old; it follows from now on.
    """

    principal: Principal
    following: SyncStream
    types: Collection[str] = field(default_factory=frozenset)
    is_lost: bool = False

    async def batches(self) -> AsyncGenerator[list[StreamEvent]]:
        """Events as they come. One empty batch means that the client has caught up."""
        async with aclosing(self.following.batches()) as batches:
            async for batch in batches:
                shown = await db.run(_events_by_index, [told for told in batch if self._wants(told)])
                said = self._said(batch, shown)
                if said or not batch:
                    yield said

    def _wants(self, told: SyncItem) -> bool:
        return told.event is None or not self.types or told.event.type in self.types

    def _said(self, batch: list[SyncItem], shown: dict[tuple[uuid.UUID, int], JSON]) -> list[StreamEvent]:
        said = []
        for told in batch:
            self.following.acknowledge(told)
            if one := shown.get((told.session, told.index)):
                said.append(StreamEvent(told.event.type if told.event else RESET, one, self.place))
        return said

    @property
    def place(self) -> str:
        return sync.position_token(self.principal, self.following.position)

    @property
    def newest_place(self) -> str:
        """The newest position; empty before the client has caught up."""
        return sync.position_token(self.principal, self.following.settle()) if self.following.is_caught_up else ""


def follow(principal: Principal, sessions: Collection[uuid.UUID], since: str, types: Collection[str]) -> Follower:
    """Follow these sessions, or all, from a token, from an index, or from now on.

    Raises ContextNotFound, InvalidParams.
    """
    chosen = frozenset(sessions)
    try:
        place = int(since) if is_index(since) else sync.parse_position(principal, since) if since else None
        return Follower(principal, sync.open_stream(principal, chosen, place), frozenset(types))
    except PositionTooOld:
        return Follower(principal, sync.open_stream(principal, chosen, None), frozenset(types), is_lost=True)


def is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _events_by_index(batch: Sequence[SyncItem]) -> dict[tuple[uuid.UUID, int], JSON]:
    """JSON by session and index."""
    events: dict[uuid.UUID, list[Event]] = defaultdict(list)
    for told in batch:
        if told.event is not None:
            events[told.session].append(told.event)
    shown = {(session, one["index"]): one for session, some in events.items() for one in events_json(session, some)}
    lost = [told for told in batch if told.event is None]
    return shown | {(one.session, one.index): {"sessionId": str(one.session), "reason": one.reason} for one in lost}


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
        ended = quotas.open_stream(self.principal, self.address)
        playback = Playback(context, first, last, asked["speed"], asked["max_gap"])
        return wire.EventStream(_until_revoked(_playback_frames(playback), self), ended)


async def _playback_frames(playback: Playback) -> AsyncGenerator[bytes]:
    def say(batch: list[JSON]) -> bytes:
        return b"".join(wire.sse_frame(one, id_=one["index"], event=one["type"]) for one in batch)

    async for frame in wire.with_heartbeats(playback.play(), say):
        yield frame
    yield wire.sse_frame({"sessionId": str(playback.context.pk), "index": playback.last}, event=END)


urlpatterns = [
    path("events", Events.as_view(), name="events"),
    path("sessions/<uuid:session>/play", Play.as_view(), name="play"),
]
