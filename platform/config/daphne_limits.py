"""What Daphne leaves open: how much it takes in before anybody looks, and how much it keeps for who does not read.

Daphne (4.2) keeps a whole body before the application sees the request, and writes to a transport without asking
whether anything of it gets through; an address that is too long it cuts without a word. Here a body that is too large
is answered with 413 as soon as that is known, such an address with 414, and `send` waits for a client that is slow and
gives up on one that has stopped reading.
"""

from __future__ import annotations

import asyncio
from typing import Any

from daphne import http_protocol
from daphne.server import Server
from django.conf import settings
from twisted.internet import reactor
from twisted.web.http import HTTPChannel

from config import refusals
from config.refusals import Refusal

LINGER_SECONDS = 5.0  # how long the rest of a refused body is taken in and thrown away, so that the answer is read
STALLED_SECONDS = 60.0  # how long a client may read nothing at all


class Gate:
    """Says whether a connection takes more bytes. The transport opens and closes it (twisted's IPushProducer)."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self._open = asyncio.Event()
        self._open.set()

    def pauseProducing(self) -> None:  # noqa: N802
        self._open.clear()

    def resumeProducing(self) -> None:  # noqa: N802
        self._open.set()

    def stopProducing(self) -> None:  # noqa: N802
        self._open.set()  # the connection is gone: nobody needs to wait for it

    async def passed(self) -> None:
        """Wait until there is room; a connection that makes none for STALLED_SECONDS is cut."""
        if self._open.is_set():
            return
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                await self._open.wait()
        except TimeoutError:
            self._open.set()
            self.transport.abortConnection()


class BoundedRequest(http_protocol.WebRequest):  # type: ignore[misc]
    """A request whose body has a limit, and whose connection has a gate."""

    _refused = False
    _received = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._parsePOSTFormSubmission = False  # forms and files are Django's to read, once

    def gotLength(self, length: int | None) -> None:  # noqa: N802
        """Called when the headers are complete; `length` is None for a chunked body."""
        super().gotLength(length)
        if length is not None and length > settings.MAX_REQUEST_BYTES:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802
        self._received += len(data)
        if self._refused:
            return
        if self._received > settings.MAX_REQUEST_BYTES:
            self._refuse()
        else:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802
        if self._refused:
            self.loseConnection()
        else:
            super().requestReceived(command, path, version)

    def process(self) -> Any:
        channel, transport = self.channel, self.transport
        self.gate = Gate(transport)
        channel.unregisterProducer()
        channel.registerProducer(self.gate, True)
        if channel._waitingForTransport:
            self.gate.pauseProducing()
        done = super().process()
        if self.transport is None:  # Daphne has handed the connection over to a WebSocket
            transport.protocol.gate = self.gate
        return done

    def _refuse(self) -> None:
        """Answer before the body has come. What still comes is thrown away for a while, then the line is cut."""
        self._refused = True
        self.content.truncate(0)
        self.requestHeaders.removeHeader(b"Expect")  # or the channel would ask for the body
        _say_and_linger(self.channel, refusals.too_large(settings.MAX_REQUEST_BYTES), self.channel._path)
        self.channel.persistent = False


def _refuse_long_line(channel: Any, line: bytes) -> None:
    """Answer an address, or a header, that is longer than a line may be."""
    address = b"" if channel.requests else line.partition(b" ")[2]
    channel.rawDataReceived = lambda _: None
    channel.setRawMode()
    _say_and_linger(channel, refusals.LONG_HEADER if channel.requests else refusals.LONG_ADDRESS, address)


def _say_and_linger(channel: Any, refusal: Refusal, address: bytes) -> None:
    """Answer at once. What still comes is thrown away for a while, so that the answer is read; then the line is cut."""
    path = address.partition(b"?")[0].decode("ascii", "replace")
    body, media_type = refusal.body(path), refusal.media_type(path).encode()
    channel.transport.write(
        b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
        % (refusal.status, refusal.status.phrase.encode(), media_type, len(body), body)
    )
    reactor.callLater(LINGER_SECONDS, lambda: channel.transport and channel.transport.abortConnection())


_deliver = Server.handle_reply


async def _deliver_patiently(server: Server, protocol: Any, message: dict[str, Any]) -> None:
    await _deliver(server, protocol, message)
    gate: Gate | None = getattr(protocol, "gate", None)
    if gate is not None:
        await gate.passed()


def install() -> None:
    """Put the limits into Daphne, for every server of this process."""
    http_protocol.WebRequest = BoundedRequest
    HTTPChannel.lineLengthExceeded = _refuse_long_line
    Server.handle_reply = _deliver_patiently
