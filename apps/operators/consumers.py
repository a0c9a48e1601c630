"""The WebSocket of an operator's live panel.

The URL names the context; `?task=` or `?run=` narrows it. The page acknowledges each panel before it gets the next.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from django.contrib.sessions.backends.base import SessionBase
from django.urls import path

from apps.accounts import revocation
from apps.accounts.models import User
from apps.accounts.requests.consumers import NOT_FOUND, SIGNED_OUT, Closed, PageConsumer, signed_in_user
from apps.operators.actions import may_view
from apps.operators.panels import Subject, panel
from apps.record.execution import Run
from apps.record.models import Context, Event, Task, TaskState
from apps.record.reading import feed
from parley import db


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A panel now; `reached` is the context's newest event, `is_active` means that a run goes on."""

    html: str
    reached: int
    is_active: bool
    sender: str  # who sees it


@dataclass(frozen=True, slots=True)
class Watcher:
    """A browser session and its subject."""

    session: SessionBase
    context: uuid.UUID
    task: uuid.UUID | None
    run: uuid.UUID | None

    def render(self) -> Snapshot:
        """Raises Closed if the session ended or access is denied."""
        viewer, subject = self._viewer(), self._subject()
        if subject is None or not may_view(viewer, type(subject)):
            raise Closed(NOT_FOUND)
        reached = Context.objects.values_list("last_event", flat=True).get(pk=self.context)
        is_active = (
            Run.objects.unfinished().filter(task__context=self.context).exists()
            or Task.objects.filter(context=self.context, state=TaskState.WORKING).exists()  # a plan has no run
        )
        return Snapshot(panel(subject, viewer), reached, is_active, f"user:{viewer.pk}")

    def _viewer(self) -> User:
        user = signed_in_user(self.session)
        if user is None or not user.is_operator:
            raise Closed(SIGNED_OUT)
        return user

    def _subject(self) -> Subject | None:
        if self.run:
            return Run.objects.select_related("task").filter(pk=self.run, task__context=self.context).first()
        related = ("agent", "owner")
        if self.task:
            return Task.objects.select_related(*related).filter(pk=self.task, context=self.context).first()
        return Context.objects.select_related(*related).filter(pk=self.context).first()


class LivePanelConsumer(PageConsumer):
    """A page of one context, task or run."""

    MIN_INTERVAL_SECONDS = 0.25  # between two panels
    ACTIVE_SECONDS = 5.0  # during a run: its lease changes without an event
    IDLE_SECONDS = 45.0  # otherwise, and between checks of the sign-in

    async def opened(self) -> None:
        self.start(self._follow(self._watcher()))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Any message acknowledges the panel."""
        self.acknowledged.set()

    def _watcher(self) -> Watcher:
        """Raises Closed for malformed ids."""
        query = parse_qs(self.scope["query_string"].decode("ascii", "replace"))
        try:
            task, run = (uuid.UUID(query[name][0]) if name in query else None for name in ("task", "run"))
        except ValueError:
            raise Closed(NOT_FOUND) from None
        return Watcher(self.scope["session"], self.scope["url_route"]["kwargs"]["context"], task, run)

    async def _follow(self, watcher: Watcher) -> None:
        snapshot = await db.run(watcher.render)
        async with aclosing(feed.follow(watcher.context, snapshot.reached)) as batches:
            news: asyncio.Task[list[Event]] = asyncio.create_task(anext(batches))
            changed = revocation.next_change(snapshot.sender)
            try:
                while True:
                    await self._show(snapshot)
                    seconds = self.ACTIVE_SECONDS if snapshot.is_active else self.IDLE_SECONDS
                    waited: set[asyncio.Future[Any]] = {news, changed}
                    await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                    changed = revocation.next_change(snapshot.sender)
                    if news.done():
                        news.result()
                        news = asyncio.create_task(anext(batches))
                    snapshot = await db.run(watcher.render)
            finally:
                news.cancel()
                await asyncio.wait({news})

    async def _show(self, snapshot: Snapshot) -> None:
        self.acknowledged.clear()
        await self.send(snapshot.html)
        await self.wait_for_page()
        await asyncio.sleep(self.MIN_INTERVAL_SECONDS)


live_panel_route = path("ws/admin/contexts/<uuid:context>", LivePanelConsumer.as_asgi())
