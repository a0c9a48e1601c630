"""The WebSocket of a session page: it sends events as they are recorded.

The page asks with `?after=<index>` and gets `{"entries": […], "last": <index>}`, at first without entries. The status
(HTML, see `status.whole_status`) is in the first message, and whenever it may have changed. The page answers
`{"seen": <index>}` after showing entries; the server waits for a page that is far behind.
"""

from __future__ import annotations

import json
import uuid
from contextlib import aclosing
from typing import Any
from urllib.parse import parse_qs

from django.urls import path

import db
from apps.accounts.consumers import NOT_FOUND, Closed, PageConsumer
from apps.record import feed
from apps.record.models import Context, Event
from apps.web.sessions import status
from apps.web.sessions.entries import entries_of
from apps.web.shell import find_session, parse_index


class SessionConsumer(PageConsumer):
    """A page that follows one session."""

    context: Context
    seen = 0

    async def opened(self) -> None:
        await self.check_sign_in()
        session = uuid.UUID(str(self.scope["url_route"]["kwargs"]["session"]))
        context = await db.run(find_session, self.principal, session)
        if context is None:
            raise Closed(NOT_FOUND)
        self.context, self.seen = context, _after(self.scope["query_string"])
        await self.send_json({"entries": [], "last": self.seen, **await db.run(_status, context)})
        self.start(self._follow())
        self.start(self.watch())

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignores anything but acknowledgments."""
        try:
            seen = json.loads(text_data or "")["seen"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        if isinstance(seen, int):
            self.seen = max(self.seen, seen)
            self.acknowledged.set()

    async def _follow(self) -> None:
        async with aclosing(feed.follow(self.context.pk, self.seen)) as batches:
            async for events in batches:
                while events[0].index - self.seen > self.UNSEEN_EVENTS:
                    await self.wait_for_page()
                await self.send_json(await db.run(_update, self.context, events))


def _update(context: Context, events: list[Event]) -> dict[str, Any]:
    update = {"entries": entries_of(context, events), "last": events[-1].index}
    return update | _status(context) if status.may_change_status(events) else update


def _status(context: Context) -> dict[str, str]:
    """Empty if the session was deleted."""
    now = Context.objects.select_related("agent").filter(pk=context.pk).first()
    return status.whole_status(now) if now else {"status": ""}


def _after(query: bytes) -> int:
    """0 (all events) by default."""
    return parse_index(parse_qs(query.decode("ascii", "replace")).get("after", [""])[0]) or 0


websocket_urlpatterns = [path("ws/sessions/<uuid:session>", SessionConsumer.as_asgi())]
