"""An A2A caller over HTTP."""

import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from django.test import AsyncClient
from google.protobuf import json_format

from tests.a2a.strictness import ANSWERS
from tests.clients.calling import followed

JSON = dict[str, Any]

RESULTS = ANSWERS


@dataclass
class Answer:
    status: int
    headers: Any
    body: JSON

    @property
    def result(self) -> JSON:
        assert "result" in self.body, self.body
        return self.body["result"]

    @property
    def error(self) -> JSON:
        assert "error" in self.body, self.body
        return self.body["error"]

    @property
    def code(self) -> int:
        return self.error["code"]

    @property
    def details(self) -> list[JSON]:
        """The error's details, each of a google.rpc type."""
        return self.error.get("data", [])

    @property
    def reason(self) -> str:
        return next((one["reason"] for one in details_of(self.details, "ErrorInfo")), "")

    @property
    def fields(self) -> list[str]:
        told = details_of(self.details, "BadRequest")
        return [violation["field"] for one in told for violation in one["fieldViolations"]]


@dataclass
class Caller:
    """Calls one agent or the front door. `strictness` checks the answers of 1.0; subclasses those of others."""

    slug: str
    key: str = ""
    version: str = "1.0"
    client: AsyncClient = field(default_factory=lambda: AsyncClient(raise_request_exception=True))

    @property
    def path(self) -> str:
        return f"/a2a/{self.slug}" if self.slug else "/a2a"

    def headers(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        standard = {"A2A-Version": self.version, "Authorization": f"Bearer {self.key}" if self.key else ""}
        return {name: value for name, value in (standard | (extra or {})).items() if value}

    async def post(self, body: Any, headers: dict[str, str] | None = None, **options: Any) -> Answer:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        options = {"path": self.path, "content_type": "application/json"} | options
        response = await self.client.post(data=content, headers=self.headers(headers), **options)
        if response.streaming:
            raise AssertionError("a stream came where one answer was expected")
        return Answer(response.status_code, response.headers, json.loads(response.content or b"{}"))

    async def call(self, method: str, params: Any, headers: dict[str, str] | None = None) -> Answer:
        answer = await self.post({"jsonrpc": "2.0", "id": "1", "method": method, "params": params}, headers)
        if "result" in answer.body:
            self.check(method, answer.result)
        return answer

    def check(self, method: str, result: Any) -> None: ...

    def check_event(self, result: Any) -> None: ...

    async def send(self, message: JSON, **configuration: Any) -> Answer:
        return await self.call("SendMessage", {"message": message, "configuration": configuration})

    async def stream(
        self, method: str, params: Any, headers: dict[str, str] | None = None
    ) -> AsyncGenerator[tuple[int, JSON]]:
        """The index and the StreamResponse of each event."""
        response = await self.open(method, params, headers)
        async with followed(response) as chunks, aclosing(events_of(chunks)) as events:
            async for index, event in events:
                self.check_event(event)
                yield index, event

    async def open(self, method: str, params: Any, headers: dict[str, str] | None = None) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
        response = await self.client.post(
            self.path, data=body, content_type="application/json", headers=self.headers(headers)
        )
        assert response.streaming, response.content
        assert response["Content-Type"] == "text/event-stream"
        return response


async def events_of(chunks: AsyncIterator[bytes]) -> AsyncGenerator[tuple[int, JSON]]:
    async with aclosing(frames_of(chunks)) as frames:
        async for index, sent in frames:
            assert sent["jsonrpc"] == "2.0"
            assert sent["id"] == 7
            yield index, sent["result"]


async def frames_of(chunks: AsyncIterator[bytes]) -> AsyncGenerator[tuple[int, JSON]]:
    """Id and data of each event; comments are left out."""
    waiting = b""
    async for chunk in chunks:
        waiting += chunk
        *whole, waiting = waiting.split(b"\n\n")
        for event in whole:
            if not event.startswith(b":"):
                lines = dict(line.split(b": ", 1) for line in event.split(b"\n"))
                yield int(lines[b"id"]), json.loads(lines[b"data"])


def details_of(details: list[JSON], kind: str) -> list[JSON]:
    return [one for one in details if one["@type"] == f"type.googleapis.com/google.rpc.{kind}"]


def strictly_parsed(value: JSON, kind: Any) -> Any:
    """Read a value by the SDK's type; an unknown field is an error."""
    return json_format.ParseDict(value, kind(), ignore_unknown_fields=False)


def message(text: str = "hello", **fields: Any) -> JSON:
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **fields}


def text_of(holder: JSON) -> str:
    return "".join(part.get("text", "") for part in holder["parts"])
