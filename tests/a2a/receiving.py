"""A real HTTP server that receives webhooks."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from a2a.compat.v0_3 import types as old
from a2a.types import a2a_pb2

from tests.a2a.calling import JSON, strictly_parsed
from tests.outbound.receiving import Server, answer, server

Answering = Callable[[int], bytes]


@dataclass(frozen=True)
class Call:
    headers: dict[str, str]
    body: JSON

    @property
    def what(self) -> str:
        """The state of a status update or 0.3 task; "artifact" for an artifact update."""
        update = self.body if "kind" in self.body else self.body.get("statusUpdate")
        return update["status"]["state"].removeprefix("TASK_STATE_").lower() if update else "artifact"


class Receiver:
    """Records its calls; `answering` makes the answer to call n, from 0. Rejects invalid bodies."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answering: Answering = lambda number: answer(b"", "204 No Content")
        self.waits_for: asyncio.Event | None = None
        self._grown = asyncio.Condition()
        self._server: Any = None

    @property
    def url(self) -> str:
        return f"{self._server.url}hook"

    @property
    def told(self) -> list[str]:
        return [call.what for call in self.calls]

    async def have(self, number: int) -> list[Call]:
        async with asyncio.timeout(60), self._grown:
            await self._grown.wait_for(lambda: len(self.calls) >= number)
        return self.calls

    async def have_heard(self, state: str) -> list[Call]:
        async with asyncio.timeout(60), self._grown:
            await self._grown.wait_for(lambda: state in self.told)
        return self.calls

    async def take(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert lines[0] == "POST /hook HTTP/1.1"
        call = Call(dict(line.split(": ", 1) for line in lines[1:]), json.loads(body))
        check(call.body)
        async with self._grown:
            self.calls.append(call)
            self._grown.notify_all()
        number = len(self.calls) - 1
        if self.waits_for is not None:
            await self.waits_for.wait()
        writer.write(self.answering(number))
        await writer.drain()

    def attach(self, at: Server) -> None:
        self._server = at


def check(body: JSON) -> None:
    """The body must be valid A2A 1.0 or 0.3."""
    if "kind" in body:
        old.Task.model_validate(body)
    else:
        strictly_parsed(body, a2a_pb2.StreamResponse)


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    built = Receiver()
    async with server(built.take) as at:
        built.attach(at)
        yield built
        if built.waits_for is not None:
            built.waits_for.set()
