"""`GET /sessions/{id}/play`: what was recorded, streamed again as it happened, in its own time or faster."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from django.urls import path
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.request import Request

import db
from apps.accounts import quotas
from apps.api.events import Frames, watched
from apps.api.fields import Query
from apps.api.live import is_index
from apps.api.schema import documented
from apps.api.sending import session_of
from apps.api.shapes import events_json
from apps.api.shapes.naming import JSON
from apps.api.views import Endpoint
from apps.record import lineage, sse
from apps.record.errors import InvalidParams
from apps.record.models import Context, Event

BATCH = 200  # events that are read at once
END = "end"


class Playing(Query):
    speed = serializers.FloatField(
        default=1.0, min_value=0.0, max_value=100.0, help_text="How many times as fast as it was; 0: all at once."
    )
    max_gap = serializers.FloatField(
        default=5.0, min_value=0.0, max_value=3600.0, help_text="Longer pauses are cut to so many seconds."
    )

    def get_fields(self) -> dict[str, serializers.Field]:  # type: ignore[type-arg]
        """`from` is a word of Python's."""
        first = serializers.IntegerField(default=1, min_value=1, help_text="The index of the first event.")
        last = serializers.IntegerField(default=None, min_value=1, help_text="That of the last one.")
        return {"from": first, "to": last, **super().get_fields()}


@dataclass(frozen=True, slots=True)
class Tape:
    """Events `first` to `last` of a session, to be played at a speed (0: at once), with pauses of so many seconds."""

    context: Context
    first: int
    last: int
    speed: float
    max_gap: float

    async def play(self) -> AsyncGenerator[list[JSON]]:
        """Events as JSON. Between them a clock is waited for, and nothing is held."""
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
        return list(lineage.events(self.context, after, min(after + BATCH, self.last))) if after < self.last else []

    def _pause(self, before: Event | None, event: Event) -> float:
        """Seconds from one event to the next."""
        gap = (event.at - before.at).total_seconds() if before else 0.0
        return min(max(gap, 0.0), self.max_gap) / self.speed


class Play(Endpoint):
    renderer_classes = [Frames, *Endpoint.renderer_classes]

    @documented(
        "sessions_play",
        "Play a session again",
        query=Playing,
        answers={(200, "text/event-stream"): OpenApiTypes.STR},
        refuses=[404],
    )
    async def get(self, request: Request, session: uuid.UUID) -> sse.EventStream:
        """Server-sent events: the same Events as were heard when they happened, and `end` after the last.

        An event's `id` is its index: as `Last-Event-ID` it lets the playing go on after it.
        """
        asked = self.query(Playing)
        context = await db.run(session_of, self.principal, session)
        last = context.last_event if asked["to"] is None else asked["to"]
        if not 1 <= asked["from"] <= last <= context.last_event:
            raise InvalidParams(
                f"The session has the events 1 to {context.last_event}.", "to" if asked["to"] else "from"
            )
        heard = request.headers.get("Last-Event-ID", "")
        first = max(asked["from"], int(heard) + 1) if is_index(heard) else asked["from"]
        ended = quotas.open_stream(self.principal, str(request.META.get("REMOTE_ADDR", "")))
        tape = Tape(context, first, last, asked["speed"], asked["max_gap"])
        return sse.EventStream(watched(frames(tape), self), ended)


async def frames(tape: Tape) -> AsyncGenerator[bytes]:
    def say(batch: list[JSON]) -> bytes:
        return b"".join(sse.frame(one, id_=one["index"], event=one["type"]) for one in batch)

    async for frame in sse.spoken(tape.play(), say):
        yield frame
    yield sse.frame({"sessionId": str(tape.context.pk), "index": tape.last}, event=END)


urlpatterns = [path("sessions/<uuid:session>/play", Play.as_view(), name="play")]
