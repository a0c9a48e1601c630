"""The WebSocket that renews an operator's live panel whenever something happens.

The address names the context; `?task=` or `?run=` narrows it. The page acknowledges each panel it has shown and gets
the next one only then, so a slow page is never flooded.
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
from apps.operators.panels import Subject, may_view, panel
from apps.record import feed
from apps.record.models import Context, Event, Run, Task, TaskState

log = logging.getLogger("parley.web")

SIGNED_OUT = 4401
NOT_FOUND = 4404
TOO_SLOW = 4408
INTERNAL_ERROR = 1011


class Closed(Exception):
    """The line is closed with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A panel as it is now; `reached` is the context's newest event, `is_active` says that a run goes on."""

    html: str
    reached: int
    is_active: bool


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who looks (a browser session) and at what."""

    session: SessionBase
    context: uuid.UUID
    task: uuid.UUID | None
    run: uuid.UUID | None

    def render(self) -> Snapshot:
        """Raises Closed where the session ended or its user may not see this (any more)."""
        viewer, subject = self._viewer(), self._subject()
        if subject is None or not may_view(viewer, type(subject)):
            raise Closed(NOT_FOUND)
        reached = Context.objects.values_list("last_event", flat=True).get(pk=self.context)
        is_active = (
            Run.objects.unfinished().filter(task__context=self.context).exists()
            or Task.objects.filter(context=self.context, state=TaskState.WORKING).exists()  # without a run: a plan
        )
        return Snapshot(panel(subject, viewer), reached, is_active)

    def _viewer(self) -> User:
        request = HttpRequest()
        request.session = self.session.__class__(self.session.session_key)
        user = get_user(request)
        if not user.is_authenticated or not user.is_staff:
            raise Closed(SIGNED_OUT)
        return user

    def _subject(self) -> Subject | None:
        if self.run:
            return Run.objects.select_related("task").filter(pk=self.run, task__context=self.context).first()
        related = ("agent", "owner")
        if self.task:
            return Task.objects.select_related(*related).filter(pk=self.task, context=self.context).first()
        return Context.objects.select_related(*related).filter(pk=self.context).first()


class LivePanelConsumer(AsyncWebsocketConsumer):
    """One page that follows one context, task or run."""

    MIN_INTERVAL_SECONDS = 0.25  # between two panels
    ACTIVE_SECONDS = 5.0  # while a run goes on: its lease moves without an event
    IDLE_SECONDS = 45.0  # otherwise, and to see whether the operator is still signed in
    SLOW_SECONDS = 60.0  # how long the line waits for a page that shows nothing

    _work: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        self._shown = asyncio.Event()
        await self.accept()  # a line that was never open cannot say why it closes
        self._work = asyncio.create_task(self._run())

    async def disconnect(self, code: int) -> None:
        if self._work:
            self._work.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Whatever the page says means that it has shown the panel."""
        self._shown.set()

    async def _run(self) -> None:
        try:
            await self._follow(self._watcher())
        except Closed as refusal:
            await self.close(refusal.code)
        except TimeoutError:
            await self.close(TOO_SLOW)
        except Exception:
            log.exception("an operator's live line broke")
            await self.close(INTERNAL_ERROR)

    def _watcher(self) -> Watcher:
        """Raises Closed for ids that are none."""
        narrowed = parse_qs(self.scope["query_string"].decode("ascii", "replace"))
        try:
            task, run = (uuid.UUID(narrowed[name][0]) if name in narrowed else None for name in ("task", "run"))
        except ValueError:
            raise Closed(NOT_FOUND) from None
        return Watcher(self.scope["session"], self.scope["url_route"]["kwargs"]["context"], task, run)

    async def _follow(self, watcher: Watcher) -> None:
        snapshot = await db.run(watcher.render)
        async with aclosing(feed.follow(watcher.context, snapshot.reached)) as batches:
            news: asyncio.Task[list[Event]] = asyncio.create_task(anext(batches))
            try:
                while True:
                    await self._show(snapshot)
                    await asyncio.wait({news}, timeout=self.ACTIVE_SECONDS if snapshot.is_active else self.IDLE_SECONDS)
                    if news.done():
                        news.result()
                        news = asyncio.create_task(anext(batches))
                    snapshot = await db.run(watcher.render)
            finally:
                news.cancel()
                await asyncio.wait({news})

    async def _show(self, snapshot: Snapshot) -> None:
        self._shown.clear()
        await self.send(snapshot.html)
        async with asyncio.timeout(self.SLOW_SECONDS):
            await self._shown.wait()
        await asyncio.sleep(self.MIN_INTERVAL_SECONDS)


live_panel_route = path("ws/admin/contexts/<uuid:context>", LivePanelConsumer.as_asgi())
