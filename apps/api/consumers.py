"""The WebSocket of a page to all that its person has: what `GET /events` brings.

The page says `{"sessionIds": […], "types": […], "since": "…"}` once, each of it optional, and hears
`{"number": 1, "events": […], "token": "…"}`: Events, with the position after them. A reset is one of them:
`{"type": "reset", "sessionId": …, "reason": …}`. It says `{"seen": <number>}` when it has taken them in, so that a slow
page is waited for instead of being buried. `{"alive": true, "token": "…"}` comes after what was missed, and when
nothing else does; without a token it says nothing of where the page is.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.http import HttpRequest
from django.urls import path
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

import db
from apps.accounts import quotas
from apps.accounts.authentication import session_user
from apps.accounts.principals import Principal
from apps.api import events
from apps.api.events import MAX_SESSIONS, Follower, StreamEvent
from apps.api.framework.serializers import Body, Choice, Line
from apps.api.shapes import JSON
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.events import EventType

log = logging.getLogger("parley.api")

REFUSED = 4400
SIGNED_OUT = 4401
NOT_FOUND = 4404
TOO_SLOW = 4408
TOO_MANY = 4429
BROKEN = 1011


class Subscription(Body):
    """What a page wants to hear (see `events.EventsQuery`)."""

    session_ids = serializers.ListField(child=serializers.UUIDField(), default=list, max_length=MAX_SESSIONS)
    types = serializers.ListField(child=Choice(choices=EventType.values), default=list)
    since = Line(default="", max_length=10_000, allow_blank=True)


class EventsConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """One page that follows its person's sessions."""

    ALIVE_SECONDS = 15.0  # how often a quiet line says that it is there
    RECHECK_SECONDS = 45.0  # how often the sign-in is looked at again
    UNSEEN_EVENTS = 3000  # how many events the page may be behind before the line waits for it
    SLOW_SECONDS = 60.0  # how long the line waits for a page that takes nothing in

    follower: Follower | None = None

    async def connect(self) -> None:
        self._work: list[asyncio.Task[None]] = []
        self._unseen: deque[tuple[int, int]] = deque()  # numbers of what was said, and how many events each had
        self._said, self._caught_up = 0, asyncio.Event()
        self._ended: Callable[[], None] | None = None
        await self.accept()  # a line that was never open cannot say why it closes
        self.principal = await self._principal()
        if self.principal is None:
            await self.close(SIGNED_OUT)
            return
        try:
            self._ended = quotas.open_stream(self.principal, "")
        except quotas.QuotaExceeded:
            self.principal = None  # what it says while it closes is not listened to
            await self.close(TOO_MANY)
            return
        self._begin(self._watch())

    async def disconnect(self, code: int) -> None:
        for work in self._work:
            work.cancel()
        if self._ended:
            self._ended()
            self._ended = None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """What the page wants, once; then how far it has come. Anything else is ignored, or refused at first."""
        try:
            told = json.loads(text_data or "")
        except (ValueError, RecursionError):
            told = None
        if self.follower is None and self.principal is not None:
            await self._subscribe(self.principal, told)
        elif isinstance(told, dict) and isinstance(told.get("seen"), int):
            while self._unseen and self._unseen[0][0] <= told["seen"]:
                self._unseen.popleft()
            self._caught_up.set()

    async def _subscribe(self, principal: Principal, told: Any) -> None:
        wanted = Subscription(data=told)
        try:
            wanted.is_valid(raise_exception=True)
            values = wanted.validated_data
            chosen = values["session_ids"], values["since"], values["types"]
            self.follower = await db.run(events.follow, principal, *chosen)
        except (ValidationError, InvalidParams) as error:
            await self._say({"refused": str(getattr(error, "detail", error))})
            await self.close(REFUSED)
        except ContextNotFound:
            await self.close(NOT_FOUND)
        else:
            self._begin(self._follow(self.follower))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._work.append(asyncio.create_task(self._until_it_breaks(work)))

    async def _until_it_breaks(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            log.exception("the live line of a page broke")
            await self.close(BROKEN)

    async def _follow(self, follower: Follower) -> None:
        if follower.is_lost:
            await self._tell([StreamEvent(events.RESET, events.TOO_OLD, follower.place)])
        async with aclosing(follower.batches()) as batches:
            async for batch in batches:
                await (self._tell(batch) if batch else self._say({"alive": True, "token": follower.newest_place}))
                # Before anything more is taken: no token may stand for what has not been said.
                if not await self._is_keeping_up():
                    await self.close(TOO_SLOW)
                    return

    async def _tell(self, batch: list[StreamEvent]) -> None:
        self._said += 1
        self._unseen.append((self._said, len(batch)))
        events = [{"type": said.name, **said.data} for said in batch]
        await self._say({"number": self._said, "events": events, "token": batch[-1].place})

    async def _is_keeping_up(self) -> bool:
        """Wait while the page is far behind; False when it takes nothing in for too long."""
        while sum(events for _, events in self._unseen) > self.UNSEEN_EVENTS:
            self._caught_up.clear()
            try:
                async with asyncio.timeout(self.SLOW_SECONDS):
                    await self._caught_up.wait()
            except TimeoutError:
                return False
        return True

    async def _watch(self) -> None:
        """Say that the line is there, and close it when whoever opened it is signed out."""
        clock = asyncio.get_running_loop().time
        checked = clock()
        while True:
            await asyncio.sleep(min(self.ALIVE_SECONDS, self.RECHECK_SECONDS))
            if clock() - checked >= self.RECHECK_SECONDS:
                checked = clock()
                if await self._principal() != self.principal:
                    await self.close(SIGNED_OUT)
                    return
            place = self.follower.newest_place if self.follower and not self._unseen else ""
            await self._say({"alive": True, **({"token": place} if place else {})})

    async def _principal(self) -> Principal | None:
        return await db.run(_signed_in, self.scope["cookies"].get(settings.SESSION_COOKIE_NAME, ""))

    async def _say(self, said: JSON) -> None:
        await self.send(json.dumps(said, separators=(",", ":"), ensure_ascii=False))


def _signed_in(cookie: str) -> Principal | None:
    request = HttpRequest()
    request.COOKIES = {settings.SESSION_COOKIE_NAME: cookie}
    user = session_user(request)
    return user.principal if user else None


websocket_urlpatterns = [path("ws/events", EventsConsumer.as_asgi())]
