"""Callers of one agent, by each binding and version, who ask and follow in the words of A2A 1.0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tests.a2a.calling import JSON, Caller
from tests.a2a.resting import Resource
from tests.conformance.old_speaking import OldHttpJson, OldJsonRpc
from tests.conformance.sending import rest
from tests.conformance.telling import Told, heard


class Speaker(Protocol):
    def __init__(self, slug: str, key: str) -> None: ...

    async def ask(self, operation: str, params: JSON) -> Told:
        """What an operation answers that does not stream, or why it refuses."""

    async def follow(self, operation: str, params: JSON, begun: Callable[[], None] = lambda: None) -> list[JSON]:
        """The StreamResponses of one that streams, to its end; `begun` is called once the first has come."""


class JsonRpc:
    def __init__(self, slug: str, key: str) -> None:
        self.caller = Caller(slug, key)

    async def ask(self, operation: str, params: JSON) -> Told:
        answer = await self.caller.call(operation, params)
        return Told(answer.body["result"]) if "result" in answer.body else Told({}, answer.reason)

    async def follow(self, operation: str, params: JSON, begun: Callable[[], None] = lambda: None) -> list[JSON]:
        return await heard(self.caller.stream(operation, params), begun)


class HttpJson:
    def __init__(self, slug: str, key: str) -> None:
        self.resource = Resource(slug, key)

    async def ask(self, operation: str, params: JSON) -> Told:
        sent = rest(operation, params)
        answer = await self.resource.ask(sent.verb, sent.below[1:], sent.body or None)
        return Told(answer.body) if answer.status == 200 else Told({}, answer.reason)

    async def follow(self, operation: str, params: JSON, begun: Callable[[], None] = lambda: None) -> list[JSON]:
        sent = rest(operation, params)
        return await heard(self.resource.stream(sent.verb, sent.below[1:], sent.body or None), begun)


SPEAKERS: dict[str, type[Speaker]] = {
    "JSON-RPC 1.0": JsonRpc,
    "HTTP+JSON 1.0": HttpJson,
    "JSON-RPC 0.3": OldJsonRpc,
    "HTTP+JSON 0.3": OldHttpJson,
}
"""By the headings of the table in the README."""
