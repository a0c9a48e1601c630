"""Followers of all sessions of a tenant: by server-sent events and by WebSocket, cut at random and resumed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
import time
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Origin

from faults.history import Followed, Seen
from faults.load import Tenant
from tests.clients.streaming import Client, Cut, Refused

JSON = dict[str, Any]
BETWEEN = 0.3
CUT_BYTES = (2_000, 400_000)  # after so many a follower hangs up


class Follower(threading.Thread):
    """Follows until `stop`. `is_placed`: it has a place, so that it misses nothing from now on."""

    door = ""

    def __init__(self, tenant: Tenant, urls: list[str], seen: Seen, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.tenant, self.urls, self.chance = tenant, urls, chance
        self.heard = Followed(tenant.name, self.door)
        seen.followed.append(self.heard)
        self.is_placed = threading.Event()
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            self.heard.connections += 1
            self.connect_once()
            time.sleep(BETWEEN)

    def connect_once(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._over.set()

    def reached(self, session: str) -> int:
        return max((index for index, _ in self.heard.logs.get(session, [])), default=0)

    def note(self, event: JSON) -> None:
        if "index" in event:
            self.heard.logs[event["sessionId"]].append((event["index"], event["type"]))
            self.heard.text.append(json.dumps(event))
        else:
            self.heard.resets.append(event)


class EventsFollower(Follower):
    """`GET /api/v1/events`, resumed by `Last-Event-ID`."""

    door = "events"
    _place = ""

    def connect_once(self) -> None:
        client = Client(self.chance.choice(self.urls), self.tenant.key, place=self._place)
        with contextlib.suppress(Cut, Refused, OSError, asyncio.IncompleteReadError):
            asyncio.run(self._hear(client))
        self._place = client.place

    async def _hear(self, client: Client) -> None:
        hearing = asyncio.create_task(self._take(client))
        while not hearing.done() and not self._over.is_set():
            await asyncio.wait({hearing}, timeout=BETWEEN)
            if client.place:  # also by a heartbeat, which is no event
                self.is_placed.set()
        hearing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await hearing

    async def _take(self, client: Client) -> None:
        async with contextlib.aclosing(client.hear(self.chance.randint(*CUT_BYTES))) as events:
            async for event in events:
                self.note(event)


class SocketFollower(Follower):
    """`/ws/events` with the browser's session, resumed by its token."""

    door = "socket"
    _place = ""

    def connect_once(self) -> None:
        url = self.chance.choice(self.urls)
        headers = {"Cookie": f"sessionid={self.tenant.session}"}
        address = url.replace("http", "ws", 1) + "/ws/events"
        with (
            contextlib.suppress(WebSocketException, OSError, TimeoutError),
            connect(address, additional_headers=headers, origin=Origin(url), open_timeout=10, proxy=None) as socket,
        ):
            socket.send(json.dumps({"since": self._place} if self._place else {}))
            self._hear(socket, self.chance.randint(*CUT_BYTES))

    def _hear(self, socket: Any, most: int) -> None:
        silent_since = time.monotonic()
        while most > 0 and not self._over.is_set() and time.monotonic() - silent_since < 40:
            with contextlib.suppress(TimeoutError):
                text = socket.recv(timeout=1)
                silent_since = time.monotonic()
                most -= len(text)
                self._take(socket, json.loads(text))

    def _take(self, socket: Any, told: JSON) -> None:
        for event in told.get("events", []):
            self.note(event)
        self._place = told.get("token", self._place)
        if self._place:
            self.is_placed.set()
        if "number" in told:
            socket.send(json.dumps({"seen": told["number"]}))
