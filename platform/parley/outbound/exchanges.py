"""Requests over connections to checked addresses. Responses are decompressed within limits."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self
from urllib.parse import urlsplit, urlunsplit

import httpcore2
from httpcore2 import SOCKET_OPTION, AsyncNetworkBackend, AsyncNetworkStream

from parley.outbound.errors import (
    Misleading,
    OutboundError,
    Redirected,
    TooLarge,
    TooSlow,
    Unreachable,
    Unsendable,
    Untrusted,
)
from parley.outbound.sockets import Connections
from parley.outbound.targets import Allowed, Guard
from parley.outbound.trust import trusted

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MEGABYTE = 1024 * 1024
MOST_BYTES = 10 * MEGABYTE  # of one answer, or of one event of a stream, from anybody
Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one exchange, which hold while its answers are read. None as `seconds` means no limit, for streams.

    Attributes:
        bytes: of a body, or of one event of an event stream, unpacked.
        stream_bytes: of all events of a stream, unpacked.
    """

    seconds: float | None = 30.0
    connect_seconds: float = 5.0
    bytes: int = MOST_BYTES
    stream_bytes: int = 256 * MEGABYTE
    ratio: int = 100  # of the unpacked to the packed size
    header_bytes: int = 64 * 1024
    connections: int = 100  # at a time


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. Its body is decompressed and can be read once."""

    status: int
    headers: Headers
    body: AsyncIterator[bytes]
    reason: bytes = b""

    async def read(self) -> bytes:
        """The whole body. Raises TooLarge, TooSlow, Unreachable, Misleading."""
        return b"".join([chunk async for chunk in self.body])


class Exchange:
    """A connection pool for one event loop. It ignores redirects and the environment's proxies."""

    def __init__(
        self, guard: Guard, limits: Limits, *, trusted: ssl.SSLContext | None = None, socket: str = ""
    ) -> None:
        """`trusted` is by default what all calls trust. With the path of a Unix `socket` all requests go there."""
        self._guard = guard
        self._limits = limits
        self._trusted = trusted
        self._pool: httpcore2.AsyncConnectionPool | None = None
        self._allowed: Allowed | None = None  # when the pool was made
        self._retired: list[httpcore2.AsyncConnectionPool] = []
        self._here = Connections(socket, limits.connections, limits.header_bytes) if socket else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._here is not None:
            await self._here.aclose()
        for pool in (*self._retired, *([self._pool] if self._pool else [])):
            await pool.aclose()

    async def _current_pool(self) -> httpcore2.AsyncConnectionPool:
        """A new pool if other addresses are allowed than before: open connections would outlive their allowance."""
        allowed = await self._guard.allowed()
        if self._pool is not None and allowed == self._allowed:
            return self._pool
        if self._pool is not None:
            self._retired.append(self._pool)  # requests may be under way
        self._allowed, self._pool = allowed, self._new_pool()
        return self._pool

    def _new_pool(self) -> httpcore2.AsyncConnectionPool:
        return httpcore2.AsyncConnectionPool(
            ssl_context=self._trusted or trusted(),
            max_connections=self._limits.connections,
            max_keepalive_connections=20,
            keepalive_expiry=15.0,
            network_backend=CheckedConnections(self._guard),
        )

    @asynccontextmanager
    async def send(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes = b""
    ) -> AsyncIterator[Answer]:
        """Send a request; the end of the block releases its connection.

        Raises Forbidden, Unreachable, TooSlow, TooLarge, Misleading; the last four also while the body is read.
        """
        sent = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        if content:
            sent.append((b"Content-Length", b"%d" % len(content)))
        response, answer = await self.open(method, url, sent, content)
        try:
            yield answer
        finally:
            await response.aclose()

    async def open(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[bytes, bytes]],
        content: bytes | AsyncIterable[bytes],
        timeouts: Mapping[str, float | None] | None = None,
    ) -> tuple[Closing, Answer]:
        """Send a request for an adapter, which closes the response itself. `timeouts` are httpx's, by kind."""
        if self._here is not None:
            return await self._open_here(self._here, method, url, headers, content)
        pool = await self._current_pool()
        target = self._guard.check(url)
        sending = Sending()
        timeout = {"connect": self._limits.connect_seconds} | dict(timeouts or {})
        request = httpcore2.Request(
            method,
            url,
            headers=_request_headers(headers, url),
            content=content,
            extensions={"timeout": timeout, "trace": sending.noticed},
        )
        deadline = _deadline(self._limits.seconds)
        with translated_errors(target.host, sending):
            async with asyncio.timeout_at(deadline):
                response = await pool.handle_async_request(request)
            try:
                return response, self._answer(response, target.host, deadline)
            except OutboundError:
                await response.aclose()
                raise

    async def _open_here(
        self,
        here: Connections,
        method: str,
        url: str,
        headers: Iterable[tuple[bytes, bytes]],
        content: bytes | AsyncIterable[bytes],
    ) -> tuple[Closing, Answer]:
        address, sending = urlsplit(url), Sending()
        target = urlunsplit(("", "", address.path or "/", address.query, ""))
        deadline = _deadline(self._limits.seconds)
        with translated_errors(address.hostname or "", sending):
            async with asyncio.timeout_at(deadline):
                sent = _request_headers(headers, url)
                response = await here.request(
                    method, target, sent, content, self._limits.connect_seconds, sending.begin
                )
            try:
                return response, self._answer(response, address.hostname or "", deadline)
            except OutboundError:
                await response.aclose()
                raise

    def _answer(self, response: Any, host: str, deadline: float | None) -> Answer:
        limits, headers = self._limits, response.headers
        if sum(len(name) + len(value) for name, value in headers) > limits.header_bytes:
            raise TooLarge(f"The head of the answer is larger than {limits.header_bytes} bytes.")
        named = {name.lower(): value for name, value in headers}
        if response.status in REDIRECTS and b"location" in named:
            sentence = f"The answer is a redirect ({response.status}). Give the address that it leads to."
            raise Redirected(sentence, named[b"location"].decode("latin-1"))
        encoding = named.get(b"content-encoding", b"").decode("latin-1").strip().lower()
        kind = named.get(b"content-type", b"").partition(b";")[0].strip().lower()
        is_stream = kind == b"text/event-stream"
        decoder = Decoder(encoding, limits.stream_bytes if is_stream else limits.bytes, limits.ratio)
        if encoding not in ("", "identity"):
            told = (b"content-encoding", b"content-length")
            headers = [(name, value) for name, value in headers if name.lower() not in told]
        body = decoder.decoded(_in_time(response, host, deadline))
        if is_stream:
            body = _with_small_events(body, limits.bytes)
        return Answer(response.status, headers, body, response.extensions.get("reason_phrase", b""))


class Closing(Protocol):
    """A response that its reader closes."""

    @property
    def extensions(self) -> Mapping[str, Any]: ...

    async def aclose(self) -> None: ...


class Sending:
    """Notices, through the HTTP library, when the request's first bytes are sent."""

    has_begun = False

    async def begin(self) -> None:
        self.has_begun = True

    async def noticed(self, event: str, _: Mapping[str, object]) -> None:
        if event.endswith("send_request_headers.started"):
            self.has_begun = True


class Sent(Sending):
    """A request that is out."""

    has_begun = True


async def _in_time(response: Any, host: str, deadline: float | None) -> AsyncIterator[bytes]:
    chunks = aiter(response.stream)
    while True:
        with translated_errors(host, Sent()):
            async with asyncio.timeout_at(deadline):
                chunk = await anext(chunks, None)
        if chunk is None:
            return
        yield chunk


class CheckedConnections(AsyncNetworkBackend):
    """Resolves a host, checks its addresses, and connects only to those."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        """Try the addresses in turn, each with its share of the remaining time. TLS still verifies the name."""
        addresses = await self._guard.addresses(host, port)
        deadline = _deadline(timeout)
        for left in range(len(addresses), 0, -1):
            share = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time()) / left
            try:
                return await self._backend.connect_tcp(str(addresses[-left]), port, share, None, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if left == 1:
                    raise
        raise AssertionError("a name has at least one address")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@contextmanager
def translated_errors(host: str, sending: Sending) -> Iterator[None]:
    """The HTTP library's errors as ours, which say whether anything was sent."""
    try:
        with _as_ours(host):
            yield
    except OutboundError as error:
        error.was_sent = sending.has_begun and not isinstance(error, Unsendable)
        raise


@contextmanager
def _as_ours(host: str) -> Iterator[None]:
    try:
        yield
    except (TimeoutError, httpcore2.TimeoutException):
        raise TooSlow(f"{host} did not answer in time.") from None
    except httpcore2.LocalProtocolError:
        # Its text quotes the request, whose headers may have secrets.
        raise Unsendable(f"{host} was not called: the request cannot be sent as it is.") from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
        if found := _cause(error, ssl.SSLCertVerificationError):
            told = f"its certificate is not to be trusted ({found.verify_message})"
            raise Untrusted(f"{host} is not called: {told}.", found.verify_code) from error
        if _cause(error, ssl.SSLError):
            raise Unreachable(f"{host} cannot be reached by https: what answers there does not speak TLS.") from error
        if _cause(error, ConnectionRefusedError):
            raise Unreachable(f"{host} cannot be reached: it refuses the connection at this port.") from error
        raise Unreachable(f"{host} cannot be reached: {error or type(error).__name__}.") from error


def _cause[E: BaseException](error: BaseException | None, kind: type[E]) -> E | None:
    """The error of this kind that is behind another."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _request_headers(headers: Iterable[tuple[bytes, bytes]], url: str) -> Headers:
    decided = (b"accept-encoding", b"host")
    netloc = url.partition("://")[2].replace("?", "/").replace("#", "/").partition("/")[0]
    kept = [(name, value) for name, value in headers if name.lower() not in decided]
    return [(b"Host", netloc.encode("ascii")), (b"Accept-Encoding", ACCEPTED_ENCODINGS), *kept]


def _deadline(seconds: float | None) -> float | None:
    return None if seconds is None else asyncio.get_running_loop().time() + seconds


ACCEPTED_ENCODINGS = b"gzip, deflate"
WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
CHUNK_BYTES = 64 * 1024
RATIO_FREE_BYTES = 1024 * 1024  # below which the ratio is not checked


class Decoder:
    """Decompresses one body. `size` counts bytes so far."""

    def __init__(self, encoding: str, most: int, ratio: int) -> None:
        """Allows at most `most` bytes, and `ratio` times the received ones. Raises Misleading."""
        if encoding not in ("", "identity", *WINDOWS):
            raise Misleading("The answer is packed in a way that was not asked for.")
        self._unpacker = zlib.decompressobj(WINDOWS[encoding]) if encoding in WINDOWS else None
        self._most, self._ratio = most, ratio
        self._received = 0
        self.size = 0

    async def decoded(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The decompressed chunks. Raises TooLarge, Misleading."""
        async for chunk in chunks:
            self._received += len(chunk)
            for piece in self._unpacked(chunk):
                yield self._counted(piece)
        if self._unpacker is not None and self._received and not self._unpacker.eof:
            raise Misleading("The packed answer breaks off.")

    def _unpacked(self, chunk: bytes) -> Iterator[bytes]:
        if self._unpacker is None:
            yield chunk
            return
        while chunk:
            try:
                piece = self._unpacker.decompress(chunk, CHUNK_BYTES)
            except zlib.error:
                raise Misleading("The answer is not packed as it says.") from None
            if self._unpacker.unused_data:
                raise Misleading("Something follows the packed answer.")
            if piece:
                yield piece
            chunk = self._unpacker.unconsumed_tail

    def _counted(self, piece: bytes) -> bytes:
        self.size += len(piece)
        if self.size > self._most:
            raise TooLarge(f"The answer is larger than {self._most} bytes.")
        if self.size > RATIO_FREE_BYTES and self.size > self._ratio * self._received:
            raise TooLarge(f"The answer unpacks to more than {self._ratio} times its size.")
        return piece


async def _with_small_events(chunks: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """The chunks of an event stream, none of whose events is larger. Raises TooLarge."""
    event = EventSize(most)
    async for chunk in chunks:
        event.count(chunk)
        yield chunk


class EventSize:
    """Counts the bytes of one event after the other: fields until an empty line, without comments."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._fields = self._line = 0
        self._is_comment = self._skips_lf = False

    def count(self, chunk: bytes) -> None:
        """Raises TooLarge."""
        if self._skips_lf and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._skips_lf = chunk.endswith(b"\r")
        for piece in chunk.splitlines(keepends=True):
            if not self._line:
                self._is_comment = piece.startswith(b":")
            self._line += len(piece)
            if self._fields + self._line > self._most:
                raise TooLarge(f"The answer is a stream with an event of more than {self._most} bytes.")
            if piece.endswith((b"\n", b"\r")):
                self._end_line(is_empty=self._line == len(piece) and not piece.strip(b"\r\n"))

    def _end_line(self, *, is_empty: bool) -> None:
        if is_empty:
            self._fields = 0
        elif not self._is_comment:
            self._fields += self._line
        self._line = 0
