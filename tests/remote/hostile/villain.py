"""An A2A server over JSON-RPC that answers byte for byte what a test wants, method by method.

    async with villain() as bad:
        bad.on["SendStreamingMessage"] = Call.cut

By default it behaves well: each message gets a task, which completes with an artifact.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.outbound.receiving import server
from tests.remote.card_server import card
from tests.remote.reaching import JSON, event, head, result

STREAM = "SendStreamingMessage"
WELL = "one two three "


@dataclass
class Call:
    """A JSON-RPC request and its connection."""

    villain: Villain
    method: str
    params: JSON
    writer: asyncio.StreamWriter

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def body(self, content: bytes, status: str = "200 OK", kind: str = "application/json", *more: str) -> None:
        await self.write(head(kind, *more, status=status, length=len(content)) + content)

    async def cut(self) -> None:
        """Reset the connection, as a crash does."""
        self.writer.transport.abort()

    async def hang(self) -> None:
        """Send nothing until the other side leaves or the test ends."""
        await self.villain.over.wait()

    async def answer(self, value: JSON) -> None:
        await self.body(result(value))

    async def refuse(self, code: int, message: str) -> None:
        error = {"jsonrpc": "2.0", "id": "1", "error": {"code": code, "message": message}}
        await self.body(json.dumps(error).encode())

    async def events(self, *values: JSON) -> None:
        await self.write(head("text/event-stream") + b"".join(map(event, values)))


Answering = Callable[[Call], Awaitable[None]]


class Villain:
    """The server. `on` is its answers by method, `calls` its requests."""

    def __init__(self) -> None:
        self.url = ""
        self.on: dict[str, Answering] = {}
        self.calls: list[Call] = []
        self.over = asyncio.Event()

    @property
    def card(self) -> JSON:
        return card(self.url, name="Villain")

    def called(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    async def serve(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        sent = json.loads(request.partition(b"\r\n\r\n")[2])
        call = Call(self, sent["method"], sent["params"], writer)
        self.calls.append(call)
        await (self.on.get(call.method) or DEFAULTS[call.method])(call)


@asynccontextmanager
async def villain(tls: ssl.SSLContext | None = None) -> AsyncIterator[Villain]:
    made = Villain()
    async with server(made.serve, tls) as at:
        made.url = at.url.replace("http:", "https:") if tls else at.url
        try:
            yield made
        finally:
            made.over.set()
            for call in made.calls:
                call.writer.transport.abort()


# What a good agent says


def task(state: str, call: Call, *artifacts: JSON, said: str = "") -> JSON:
    message = call.params.get("message", {})
    task_id = call.params.get("id") or message.get("taskId") or f"task-{message['messageId']}"
    status: JSON = {"state": f"TASK_STATE_{state}"}
    if said:
        status["message"] = {"messageId": f"said-{task_id}", "role": "ROLE_AGENT", "parts": [{"text": said}]}
    return {"id": task_id, "contextId": "context", "status": status, "artifacts": list(artifacts)}


def status(state: str, call: Call, said: str = "") -> JSON:
    whole = task(state, call, said=said)
    return {"statusUpdate": {"taskId": whole["id"], "contextId": "context", "status": whole["status"]}}


def artifact(text: str, name: str = "answer") -> JSON:
    return {"artifactId": name, "name": name, "parts": [{"text": text}]}


def chunk(call: Call, text: str, *, append: bool = False, last: bool = False, name: str = "answer") -> JSON:
    update = {"artifact": artifact(text, name), "append": append, "lastChunk": last}
    return {"artifactUpdate": {"taskId": task("WORKING", call)["id"], "contextId": "context", **update}}


def conversation(call: Call) -> list[JSON]:
    """The events of a successful task; its artifact is WELL."""
    return [
        {"task": task("SUBMITTED", call)},
        status("WORKING", call),
        chunk(call, "one "),
        chunk(call, "two ", append=True),
        chunk(call, "three ", append=True, last=True),
        status("COMPLETED", call, "All said."),
    ]


def done(call: Call) -> JSON:
    return task("COMPLETED", call, artifact(WELL), said="All said.")


async def works_for_ever(call: Call) -> None:
    await call.answer(task("WORKING", call))


async def over_already(call: Call) -> None:
    await call.refuse(-32004, "This task has ended.")


DEFAULTS: dict[str, Answering] = {
    STREAM: lambda call: call.events(*conversation(call)),
    "SendMessage": lambda call: call.answer({"task": done(call)}),
    "GetTask": lambda call: call.answer(done(call)),
    "SubscribeToTask": over_already,
    "CancelTask": lambda call: call.answer(task("CANCELED", call)),
}
