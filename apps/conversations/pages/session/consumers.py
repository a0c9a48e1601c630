"""The WebSocket of a session page: it sends what changes in the conversation, as it is recorded.

The page asks with `?after=<index>` and gets `{"patch": {…}, "last": <index>}` (`conversation`), at first without a
patch. The status (HTML, see `status.whole_status`) is in the first message, and whenever it may have changed; the
first one also says whether the reader may write. The page answers `{"seen": <index>}` after showing a patch; the server
waits for a page that is far behind. The page of a shared session also gets `{"people": […]}`: who else has it open.
After a change of the reader's role the server closes, and the page connects again.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import aclosing
from urllib.parse import parse_qs

from django.urls import path

from apps.accounts.models import User
from apps.accounts.requests.consumers import NOT_FOUND, Closed, PageConsumer
from apps.conversations.pages.session import status
from apps.conversations.pages.session.conversation import Conversation
from apps.conversations.pages.session.entries import entries_of, person_label
from apps.conversations.pages.session.from_log import conversation_at
from apps.conversations.public_links import presence
from apps.record import wire
from apps.record.events import JSON, EventType
from apps.record.models import Context, Event
from apps.record.reading import feed
from apps.record.reading.lookup import find_session
from apps.record.reading.visibility import may_write_shared
from apps.web.shell import parse_index
from parley import db


class SessionConsumer(PageConsumer):
    """A page that follows one session."""

    context: Context
    conversation: Conversation
    seen = 0
    people: list[JSON] | None = None  # who else has the session open; None: it is not shared
    renewal: asyncio.Future[list[User]] | None = None  # of our presence; its thread cannot be canceled

    async def opened(self) -> None:
        await self.check_sign_in()
        session = uuid.UUID(str(self.scope["url_route"]["kwargs"]["session"]))
        context = await db.run(find_session, self.principal, session)
        self.context, self.seen = context, _after(self.scope["query_string"])
        self.conversation = await db.run(conversation_at, context, self.seen)
        first = {"last": self.seen, "mayWrite": may_write_shared(self.principal)}
        await self.send_json({**first, **await db.run(_status, context)})
        self.start(self._follow())
        self.start(self.watch())
        self.start(self._watch_people())

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        if self.renewal is not None:
            await asyncio.wait({self.renewal})
            await db.run(presence.leave, self.principal, self.context)

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
                self._note_sharing(events)
                while events[0].index - self.seen > self.UNSEEN_EVENTS:
                    await self.wait_for_page()
                await self.send(wire.json_text(await self._update(events)))

    async def _update(self, events: list[Event]) -> JSON:
        for entry in await feed.shared(events, "entries", _entries, self.context):
            self.conversation.take(entry)
        update: JSON = {"patch": self.conversation.patch(), "last": events[-1].index}
        self.conversation.forget_ended()
        if status.may_change_status(events):
            update |= await feed.shared(events, "status", _status_after, self.context)
        return update

    async def _watch_people(self) -> None:
        while True:
            if self.context.is_shared:
                await self._tell_people([person_label(one.pk, one.short_name) for one in await self._others()])
            elif self.people is not None:
                await self._tell_people([])
                self.people = None
            await asyncio.sleep(presence.RENEW_SECONDS)

    async def _others(self) -> list[User]:
        self.renewal = asyncio.wrap_future(db.submit(presence.renew, self.principal, self.context))
        return await asyncio.shield(self.renewal)

    async def _tell_people(self, people: list[JSON]) -> None:
        if people != (self.people or []):
            await self.send_json({"people": people})
        self.people = people

    def _note_sharing(self, events: list[Event]) -> None:
        """Raises Closed if the session is private again and not the reader's."""
        changes = [event.payload["sharing"] for event in events if event.type == EventType.SESSION_SHARED]
        if changes:
            self.context.is_shared = changes[-1] == Context.Sharing.WORKSPACE
            if not self.context.is_seen_by(self.principal):
                raise Closed(NOT_FOUND)


def _entries(events: list[Event], context: Context) -> list[JSON]:
    return entries_of(context, events)


def _status_after(events: list[Event], context: Context) -> dict[str, str]:
    return _status(context)


def _status(context: Context) -> dict[str, str]:
    """Empty if the session was deleted."""
    now = Context.objects.select_related("agent").filter(pk=context.pk).first()
    return status.whole_status(now) if now else {"status": ""}


def _after(query: bytes) -> int:
    """0 (all events) by default."""
    return parse_index(parse_qs(query.decode("ascii", "replace")).get("after", [""])[0]) or 0


websocket_urlpatterns = [path("ws/sessions/<uuid:session>", SessionConsumer.as_asgi())]
