"""HTTP/1.1 at a Unix socket of this machine: no name, no TLS and no proxy, so a small part of what a client does.

Errors are those of the HTTP library, which `exchanges` translates.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import suppress
from typing import Any

import httpcore2
import httptools

IDLE_SECONDS = 4.0  # that a connection is kept: servers close theirs after 5
MOST_WAITING = 256 * 1024  # bytes of a body that nobody has read, before the sender waits
Headers = list[tuple[bytes, bytes]]
FRAMING = (b"content-length", b"transfer-encoding")


class Connections:
    """Connections to one socket, for one event loop; at most `most` at a time."""

    def __init__(self, path: str, most: int, header_bytes: int) -> None:
        self._path, self._header_bytes = path, header_bytes
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(most)

    async def request(
        self, method: str, target: str, headers: Iterable[tuple[bytes, bytes]], content: bytes | AsyncIterable[bytes],
        connect_seconds: float | None, written: Any,
    ) -> Response:  # fmt: skip
        """The response, whose body is still to be read. `written` is awaited before the first byte is sent."""
        body = content if isinstance(content, bytes) else b"".join([piece async for piece in content])
        head = _head(method, target, headers, len(body))
        async with asyncio.timeout(connect_seconds):
            await self._free.acquire()
        connection: Connection | None = None
        try:
            connection = self._kept() or await self._connect(connect_seconds)
            await written()
            connection.send(head + body)
            await connection.headers_came()
        except BaseException:
            if connection is not None:
                connection.close()
            self._free.release()
            raise
        return Response(self, connection)

    def _kept(self) -> Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and now - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.close()
        return None

    async def _connect(self, seconds: float | None) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                _, made = await loop.create_unix_connection(lambda: Connection(self._header_bytes), self._path)
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        return made

    def take_back(self, connection: Connection) -> None:
        self._free.release()
        if connection.is_reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.close()

    async def aclose(self) -> None:
        while self._idle:
            self._idle.pop().close()


def _head(method: str, target: str, headers: Iterable[tuple[bytes, bytes]], length: int) -> bytes:
    """Raises LocalProtocolError for what would be more than one request."""
    kept = [(name, value) for name, value in headers if name.lower() not in FRAMING]
    lines = [f"{method} {target} HTTP/1.1".encode(), *(b"%b: %b" % header for header in kept)]
    if length or method not in ("GET", "HEAD"):
        lines.append(b"Content-Length: %d" % length)
    if any(one in line for line in lines for one in (b"\r", b"\n", b"\0")) or lines[0].count(b" ") != 2:
        raise httpcore2.LocalProtocolError("The request has a line break where none may be.")
    return b"\r\n".join([*lines, b"", b""])


class Response:
    """As the HTTP library's: `status`, `headers`, `stream`, `aclose`."""

    def __init__(self, connections: Connections, connection: Connection) -> None:
        self._connections, self._connection = connections, connection
        self.status, self.headers = connection.status, connection.headers
        self.extensions: dict[str, Any] = {}
        self.stream: AsyncIterator[bytes] = connection.body()
        self._is_closed = False

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._connections.take_back(self._connection)


class Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, header_bytes: int) -> None:
        self._most_header_bytes = header_bytes
        self._transport: asyncio.Transport | None = None
        self._news = asyncio.Event()
        self.idle_since = 0.0
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status, self.headers = 0, Headers()
        self._header_bytes = self._unread = self._waiting = 0  # `unread`: of a head or trailers that go on
        self._chunks = deque[bytes]()
        self._has_headers = self._has_ended = self._keeps_alive = False
        self._error: Exception | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and self._error is None

    @property
    def is_reusable(self) -> bool:
        return self.is_open and self._has_ended and self._keeps_alive and not self._chunks

    def send(self, request: bytes) -> None:
        self._begin()
        assert self._transport is not None
        self._transport.write(request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def headers_came(self) -> None:
        while not self._has_headers:
            await self._hear()

    async def body(self) -> AsyncIterator[bytes]:
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._waiting -= len(chunk)
                if self._transport is not None and self._waiting <= MOST_WAITING:
                    with suppress(RuntimeError):
                        self._transport.resume_reading()
                yield chunk
            if self._has_ended:
                return
            await self._hear()

    async def _hear(self) -> None:
        if self._error is not None:
            raise self._error
        self._news.clear()
        await self._news.wait()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(httpcore2.RemoteProtocolError(f"the answer is no HTTP: {error}"))
        if self._unread > self._most_header_bytes:  # the parser keeps a line until it ends
            self._fail_by_size()
        self._news.set()

    def connection_lost(self, error: Exception | None) -> None:
        framed = any(name.lower() in FRAMING for name, _ in self.headers)
        if self._has_headers and not framed and error is None:
            self._has_ended = True
        elif not self._has_ended:
            self._fail(httpcore2.RemoteProtocolError("the connection ended before the answer"))
        self._news.set()

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self.close()

    def _fail_by_size(self) -> None:
        self._fail(httpcore2.RemoteProtocolError("the head of the answer is too large"))

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > self._most_header_bytes:
            self._fail_by_size()
        elif not self._has_headers:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._keeps_alive = self._parser.should_keep_alive()
        self._has_headers = self.status >= 200
        if self._has_headers:
            self._unread = 0

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        self._chunks.append(body)
        self._waiting += len(body)
        if self._waiting > MOST_WAITING and self._transport is not None:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.status < 200:
            self.headers = Headers()
        elif self._has_ended:
            self._keeps_alive = False
        else:
            self._has_ended = True
