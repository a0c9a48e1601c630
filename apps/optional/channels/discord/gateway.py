"""The Gateway, by which Discord tells of messages: https://docs.discord.com/developers/events/gateway

One connection, read by one worker. Its session and the number of its last event are the feed's state, so that another
connection, even of another worker, goes on behind it: Discord repeats what came meanwhile, for some minutes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from apps.optional.channels.discord import receiving, sending
from apps.optional.channels.platforms import Heard, Later, Refused
from parley import outbound
from parley.outbound import Exchange, Forbidden, OutboundError

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

log = logging.getLogger("parley.channels")

JSON = dict[str, Any]
# Messages and reactions, in servers and in direct messages, with their content
INTENTS = 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 15
REFUSED = {
    4004: "Discord does not accept the bot token.",
    4010: "Discord does not accept the connection.",
    4011: "The bot is in too many servers for one connection.",
    4012: "Discord does not know this version of the Gateway any more.",
    4013: "Discord does not accept the connection.",
    4014: "Turn on Message Content Intent under Bot, at discord.com/developers/applications.",
}
FORGOTTEN = (4007, 4009)  # the session: a new one begins
NOT_ALIVE = 4000
HELLO_SECONDS = 20.0
EVENTS = ("MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_REACTION_ADD")
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError)


class Operation(IntEnum):
    DISPATCH = 0
    HEARTBEAT = 1
    IDENTIFY = 2
    RESUME = 6
    RECONNECT = 7
    INVALID = 9
    HELLO = 10
    ACKNOWLEDGED = 11


@dataclass
class Gateway:
    """One connection. `state` is `{"session", "number", "url", "bot"}` of the session, {} before there is one."""

    client: Exchange
    api: str
    token: str
    state: JSON
    is_answered: bool = field(default=True, init=False)  # the last heartbeat

    async def heard(self) -> AsyncGenerator[Heard]:
        """What people do, until the connection ends. Raises Later, Refused."""
        url = self.state.get("url") or await self._find()
        try:
            with _closed(self.state):
                address = f"{url.rstrip('/')}/?v=10&encoding=json"
                async with outbound.websocket(address) as connection, self._alive(connection):
                    await self._begin(connection)
                    async with aclosing(self._events(connection)) as events:
                        async for one in events:
                            yield one
        except Forbidden as forbidden:
            raise Refused(str(forbidden)) from None
        except (OutboundError, TimeoutError) as error:
            self.state.pop("url", None)  # the next connection asks for another
            yield Heard(state=dict(self.state))
            raise Later(str(error) or "Discord's Gateway does not answer.") from None
        yield Heard(state=dict(self.state))

    async def _find(self) -> str:
        found = await sending.ask(self.client, self.api, self.token, "GET", "/gateway/bot")
        return str(found["url"])

    @asynccontextmanager
    async def _alive(self, connection: ClientConnection) -> AsyncGenerator[None]:
        """Heartbeats in the time that Discord wants. A usual close would end the session."""
        async with asyncio.timeout(HELLO_SECONDS):
            hello = json.loads(await connection.recv())
        beating = asyncio.create_task(self._beat(connection, hello["d"]["heartbeat_interval"] / 1000))
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            await connection.close(NOT_ALIVE)

    async def _beat(self, connection: ClientConnection, seconds: float) -> None:
        await asyncio.sleep(seconds * random.random())  # noqa: S311 - spreads load
        while True:
            if not self.is_answered:
                await connection.close(NOT_ALIVE)
                return
            self.is_answered = False
            await self._send(connection, Operation.HEARTBEAT, self.state.get("number"))
            await asyncio.sleep(seconds)

    async def _begin(self, connection: ClientConnection) -> None:
        if session := self.state.get("session"):
            data = {"token": self.token, "session_id": session, "seq": self.state["number"]}
            await self._send(connection, Operation.RESUME, data)
        else:
            about = {"os": "linux", "browser": "parley", "device": "parley"}
            await self._send(
                connection, Operation.IDENTIFY, {"token": self.token, "intents": INTENTS, "properties": about}
            )

    async def _send(self, connection: ClientConnection, operation: Operation, data: Any) -> None:
        await connection.send(json.dumps({"op": operation, "d": data}))

    async def _events(self, connection: ClientConnection) -> AsyncGenerator[Heard]:
        async for message in connection:
            told = json.loads(message)
            match told["op"]:
                case Operation.DISPATCH:
                    self.state["number"] = told["s"]
                    if (one := self._dispatched(told["t"], told["d"])) is not None:
                        yield one
                case Operation.HEARTBEAT:
                    await self._send(connection, Operation.HEARTBEAT, self.state.get("number"))
                case Operation.ACKNOWLEDGED:
                    self.is_answered = True
                case Operation.RECONNECT:
                    return
                case Operation.INVALID:
                    if not told.get("d"):
                        self.state.clear()
                    return

    def _dispatched(self, kind: str, told: JSON) -> Heard | None:
        if kind == "READY":
            about = {"session": told["session_id"], "url": told["resume_gateway_url"], "bot": told["user"]["id"]}
            self.state.update(about)
            return Heard(state=dict(self.state))
        if kind == "RESUMED":
            return Heard(state=dict(self.state))
        if kind not in EVENTS:
            return None
        event_id = f"{self.state['session']} {self.state['number']}"
        try:
            events = list(receiving.heard(kind, told, event_id, self.state["bot"]))
        except UNREADABLE:
            return Heard(state=dict(self.state), refused={event_id: f"An event {kind} cannot be read."})
        return Heard(events, dict(self.state)) if events else None


@contextmanager
def _closed(state: JSON) -> Iterator[None]:
    """The end of a connection. Raises Refused if there is no use in another one."""
    from websockets.exceptions import ConnectionClosed

    try:
        yield
    except ConnectionClosed as closed:
        code = closed.rcvd.code if closed.rcvd else 0
        if code in REFUSED:
            raise Refused(REFUSED[code]) from None
        if code in FORGOTTEN:
            state.clear()
        log.info("the Gateway of Discord closed its connection: %s", code)
