"""What stand-ins of platforms share: a server that speaks HTTP, and what people would see there."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from django.test import AsyncClient

from tests.outbound.receiving import answer, server

JSON = dict[str, Any]


@dataclass
class Shown:
    """A message as people see it."""

    id: str
    thread: str
    text: str
    buttons: list[tuple[str, str]] = field(default_factory=list)
    file: bytes | None = None
    edits: int = 0


@dataclass
class Call:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> JSON:
        if self.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}
        return json.loads(self.body) if self.body else {}


class StandIn(ABC):
    """A platform. Subclasses answer its calls (`answer`) and make its requests (`message` and others).

    Attributes:
        name: of the platform.
        credentials: of the channel.
        shown: all messages of the agent, oldest first.
        refusals: how the next calls that post are refused: status and `Retry-After`.
        has: what the platform can do. `groups`: several people in one thread. `busy`: it says when to ask again.
    """

    name: str
    credentials: dict[str, str]
    has = frozenset({"edits", "buttons", "files", "reactions", "groups", "busy"})

    def __init__(self) -> None:
        self.shown: list[Shown] = []
        self.refusals: list[tuple[str, str]] = []
        self.url = self.channel = ""
        self.came = asyncio.Event()
        self.count = 0

    def person(self, name: str) -> str:
        """The platform's id of somebody."""
        return name

    def number(self) -> int:
        self.count += 1
        return self.count

    async def take(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        call = Call(method, path, headers, body)
        if self.posts(call) and self.refusals:
            status, seconds = self.refusals.pop(0)
            self.send(self.refused(status, seconds), writer)
            return
        said = self.answer(call)
        status, said = said if isinstance(said, tuple) else ("200 OK", said)
        self.send(answer(said if isinstance(said, bytes) else json.dumps(said).encode(), status), writer)
        self.came.set()

    def send(self, reply: bytes, writer: asyncio.StreamWriter) -> None:
        """The server closes each connection, and says so: nobody shall begin another call in it meanwhile."""
        writer.write(reply.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))

    def refused(self, status: str, seconds: str) -> bytes:
        return answer(b"{}", status, f"Retry-After: {seconds}")

    def new_id(self) -> str:
        """Of a message of the agent."""
        return f"{self.number()}.0"

    @abstractmethod
    def posts(self, call: Call) -> bool: ...

    @abstractmethod
    def answer(self, call: Call) -> JSON | bytes | tuple[str, JSON]:
        """The body, after a status that is not 200."""

    async def deliver(self, channel: Any, request: tuple[dict[str, str], bytes]) -> int:
        """Make a request of the platform; returns the status."""
        headers, body = request
        kind = headers.pop("Content-Type", "application/json")
        answer = await AsyncClient().post(f"/hooks/chats/{channel.pk}", body, kind, headers=headers)
        return answer.status_code

    async def close(self) -> None:  # noqa: B027
        """What else was opened."""

    def post(self, thread: str, text: str, buttons: tuple[tuple[str, str], ...] = (), file: bytes | None = None) -> str:
        self.shown.append(Shown(self.new_id(), thread, text, list(buttons), file))
        return self.shown[-1].id

    def change(self, key: str, text: str, buttons: list[tuple[str, str]]) -> None:
        found = next(one for one in self.shown if one.id == key)
        found.text, found.buttons, found.edits = text, list(buttons), found.edits + 1

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.shown]

    def button(self, label: str) -> tuple[Shown, str]:
        """The newest button with this label, and its value."""
        return next((one, value) for one in reversed(self.shown) for words, value in one.buttons if words == label)


@asynccontextmanager
async def standing(one: StandIn):
    async with server(one.take) as at:
        one.url = at.url.rstrip("/")
        yield one
        await one.close()
