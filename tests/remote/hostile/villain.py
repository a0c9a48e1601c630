"""An A2A server over JSON-RPC that answers byte for byte what a test wants, method by method.

    async with villain() as bad:
        bad.on["SendStreamingMessage"] = cut_after(2)
        ...

By default it behaves well: each message gets a task, which completes with an artifact.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.remote import card_server

JSON = dict[str, Any]
CARD = "/.well-known/agent-card.json"
SSE = "text/event-stream"


@dataclass
class Call:
    """A request and its connection. `id` is JSON-RPC's; `method` is "card" for card requests."""

    villain: Villain
    method: str
    params: JSON
    id: Any
    headers: dict[str, str]
    writer: asyncio.StreamWriter

    # Bytes

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: str = "200 OK", kind: str = "application/json", *headers: str) -> None:
        """No Content-Length: the body ends with the connection."""
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *headers]
        await self.write("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def body(self, content: bytes, status: str = "200 OK", kind: str = "application/json", *more: str) -> None:
        await self.head(status, kind, f"Content-Length: {len(content)}", *more)
        await self.write(content)

    def cut(self) -> None:
        """Reset the connection, as a crash does."""
        self.writer.transport.abort()

    async def hang(self) -> None:
        """Send nothing until the other side leaves or the test ends."""
        await self.villain.over.wait()

    # A2A

    def packed(self, result: JSON) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": self.id, "result": result}).encode()

    async def answer(self, result: JSON) -> None:
        await self.body(self.packed(result))

    async def refuse(self, code: int, message: str) -> None:
        error = {"jsonrpc": "2.0", "id": self.id, "error": {"code": code, "message": message}}
        await self.body(json.dumps(error).encode())

    async def stream(self) -> None:
        await self.head("200 OK", SSE)

    async def event(self, result: JSON) -> None:
        await self.write(b"data: " + self.packed(result) + b"\n\n")

    async def events(self, *results: JSON) -> None:
        await self.stream()
        for result in results:
            await self.event(result)


Answering = Callable[[Call], Awaitable[None]]


class Villain:
    """The server. `card` is its card, `on` its answers by method, `calls` its requests."""

    def __init__(self) -> None:
        self.port = 0
        self.scheme = "http"
        self.host = "127.0.0.1"
        self.streams = True
        self.changes: JSON = {}  # to the card
        self.on: dict[str, Answering] = {}
        self.calls: list[Call] = []
        self.over = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def card(self) -> JSON:
        capabilities = {"streaming": self.streams, "pushNotifications": False}
        return card_server.card(f"{self.url}/", **{"name": "Villain", "capabilities": capabilities, **self.changes})

    def called(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            call = await self._read(reader, writer)
            self.calls.append(call)
            await self.on.get(call.method, WELL.get(call.method, unknown))(call)
        self._writers.discard(writer)
        with suppress(ConnectionError):
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Call:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        if first.startswith("GET"):
            return Call(self, "card", {}, None, headers, writer)
        sent = json.loads(content)
        return Call(self, sent["method"], sent["params"], sent["id"], headers, writer)

    def end(self) -> None:
        self.over.set()
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def villain(tls: ssl.SSLContext | None = None) -> AsyncIterator[Villain]:
    made = Villain()
    made.scheme = "https" if tls else "http"
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls, backlog=1024)
    made.port = listening.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        listening.close()
        made.end()


# What a good agent says


def task(state: str, call: Call, *artifacts: JSON, said: str = "") -> JSON:
    message = call.params.get("message", {})
    task_id = call.params.get("id") or message.get("taskId") or f"task-{message['messageId']}"
    status: JSON = {"state": f"TASK_STATE_{state}"}
    if said:
        status["message"] = {"messageId": str(uuid.uuid4()), "role": "ROLE_AGENT", "parts": [{"text": said}]}
    return {"id": task_id, "contextId": "context", "status": status, "artifacts": list(artifacts)}


def status(state: str, call: Call, said: str = "", **fields: Any) -> JSON:
    whole = task(state, call, said=said)
    return {"statusUpdate": {"taskId": whole["id"], "contextId": "context", "status": whole["status"], **fields}}


def artifact(text: str, name: str = "answer") -> JSON:
    return {"artifactId": name, "name": name, "parts": [{"text": text}]}


def chunk(call: Call, text: str, *, append: bool = False, last: bool = False, name: str = "answer") -> JSON:
    whole = task("WORKING", call)
    update = {"artifact": artifact(text, name), "append": append, "lastChunk": last}
    return {"artifactUpdate": {"taskId": whole["id"], "contextId": "context", **update}}


def conversation(call: Call) -> list[JSON]:
    """The events of a successful task; its artifact is "one two three "."""
    return [
        {"task": task("SUBMITTED", call)},
        status("WORKING", call),
        chunk(call, "one "),
        chunk(call, "two ", append=True),
        chunk(call, "three ", append=True, last=True),
        status("COMPLETED", call, "All said."),
    ]


def done(call: Call) -> JSON:
    return task("COMPLETED", call, artifact("one two three "), said="All said.")


async def streams_well(call: Call) -> None:
    await call.events(*conversation(call))


async def sends_well(call: Call) -> None:
    await call.answer({"task": done(call)})


async def gets_well(call: Call) -> None:
    await call.answer(done(call))


async def works_for_ever(call: Call) -> None:
    await call.answer(task("WORKING", call))


async def cancels_well(call: Call) -> None:
    await call.answer(task("CANCELED", call))


async def shows_card(call: Call) -> None:
    await call.body(json.dumps(call.villain.card).encode())


async def unknown(call: Call) -> None:
    await call.refuse(-32601, "Method not found")


async def over_already(call: Call) -> None:
    await call.refuse(-32004, "This task has ended.")


WELL: dict[str, Answering] = {
    "card": shows_card,
    "SendMessage": sends_well,
    "SendStreamingMessage": streams_well,
    "GetTask": gets_well,
    "SubscribeToTask": over_already,
    "CancelTask": cancels_well,
}
