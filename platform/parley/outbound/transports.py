"""httpx and httpx2 through the guard: `httpx.AsyncClient(transport=Transport(outbound.exchange()))`.

The A2A SDK needs a client of httpx, the model library one of httpx2; they have the same interface.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import httpx2

from parley.outbound.errors import (
    Forbidden,
    OutboundError,
    Private,
    TooLarge,
    TooSlow,
    Unreachable,
    Unsendable,
    Untrusted,
)
from parley.outbound.exchanges import Answer, Closing, Exchange

ERRORS: dict[type[OutboundError], str] = {
    Forbidden: "ConnectError",
    Private: "ConnectError",
    Unreachable: "ConnectError",
    Unsendable: "ConnectError",
    Untrusted: "ConnectError",
    TooSlow: "ReadTimeout",
    TooLarge: "ReadError",
}


class Transport(httpx.AsyncBaseTransport, httpx2.AsyncBaseTransport):
    """Sends through an exchange, which it closes with the client. The library's errors have ours as their cause."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def handle_async_request(self, request: Any) -> Any:
        library = httpx2 if isinstance(request, httpx2.Request) else httpx
        with _as_errors_of(library):
            response, answer = await self._exchange.open(
                request.method,
                str(request.url),
                request.headers.raw,
                request.stream,
                request.extensions.get("timeout"),
            )
        return library.Response(
            answer.status,
            headers=answer.headers,
            stream=Body(library, response, answer),
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": answer.reason},
        )

    async def aclose(self) -> None:
        await self._exchange.aclose()


def client(exchange: Exchange, **options: Any) -> httpx2.AsyncClient:
    """An httpx2 client for an exchange, which it closes. `options` are the client's."""
    return httpx2.AsyncClient(transport=Transport(exchange), **options)


class Body(httpx.AsyncByteStream, httpx2.AsyncByteStream):
    def __init__(self, library: Any, response: Closing, answer: Answer) -> None:
        self._library, self._response, self._answer = library, response, answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_errors_of(self._library):
            async for chunk in self._answer.body:
                yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def _as_errors_of(library: Any) -> Iterator[None]:
    try:
        yield
    except OutboundError as error:
        name = ERRORS.get(type(error), "RemoteProtocolError")
        raise getattr(library, name)(str(error)) from error
