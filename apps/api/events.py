"""`GET /events`: what happens in one's sessions, as server-sent events over one connection, from a position on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from django.http import HttpRequest, QueryDict
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.exceptions import APIException
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

import db
from apps.accounts import quotas
from apps.accounts.authentication import principal_of
from apps.api import live
from apps.api.fields import Choice, Query, Token
from apps.api.live import Follower, Said
from apps.api.schema import documented
from apps.api.views import Endpoint
from apps.record import sse
from apps.record.events import EventType

MOST_SESSIONS = 200  # that may be named


class Frames(BaseRenderer):
    """What a stream is accepted as."""

    media_type, format = "text/event-stream", "events"


class Following(Query):
    session_ids = serializers.ListField(
        child=serializers.UUIDField(),
        default=list,
        max_length=MOST_SESSIONS,
        help_text="Follow these sessions alone. Without any: all of yours, those that begin later too.",
    )
    since = Token(
        max_length=10_000,
        help_text="Where to go on: a token, or, where one session is named, the index of an event of it. "
        "`Last-Event-ID` says the same and comes first. Without either the stream begins now.",
    )
    types = serializers.ListField(
        child=Choice(choices=EventType.values),
        default=list,
        help_text="Hear of these types of events alone.",
    )

    def __init__(self, *, data: QueryDict | None = None, **options: Any) -> None:
        """The list may be named as forms name one, too: `session_ids[]`."""
        named = QueryDict(mutable=True)
        for name, values in (data or named).lists():
            named.setlist(name.removesuffix("[]"), named.getlist(name.removesuffix("[]")) + values)
        super().__init__(data=named, **options)


class Events(Endpoint):
    """The events of sessions, live."""

    renderer_classes = [Frames, *Endpoint.renderer_classes]

    @documented(
        "events_follow",
        "Follow sessions live",
        query=Following,
        answers={(200, "text/event-stream"): OpenApiTypes.STR},
        refuses=(404,),
    )
    async def get(self, request: Request) -> sse.EventStream:
        """Server-sent events: of each session those after the position that you give, in order, then what happens.

        An event's name is the event's `type`, its data an Event, its `id` a position in all that you follow: give it
        back as `Last-Event-ID`, as browsers do by themselves, and the stream goes on after it. Of a session that begins
        as a fork you hear from its own first event on. `reset` says that a session (`sessionId`; null: everything) is
        to be read anew, because you were away for too long (`too_old`), it was `deleted`, or put into cold storage
        (`archived`). Keep what you have by session and index: after a reconnection an event may come twice.
        """
        asked = self.query(Following)
        since = request.headers.get("Last-Event-ID", "") or asked["since"]
        ended = quotas.open_stream(self.principal, str(request.META.get("REMOTE_ADDR", "")))
        try:
            follower = await db.run(live.begin, self.principal, asked["session_ids"], since, asked["types"])
        except BaseException:
            ended()
            raise
        return sse.EventStream(watched(frames(follower), self), ended)


async def frames(follower: Follower) -> AsyncGenerator[bytes]:
    """A position when all that was missed has come, and with every sign of life from then on."""

    def say(batch: list[Said]) -> bytes:
        return b"".join(sse.frame(said.data, id_=said.place, event=said.name) for said in batch) or alive()

    def alive() -> bytes:
        place = follower.newest_place.encode()
        return sse.ALIVE_AT % place if place else sse.ALIVE

    yield sse.BEGUN
    if follower.is_lost:
        yield sse.frame(live.TOO_OLD, event=live.RESET)
    async with aclosing(sse.spoken(follower.batches(), say, alive)) as spoken:
        async for frame in spoken:
            yield frame


def watched(stream: AsyncGenerator[bytes], endpoint: Endpoint) -> AsyncGenerator[bytes]:
    """The stream, for as long as the caller may have it. It just ends: who comes back is told why not."""
    return sse.watched(stream, lambda: None if may_still(endpoint) else b"")


def may_still(endpoint: Endpoint) -> bool:
    """Would the same request be let in now, as the same caller?"""
    again = HttpRequest()
    again.method, again.META, again.COOKIES = "GET", endpoint.request.META, endpoint.request.COOKIES
    request = endpoint.initialize_request(again)
    try:
        return principal_of(request) == endpoint.principal
    except APIException:
        return False


urlpatterns = [path("events", Events.as_view(), name="events")]
