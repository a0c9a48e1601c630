"""The live line of operators' pages: the panel of a context, task or run, rendered anew whenever something happens.

The address names the context; `?task=` or `?run=` narrows it. The page answers each panel that it has shown, and gets
the next one only then: a slow page is never buried.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth import get_user
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest
from django.urls import path

import db
from apps.accounts.models import User
from apps.operators.record.panels import Subject, may_view, panel
from apps.record import feed
from apps.record.lifecycle import TaskState
from apps.record.models import Context, Event, Run, Task

log = logging.getLogger("parley.web")

SIGNED_OUT = 4401
NOT_FOUND = 4404
TOO_SLOW = 4408
BROKEN = 1011


class Refused(Exception):
    """The line is closed with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Look:
    """A panel as it is now; `reached` is the context's newest event, `moves` says that a run goes on."""

    html: str
    reached: int
    moves: bool


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who looks (a browser session) and at what."""

    session: SessionBase
    context: uuid.UUID
    task: uuid.UUID | None
    run: uuid.UUID | None

    def look(self) -> Look:
        """Raises Refused where the session ended or its user may not see this (any more)."""
        viewer, subject = self._viewer(), self._subject()
        if subject is None or not may_view(viewer, type(subject)):
            raise Refused(NOT_FOUND)
        reached = Context.objects.values_list("last_event", flat=True).get(pk=self.context)
        moves = (
            Run.objects.unfinished().filter(task__context=self.context).exists()
            or Task.objects.filter(context=self.context, state=TaskState.WORKING).exists()  # without a run: a plan
        )
        return Look(panel(subject, viewer), reached, moves)

    def _viewer(self) -> User:
        request = HttpRequest()
        request.session = self.session.__class__(self.session.session_key)
        user = get_user(request)
        if not user.is_authenticated or not user.is_staff:
            raise Refused(SIGNED_OUT)
        return user

    def _subject(self) -> Subject | None:
        if self.run:
            return Run.objects.select_related("task").filter(pk=self.run, task__context=self.context).first()
        related = ("agent", "owner")
        if self.task:
            return Task.objects.select_related(*related).filter(pk=self.task, context=self.context).first()
        return Context.objects.select_related(*related).filter(pk=self.context).first()


class OperationsLine(AsyncWebsocketConsumer):
    """One page that follows one context, task or run."""

    REST_SECONDS = 0.25  # between two panels
    RENEW_SECONDS = 5.0  # while a run goes on: its lease moves without an event
    RECHECK_SECONDS = 45.0  # otherwise, and to see whether the operator is still signed in
    SLOW_SECONDS = 60.0  # how long the line waits for a page that shows nothing

    _work: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        self._shown = asyncio.Event()
        await self.accept()  # a line that was never open cannot say why it closes
        self._work = asyncio.create_task(self._follow_and_say_why_not())

    async def disconnect(self, code: int) -> None:
        if self._work:
            self._work.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Whatever the page says means that it has shown the panel."""
        self._shown.set()

    async def _follow_and_say_why_not(self) -> None:
        try:
            await self._follow(self._watcher())
        except Refused as refusal:
            await self.close(refusal.code)
        except TimeoutError:
            await self.close(TOO_SLOW)
        except Exception:
            log.exception("an operator's live line broke")
            await self.close(BROKEN)

    def _watcher(self) -> Watcher:
        """Raises Refused for ids that are none."""
        narrowed = parse_qs(self.scope["query_string"].decode("ascii", "replace"))
        try:
            task, run = (uuid.UUID(narrowed[name][0]) if name in narrowed else None for name in ("task", "run"))
        except ValueError:
            raise Refused(NOT_FOUND) from None
        return Watcher(self.scope["session"], self.scope["url_route"]["kwargs"]["context"], task, run)

    async def _follow(self, watcher: Watcher) -> None:
        look = await db.run(watcher.look)
        async with aclosing(feed.follow(watcher.context, look.reached)) as batches:
            news: asyncio.Task[list[Event]] = asyncio.create_task(anext(batches))
            try:
                while True:
                    await self._show(look)
                    await asyncio.wait({news}, timeout=self.RENEW_SECONDS if look.moves else self.RECHECK_SECONDS)
                    if news.done():
                        news.result()
                        news = asyncio.create_task(anext(batches))
                    look = await db.run(watcher.look)
            finally:
                news.cancel()
                await asyncio.wait({news})

    async def _show(self, look: Look) -> None:
        self._shown.clear()
        await self.send(look.html)
        async with asyncio.timeout(self.SLOW_SECONDS):
            await self._shown.wait()
        await asyncio.sleep(self.REST_SECONDS)


operations_line = path("ws/admin/contexts/<uuid:context>", OperationsLine.as_asgi())
