"""The WebSocket of a conversation page: it sends events as soon as they are recorded.

The page asks with `?after=<index>` and gets `{"entries": […], "last": <index>}`. The first message has no entries.
`standing` (HTML, see `status.status_html`) comes with the first message and whenever it may have changed. The page
answers `{"seen": <index>}` when it has shown the entries, so that the line can wait for a slow page. A quiet line sends
`{"alive": true}`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from contextlib import aclosing
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.urls import path

import db
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.record import feed
from apps.record.models import Context, Event
from apps.web.sessions import status
from apps.web.sessions.entries import entries_of
from apps.web.shell import find_session, parse_index

log = logging.getLogger("parley.web")

SIGNED_OUT = 4401
NOT_FOUND = 4404
TOO_SLOW = 4408
BROKEN = 1011


class SessionLine(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """One page that follows one session."""

    ALIVE_SECONDS = 15.0  # between heartbeats
    RECHECK_SECONDS = 45.0  # between checks of the sign-in
    UNSEEN_EVENTS = 3000  # how many events the page may be behind before the line waits for it
    SLOW_SECONDS = 60.0  # how long the line waits for a page that shows nothing

    context: Context
    seen = 0

    async def connect(self) -> None:
        self._work: list[asyncio.Task[None]] = []
        self._caught_up = asyncio.Event()
        await self.accept()  # a line that was never open cannot say why it closes
        principal = await self._principal()
        if principal is None:
            await self.close(SIGNED_OUT)
            return
        session = uuid.UUID(str(self.scope["url_route"]["kwargs"]["session"]))
        context = await db.run(find_session, principal, session)
        if context is None:
            await self.close(NOT_FOUND)
            return
        self.context, self.seen = context, _after(self.scope["query_string"])
        await self._say({"entries": [], "last": self.seen, "standing": await db.run(_status, context)})
        self._work = [asyncio.create_task(self._until_it_breaks(work)) for work in (self._follow(), self._watch())]

    async def disconnect(self, code: int) -> None:
        for work in self._work:
            work.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Note how far the page has come; anything else is ignored."""
        try:
            seen = json.loads(text_data or "")["seen"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        if isinstance(seen, int):
            self.seen = max(self.seen, seen)
            self._caught_up.set()

    async def _until_it_breaks(self, work: Any) -> None:
        try:
            await work
        except Exception:
            log.exception("the live line of session %s broke", self.context.pk)
            await self.close(BROKEN)

    async def _follow(self) -> None:
        async with aclosing(feed.follow(self.context.pk, self.seen)) as batches:
            async for events in batches:
                if not await self._is_keeping_up(events):
                    await self.close(TOO_SLOW)
                    return
                await self._say(await db.run(_update, self.context, events))

    async def _is_keeping_up(self, events: list[Event]) -> bool:
        """Wait while the page is far behind; False when it shows nothing for too long."""
        while events[0].index - self.seen > self.UNSEEN_EVENTS:
            self._caught_up.clear()
            try:
                async with asyncio.timeout(self.SLOW_SECONDS):
                    await self._caught_up.wait()
            except TimeoutError:
                return False
        return True

    async def _watch(self) -> None:
        """Send heartbeats, and close the line when its user has signed out."""
        checked = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(min(self.ALIVE_SECONDS, self.RECHECK_SECONDS))
            if asyncio.get_running_loop().time() - checked >= self.RECHECK_SECONDS:
                checked = asyncio.get_running_loop().time()
                if await self._principal() is None:
                    await self.close(SIGNED_OUT)
                    return
            await self._say({"alive": True})

    async def _principal(self) -> Principal | None:
        return await db.run(_signed_in, self.scope["session"].session_key)

    async def _say(self, said: dict[str, Any]) -> None:
        await self.send(json.dumps(said, ensure_ascii=False))


def _signed_in(key: str | None) -> Principal | None:
    """The current user of a browser session; None after a sign-out or a change of password."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = get_user(request)
    return user.principal if isinstance(user, User) else None


def _update(context: Context, events: list[Event]) -> dict[str, Any]:
    update = {"entries": entries_of(context, events), "last": events[-1].index}
    return update | {"standing": _status(context)} if status.may_change_status(events) else update


def _status(context: Context) -> str:
    """The current status of the session; empty where it was deleted."""
    now = Context.objects.select_related("agent").filter(pk=context.pk).first()
    return status.status_html(now) if now else ""


def _after(query: bytes) -> int:
    """The index after which the page wants events; 0, which is all of them, if it names none."""
    return parse_index(parse_qs(query.decode("ascii", "replace")).get("after", [""])[0]) or 0


websocket_urlpatterns = [path("ws/sessions/<uuid:session>", SessionLine.as_asgi())]
