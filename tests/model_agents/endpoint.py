"""A server with OpenAI's chat completions API, a list of models, and scripted answers.

It streams server-sent events; arguments of tool calls are split too, and the last chunk has the usage
(https://platform.openai.com/docs/api-reference/chat-streaming).
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}


@dataclass
class Asking:
    endpoint: Endpoint
    headers: dict[str, str]
    body: dict[str, Any]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def respond(self, status: int, body: bytes, media_type: str = "application/json", **headers: str) -> None:
        named = {"content-type": media_type, "content-length": str(len(body)), **headers}
        self._head(status, {name.replace("_", "-"): value for name, value in named.items()})
        self.writer.write(body)
        await self.writer.drain()

    def begin_stream(self) -> None:
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})

    async def event(self, data: str) -> None:
        line = f"data: {data}\n\n".encode()
        self.writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        await self.writer.drain()

    async def delta(self, finish: str | None = None, **delta: Any) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        await self.event(json.dumps(self._chunk([choice])))

    async def end_stream(self, finish: str) -> None:
        await self.delta(finish)
        await self.event(json.dumps(self._chunk([]) | {"usage": USAGE}))
        await self.event("[DONE]")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def whole(self, message: dict[str, Any], finish: str) -> None:
        choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
        await self.respond(200, json.dumps(self._completion([choice]) | {"usage": USAGE}).encode())

    def _completion(self, choices: list[Any]) -> dict[str, Any]:
        return {"id": "c1", "object": "chat.completion", "created": 1, "model": self.body["model"], "choices": choices}

    def _chunk(self, choices: list[Any]) -> dict[str, Any]:
        return self._completion(choices) | {"object": "chat.completion.chunk"}

    def _head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers.items())]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")


Reply = Callable[[Asking], Awaitable[None]]


def says(*pieces: str, thinking: str = "", finish: str = "stop") -> Reply:
    """Text, streamed in these pieces."""

    async def reply(asking: Asking) -> None:
        if not asking.body.get("stream"):
            await asking.whole({"content": "".join(pieces)}, finish)
            return
        asking.begin_stream()
        await asking.delta(role="assistant", content="")
        if thinking:
            await asking.delta(reasoning_content=thinking)
        for piece in pieces:
            await asking.delta(content=piece)
        await asking.end_stream(finish)

    return reply


def calls(*wanted: tuple[str, Any], text: str = "", prefix: str = "") -> Reply:
    """Tool calls by name with arguments (a dict, or raw JSON), after some text."""

    async def reply(asking: Asking) -> None:
        numbered = [
            (index, name, arguments if isinstance(arguments, str) else json.dumps(arguments))
            for index, (name, arguments) in enumerate(wanted)
        ]
        if not asking.body.get("stream"):
            made = [
                {"id": f"call-{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
                for index, name, arguments in numbered
            ]
            await asking.whole({"tool_calls": made}, "tool_calls")
            return
        asking.begin_stream()
        if text:
            await asking.delta(content=text)
        for index, name, arguments in numbered:
            call_id = f"{prefix or f'call-{len(asking.endpoint.requests)}'}-{index}"
            begun = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
            await asking.delta(tool_calls=[begun])
            half = len(arguments) // 2
            for piece in (arguments[:half], arguments[half:]):
                await asking.delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])
        await asking.end_stream("tool_calls")

    return reply


def refuses(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    body = json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
    return lambda asking: asking.respond(status, body, **headers)


def sends(body: bytes, media_type: str = "application/json") -> Reply:
    return lambda asking: asking.respond(200, body, media_type)


def breaks_off(*pieces: str) -> Reply:
    async def reply(asking: Asking) -> None:
        asking.begin_stream()
        for piece in pieces:
            await asking.delta(content=piece)
        asking.writer.close()

    return reply


def hangs(*pieces: str) -> Reply:
    """An unfinished stream, or no answer, until the client hangs up."""

    async def reply(asking: Asking) -> None:
        with suppress(ConnectionError):  # hanging up with unread data resets the connection
            if pieces:
                asking.begin_stream()
            for piece in pieces:
                await asking.delta(content=piece)
            asking.endpoint.hanging.set()
            while await asking.reader.read(1):
                pass
        asking.endpoint.hung_up.set()

    return reply


TARGETS = {f"POST /v1/{path} HTTP/1.1" for path in ("chat/completions", "audio/transcriptions", "audio/speech")}
MARKS = re.compile(r"<outside [0-9a-f]{16}> [^\n]*\n(.*?)\n</outside [0-9a-f]{16}>", re.DOTALL)


@dataclass
class Endpoint:
    """The server. Gives its replies in order; `requests` are bodies, `headers` their headers."""

    replies: list[Reply] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    hanging: threading.Event = field(default_factory=threading.Event)
    hung_up: threading.Event = field(default_factory=threading.Event)
    models: list[str] | None = None  # None: it has no list
    usual: Reply | None = None  # after the others
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def said(self, request: int = -1) -> list[tuple[str, Any]]:
        """What was said, without the marks around text from outside and the instructions about them."""
        told = [(one["role"], one.get("content")) for one in self.requests[request]["messages"]]
        plain = [(role, MARKS.sub(r"\1", text) if isinstance(text, str) else text) for role, text in told]
        return [(role, text) for role, text in plain if not str(text).startswith("Text between <outside")]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                target, *lines = head.strip().split("\r\n")
                headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
                if target == "GET /v1/models HTTP/1.1":
                    await self._list(Asking(self, headers, {}, reader, writer))
                    continue
                assert target in TARGETS, target
                content = await reader.readexactly(int(headers["content-length"]))
                is_json = headers["content-type"] == "application/json"
                body = json.loads(content) if is_json else {"form": content}
                self.requests.append(body)
                self.headers.append(headers)
                usual = self.usual or refuses(400, "The test has no further reply.")
                reply = self.replies.pop(0) if self.replies else usual
                await reply(Asking(self, headers, body, reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _list(self, asking: Asking) -> None:
        if self.models is None:
            await asking.respond(404, b"{}")
        else:
            rows = [{"id": name, "object": "model"} for name in self.models]
            await asking.respond(200, json.dumps({"object": "list", "data": rows}).encode())


@contextmanager
def running() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="endpoint")
    thread.start()
    starting = asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    server = asyncio.run_coroutine_threadsafe(starting, loop).result(10)
    endpoint.port = server.sockets[0].getsockname()[1]
    try:
        yield endpoint
    finally:
        asyncio.run_coroutine_threadsafe(_close(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _close(server: asyncio.Server) -> None:
    server.close()
    server.close_clients()
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    if rest:
        await asyncio.wait(rest, timeout=5)
