"""The base of WebSocket consumers for pages: sign-in, heartbeats, flow control and close codes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest

from apps.accounts import revocation
from apps.accounts.errors import NotFound
from apps.accounts.models import User
from apps.accounts.principals import ANONYMOUS, Principal
from apps.accounts.requests.authentication import session_user
from parley import db

log = logging.getLogger("parley.websocket")

INTERNAL_ERROR = 1011
REFUSED = 4400
SIGNED_OUT = 4401
CHANGED = 4403
NOT_FOUND = 4404
TOO_SLOW = 4408
TOO_MANY = 4429


class Closed(Exception):
    """Close the connection with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class PageConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """A page's connection. `opened` and background work may raise `Closed`."""

    ALIVE_SECONDS = 15.0  # between heartbeats
    RECHECK_SECONDS = 45.0  # between checks of the sign-in
    UNSEEN_EVENTS = 3000  # that a page may be behind
    SLOW_SECONDS = 60.0  # to wait for an acknowledgment

    principal: Principal = ANONYMOUS

    async def opened(self) -> None:
        """Called after the connection is accepted."""
        raise NotImplementedError

    async def connect(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self.acknowledged = asyncio.Event()
        await self.accept()  # otherwise browsers see no close code
        await self._guard(self.opened())

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this until the connection closes."""
        self._tasks.append(asyncio.create_task(self._guard(work)))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Closed as reason:
            await self.close(reason.code)
        except NotFound:
            await self.close(NOT_FOUND)
        except Exception:
            log.exception("the WebSocket %s broke", self.scope["path"])
            await self.close(INTERNAL_ERROR)

    async def check_sign_in(self) -> None:
        """Set `principal`. Raises Closed after a sign-out, another sign-in, or a change of role or workspace."""
        principal = await db.run(_signed_in_principal, self.scope["session"])
        if principal is None or self.principal.user_id not in (None, principal.user_id):
            raise Closed(SIGNED_OUT)
        if self.principal not in (ANONYMOUS, principal):  # another role, or another workspace
            raise Closed(CHANGED)
        self.principal = principal
        db.caller.set(principal.sender)

    async def watch(self) -> None:
        """Send heartbeats, and close after a sign-out."""
        clock = asyncio.get_running_loop().time
        checked = clock()
        changed = revocation.next_change(self.principal.sender)
        while True:
            await asyncio.wait({changed}, timeout=min(self.ALIVE_SECONDS, self.RECHECK_SECONDS))
            if changed.done() or clock() - checked >= self.RECHECK_SECONDS:
                checked, changed = clock(), revocation.next_change(self.principal.sender)
                await self.check_sign_in()
            await self.send_json(self.heartbeat())

    def heartbeat(self) -> dict[str, Any]:
        return {"alive": True}

    async def wait_for_page(self) -> None:
        """Wait until `acknowledged` is set. Raises Closed if the page takes too long."""
        try:
            async with asyncio.timeout(self.SLOW_SECONDS):
                await self.acknowledged.wait()
        except TimeoutError:
            raise Closed(TOO_SLOW) from None
        self.acknowledged.clear()

    async def send_json(self, value: dict[str, Any]) -> None:
        await self.send(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def signed_in_user(session: SessionBase) -> User | None:
    """A browser session's user; None after a sign-out or a password change."""
    request = HttpRequest()
    request.session = session.__class__(session.session_key)
    return session_user(request)


def _signed_in_principal(session: SessionBase) -> Principal | None:
    user = signed_in_user(session)
    return user.principal if user else None
