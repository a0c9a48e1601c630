"""A caller of the HTTP+JSON binding."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from django.test import AsyncClient

from tests.a2a import calling
from tests.a2a.calling import JSON, Caller, frames_of
from tests.clients.calling import followed


class Answer(calling.Answer):
    @property
    def error(self) -> JSON:
        assert set(self.body) == {"error"}, self.body
        return self.body["error"]

    @property
    def details(self) -> list[JSON]:
        return self.error["details"]


@dataclass
class Resource:
    """Calls one agent, or with an empty slug the front door."""

    slug: str
    key: str = ""
    version: str = "1.0"
    client: AsyncClient = field(default_factory=lambda: AsyncClient(raise_request_exception=True))

    async def ask(self, verb: str, address: str, body: Any = None, **options: Any) -> Answer:
        """Sends bytes unchanged and anything else as JSON; None sends no body."""
        response = await self.send(verb, address, body, **options)
        assert not response.streaming, "a stream came where one answer was expected"
        return Answer(response.status_code, response.headers, json.loads(response.content or b"{}"))

    async def stream(self, verb: str, address: str, body: Any = None, **options: Any) -> AsyncGenerator[Any]:
        """The index and the StreamResponse of each event."""
        response = await self.send(verb, address, body, **options)
        assert response.streaming, response.content
        assert response["Content-Type"] == "text/event-stream"
        async with followed(response) as chunks, aclosing(frames_of(chunks)) as frames:
            async for index, sent in frames:
                self.check_event(sent)
                yield index, sent

    def check_event(self, sent: Any) -> None: ...

    async def send(self, verb: str, address: str, body: Any = None, **options: Any) -> Any:
        caller = Caller(self.slug, self.key, self.version)
        headers = caller.headers(options.pop("headers", None))
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        options = {"content_type": "application/json" if content else ""} | options
        return await self.client.generic(verb, self.path_of(address), content, headers=headers, **options)

    def path_of(self, address: str) -> str:
        return "/".join(filter(None, ("/a2a", self.slug, address)))
