"""The WebSocket of a page that follows its person's sessions, with the events of `GET /events`.

The page sends `{"sessionIds": […], "types": […], "since": "…"}` once; all are optional. It gets
`{"number": 1, "events": […], "token": "…"}`; the token is the position after these events. One of them may be a reset:
`{"type": "reset", "sessionId": …, "reason": …}`. The page answers `{"seen": <number>}`; the server waits for a page
that is far behind. `{"alive": true, "token": "…"}` is sent when the page has caught up, and when nothing else is
sent. A heartbeat without a token does not change the position.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from django.urls import path
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from apps.accounts.requests import quotas
from apps.accounts.requests.consumers import NOT_FOUND, REFUSED, TOO_MANY, Closed, PageConsumer
from apps.api.framework.serializers import Body, Choice, Line
from apps.api.shapes import JSON
from apps.conversations.api import events
from apps.conversations.api.events import MAX_SESSIONS, Follower, StreamEvent
from apps.limits import current as limits
from apps.record import wire
from apps.record.errors import InvalidParams
from apps.record.events import EventType


class Subscription(Body):
    """What to follow (see `events.EventsQuery`)."""

    session_ids = serializers.ListField(child=serializers.UUIDField(), default=list, max_length=MAX_SESSIONS)
    types = serializers.ListField(child=Choice(choices=EventType.values), default=list)
    since = Line(default="", max_length=10_000, allow_blank=True)


class EventsConsumer(PageConsumer):
    follower: Follower | None = None
    is_subscribed = False
    close_stream: Callable[[], None] | None = None

    async def opened(self) -> None:
        self._unseen: deque[tuple[int, int]] = deque()  # message numbers, and their events
        self._number = 0
        await self.check_sign_in()
        try:
            self.close_stream = limits.open_stream(self.principal, "")
        except quotas.QuotaExceeded:
            raise Closed(TOO_MANY) from None
        self.start(self.watch())

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        if self.follower:
            self.follower.close()
        if self.close_stream:
            self.close_stream()
            self.close_stream = None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """The subscription, then acknowledgments. Anything else is refused at first, then ignored."""
        try:
            message = json.loads(text_data or "")
        except (ValueError, RecursionError):
            message = None
        if self.close_stream and not self.is_subscribed:
            self.is_subscribed = True
            await self._guard(self._subscribe(message))
        elif isinstance(message, dict) and isinstance(message.get("seen"), int):
            while self._unseen and self._unseen[0][0] <= message["seen"]:
                self._unseen.popleft()
            self.acknowledged.set()

    async def _subscribe(self, message: Any) -> None:
        wanted = Subscription(data=message)
        try:
            wanted.is_valid(raise_exception=True)
            values = wanted.validated_data
            chosen = values["session_ids"], values["since"], values["types"]
            self.follower = await events.follow(self.principal, *chosen)
        except (ValidationError, InvalidParams) as error:
            await self.send_json({"refused": str(getattr(error, "detail", error))})
            raise Closed(REFUSED) from None
        self.start(self._follow(self.follower))

    async def _follow(self, follower: Follower) -> None:
        if follower.is_lost:
            await self._tell([StreamEvent(events.RESET, wire.json_text(events.TOO_OLD))], follower.stream.joined_at)
        async with aclosing(follower.batches()) as batches:
            async for batch in batches:
                if batch:
                    await self._tell([item.shown for item in batch.items], batch.place)
                else:
                    await self.send_json({"alive": True, "token": follower.newest_place})
                # First: a token must not include events that were not sent.
                while sum(count for _, count in self._unseen) > self.UNSEEN_EVENTS:
                    await self.wait_for_page()
        raise Closed(NOT_FOUND)  # a session is private again

    async def _tell(self, batch: list[StreamEvent], token: str) -> None:
        self._number += 1
        self._unseen.append((self._number, len(batch)))
        told = ",".join(map(_with_type, batch))
        await self.send(f'{{"number":{self._number},"events":[{told}],"token":"{token}"}}')

    def heartbeat(self) -> JSON:
        place = self.follower.newest_place if self.follower and not self._unseen else ""
        return {"alive": True, "token": place} if place else {"alive": True}


def _with_type(event: StreamEvent) -> str:
    return event.text if event.name != events.RESET else f'{{"type":"{event.name}",{event.text[1:]}'


websocket_urlpatterns = [path("ws/events", EventsConsumer.as_asgi())]
