"""A minimal HTTP/1.1 client, which takes little of the measured machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Self, cast
from urllib.parse import urlsplit

import httptools


class Connection(asyncio.Protocol):
    """A kept-alive connection with one request at a time."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": address.netloc, **headers}.items())
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._chunk: list[bytes] = []  # pieces of the chunk that is being received
        self._chunks: list[bytes] = []
        self._ended = self._streams = False
        self._news: asyncio.Future[None]

    async def __aenter__(self) -> Self:
        await asyncio.get_running_loop().create_connection(lambda: self, self._host, self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self._transport.close()

    async def fetch(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The body. Raises RuntimeError for a status other than 200."""
        self._ask(method, path, body, streams=False)
        await self._news
        return self._taken(f"{method} {path}")

    async def stream(self, method: str, path: str, body: bytes = b"") -> AsyncGenerator[bytes]:
        """The body in the server's chunks. Raises RuntimeError for a status other than 200."""
        self._ask(method, path, body, streams=True)
        while not self._ended:
            await self._news
            self._news = asyncio.get_running_loop().create_future()
            chunks, self._chunks = self._chunks, []
            if self._parser.get_status_code() != 200:
                raise RuntimeError(f"{method} {path}: {self._parser.get_status_code()} {chunks}")
            for chunk in chunks:
                yield chunk

    def _ask(self, method: str, path: str, body: bytes, *, streams: bool) -> None:
        if self._transport.is_closing():
            raise ConnectionError(f"{self._host}:{self._port} closed the connection while it was idle")
        self._ended, self._streams, self._chunks = False, streams, []
        self._news = asyncio.get_running_loop().create_future()
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)

    def _taken(self, asked: str) -> bytes:
        body = b"".join(self._chunks)
        if (status := self._parser.get_status_code()) != 200:
            raise RuntimeError(f"{asked}: {status} {body[:2000].decode(errors='replace')}")
        return body

    def _wake(self) -> None:
        if not self._news.done():
            self._news.set_result(None)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        if hasattr(self, "_news") and not (self._ended or self._news.done()):
            self._news.set_exception(error or ConnectionError(f"{self._host}:{self._port} closed the connection"))

    # Called by the parser

    def on_body(self, piece: bytes) -> None:
        self._chunk.append(piece)

    def on_chunk_complete(self) -> None:
        if self._chunk:
            self._chunks.append(b"".join(self._chunk))
            self._chunk = []
            if self._streams:
                self._wake()

    def on_message_complete(self) -> None:
        self.on_chunk_complete()
        self._ended = True
        self._wake()
