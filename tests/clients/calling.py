"""A caller of the client API over HTTP, through the ASGI application."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from asgiref.testing import ApplicationCommunicator

from apps.record.wire import EventStream
from parley.asgi import application
from tests.clients import promises

JSON = dict[str, Any]
HOST = "localhost"


@asynccontextmanager
async def followed(stream: EventStream) -> AsyncGenerator[AsyncGenerator[bytes]]:
    """Its frames; leaving ends it, as a server does."""
    try:
        async with aclosing(stream.frames) as frames:
            yield frames
    finally:
        stream.ended()


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def code(self) -> str:
        """The problem's code; checks that it is a problem."""
        assert self.headers["content-type"] == "application/problem+json", self.content
        told = self.body
        assert told["status"] == self.status
        assert told["detail"].endswith((".", "”", "?"))
        return told["code"]

    @property
    def fields(self) -> list[str]:
        """The fields that a problem is about; checks that no message repeats its field."""
        for one in self.body.get("errors", []):
            assert not one["field"] or f"{one['field'].rpartition('.')[2]}: " not in one["message"], one
        return [one["field"] for one in self.body.get("errors", [])]


@dataclass
class Caller:
    """A caller with a key, cookies or nothing."""

    key: str = ""
    cookies: dict[str, str] = field(default_factory=dict)

    @property
    def credentials(self) -> dict[str, str]:
        key = {"authorization": f"Bearer {self.key}"} if self.key else {}
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {"host": HOST, **key, **({"cookie": cookies} if cookies else {})}

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, headers=headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return await self.ask("POST", path, body, headers)

    async def put(self, path: str, body: Any = None, **headers: str) -> Answer:
        return await self.ask("PUT", path, body, headers)

    async def patch(self, path: str, body: Any = None, **headers: str) -> Answer:
        return await self.ask("PATCH", path, body, headers)

    async def delete(self, path: str, **headers: str) -> Answer:
        return await self.ask("DELETE", path, headers=headers)

    async def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """`path` is relative to /api/v1; underscores in header names become hyphens. Bytes are sent unchanged."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {**({"content-type": "application/json"} if content else {}), **self.credentials}
        sent |= {name.replace("_", "-").lower(): value for name, value in (headers or {}).items()}
        answer = await _served(method, f"/api/v1{path}", content, sent)
        media_type = answer.headers.get("content-type", "").partition(";")[0]
        body = answer.body if answer.content and media_type.endswith("json") else answer.content or None
        promises.hold(method, f"/api/v1{path}", answer.status, media_type, body)
        return answer


def scope_of(method: str, address: str, headers: dict[str, str]) -> JSON:
    path, _, query = address.partition("?")
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [
            (name.replace("_", "-").lower().encode(), value.encode("latin1")) for name, value in headers.items()
        ],
        "client": ("127.0.0.1", 1),
        "server": (HOST, 80),
    }


async def _served(method: str, address: str, content: bytes, headers: dict[str, str]) -> Answer:
    line = ApplicationCommunicator(
        application, scope_of(method, address, headers | {"content-length": f"{len(content)}"})
    )
    await line.send_input({"type": "http.request", "body": content})
    start = await line.receive_output(30)
    said, more = b"", True
    while more:
        chunk = await line.receive_output(30)
        said, more = said + chunk.get("body", b""), chunk.get("more_body", False)
    await line.wait(30)
    answered = {name.decode().lower(): value.decode("latin1") for name, value in start["headers"]}
    return Answer(start["status"], answered, said)
