"""A client of `GET /events` on a bare socket that may be cut anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.stack import Stack

JSON = dict[str, Any]
READ = 2048


class Cut(Exception):
    pass


class Refused(Exception):
    """The answer was not a stream."""


@dataclass
class Client:
    """Keeps its events and position from one connection to the next."""

    url: str
    key: str
    query: str = ""
    place: str = ""
    told: list[JSON] = field(default_factory=list)
    logs: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    lines: int = 0

    async def hear(self, cut_after: float = float("inf")) -> AsyncIterator[JSON]:
        """Connect, and yield complete events. Raises Cut after `cut_after` bytes or a break."""
        target = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(target.hostname, target.port)
        self.lines += 1
        try:
            writer.write(self._request(target.netloc))
            async for name, said in self._frames(reader, cut_after):
                self.told.append({"name": name, **said})
                if "index" in said:
                    self.logs[said["sessionId"]].append((said["index"], said["type"]))
                yield self.told[-1]
        except (ConnectionError, asyncio.IncompleteReadError):
            raise Cut from None
        finally:
            writer.transport.abort()

    def _request(self, host: str) -> bytes:
        head = [f"GET /api/v1/events{self.query} HTTP/1.0", f"Host: {host}", f"Authorization: Bearer {self.key}"]
        head += [f"Last-Event-ID: {self.place}"] if self.place else []
        return ("\r\n".join([*head, "Accept: text/event-stream"]) + "\r\n\r\n").encode()

    async def _frames(self, reader: asyncio.StreamReader, most: float) -> AsyncIterator[tuple[str, JSON]]:
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise Refused(head.decode() + (await reader.read()).decode())
        kept, read = b"", 0
        while True:
            some = await reader.read(int(min(READ, most - read)) or 1)
            read += len(some)
            if not some or read >= most:
                raise Cut
            *whole, kept = (kept + some).split(b"\n\n")
            for text in whole:
                if found := self._event(text.decode()):
                    yield found

    def _event(self, text: str) -> tuple[str, JSON] | None:
        """The frame's event, if any; its id becomes the position."""
        fields = dict(line.split(": ", 1) for line in text.split("\n") if not line.startswith(":"))
        self.place = fields.get("id", self.place)
        return (fields["event"], json.loads(fields["data"])) if "data" in fields else None

    async def begin(self) -> None:
        most = 160
        while not self.place:
            most *= 2  # until a position comes within so many bytes
            with contextlib.suppress(Cut, TimeoutError):
                async with contextlib.aclosing(self.hear(most)) as events, asyncio.timeout(2):
                    async for _ in events:
                        pass

    async def follow(self, until: Any, cuts: int = 0, seed: int = 0, most: int = 8000) -> None:
        """Follow until `until()` holds, with so many cuts at random bytes."""
        chance = random.Random(seed)
        while cuts or not until():
            after = chance.randint(1, most) if cuts else float("inf")
            try:
                async with contextlib.aclosing(self.hear(after)) as events:
                    async for _ in events:
                        if not cuts and until():
                            return
            except Cut:
                cuts = max(0, cuts - 1)
            except ConnectionError:
                await asyncio.sleep(0.05)


LOGS = """
import django, json, sys
django.setup()
from apps.record.models import Event
logs = {key: list(Event.objects.filter(context=key).order_by("index").values_list("index", "type"))
        for key in json.loads(sys.argv[1])}
print(json.dumps(logs))
"""


def logs_of(stack: Stack, sessions: list[str]) -> dict[str, list[tuple[int, str]]]:
    """What clients of these sessions should have heard."""
    found: dict[str, Any] = json.loads(stack.python("-c", LOGS, json.dumps(sessions)).stdout)
    return {session: [(index, name) for index, name in log] for session, log in found.items()}
