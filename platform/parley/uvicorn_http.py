"""How uvicorn reads HTTP. `uvicorn --http` imports it by name, before Django's apps are ready."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections import Counter
from typing import Any

from django.conf import settings
from uvicorn.protocols.http.h11_impl import H11Protocol

from apps.accounts.principals import address_key
from parley.telemetry.requests import BODY_ARRIVED

MAX_HEAD_BYTES = 128 * 1024  # of request line and headers; `RequestGuard` refuses less, with an explanation
MAX_URL_BYTES = 32 * 1024  # httptools reads no URL over 64 kB, so `RequestGuard` refuses the beginning of a longer one
HEAD_SECONDS = 20.0  # for a head to be complete, since the connection opened or the head began
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 10\r\nContent-Length: 0\r\n\r\n"

connections_of: Counter[str] = Counter()
"""Open connections of each address, in this process, WebSockets included."""


def is_counted(address: str) -> bool:
    """Proxies, and programs of this machine, bring the connections of many."""
    if not settings.CONNECTIONS_PER_ADDRESS or settings.FORWARDED_ALLOW_IPS:
        return False
    try:
        return not ipaddress.ip_address(address).is_loopback
    except ValueError:  # a socket of the file system
        return False


def give_back(key: str) -> None:
    connections_of[key] -= 1
    if not connections_of[key]:
        del connections_of[key]


class Bounded(asyncio.Protocol):
    """Comes before a protocol of uvicorn. A connection counts until it is closed, and heads have HEAD_SECONDS."""

    counted = ""  # the key in `connections_of`, of the protocol that has the connection
    head_due: asyncio.TimerHandle | None = None
    cycle: Any
    client: Any
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if not self.counted and is_counted(address):
            self.counted = address_key(address)
            connections_of[self.counted] += 1
            if connections_of[self.counted] > settings.CONNECTIONS_PER_ADDRESS:
                transport.write(REFUSED)
                transport.close()
                return
        self.expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end_wait()
        if self.counted:
            give_back(self.counted)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_answering():
            self.end_wait()
        elif self.head_due is None:
            self.expect_head()

    def handle_websocket_upgrade(self, *request: Any) -> None:
        super().handle_websocket_upgrade(*request)  # type: ignore[misc]
        if self.counted:
            self.transport.set_protocol(CountedSocket(self.transport.get_protocol(), self.counted))

    def is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def expect_head(self) -> None:
        self.head_due = self.loop.call_later(HEAD_SECONDS, self.close_without_head)

    def end_wait(self) -> None:
        if self.head_due is not None:
            self.head_due.cancel()
            self.head_due = None

    def close_without_head(self) -> None:
        if not self.is_answering() and self.transport.get_protocol() is self:
            self.transport.close()


class CountedSocket(asyncio.Protocol):
    """Hands on to the WebSocket's protocol, and gives the connection's place back when it is closed."""

    def __init__(self, protocol: Any, counted: str) -> None:
        self.protocol, self.counted = protocol, counted

    def data_received(self, data: bytes) -> None:
        self.protocol.data_received(data)

    def eof_received(self) -> None:
        self.protocol.eof_received()

    def pause_writing(self) -> None:
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        self.protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        give_back(self.counted)
        self.protocol.connection_lost(exc)


class BoundedH11(Bounded, H11Protocol):
    """uvicorn's protocol on h11, with limits of time and number."""


HTTP: type[asyncio.Protocol] = BoundedH11

with contextlib.suppress(ImportError):  # httptools is not for Windows
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class BoundedHttp(Bounded, HttpToolsProtocol):
        """uvicorn's protocol on httptools, with limits of time and number, and without three faults.

        1. httptools keeps a head, or the trailers of a body, however long it is.
        2. It drops the body of a request that offers an upgrade, as Java's client does, and could take it for the next
           request. A connection that begins with such an offer is left to h11; a later offer gets a 400.
        3. uvicorn sends chunks to clients of HTTP/1.0. Their connections are left to h11.
        """

        unparsed = 0  # bytes at most, since the last complete head, message or piece of a body

        def data_received(self, data: bytes) -> None:
            is_first = self.cycle is None and not self.unparsed
            if is_first and (b" HTTP/1.0\r\n" in data or b"\r\nupgrade:" in data.lower()):
                self.leave_to_h11(data)
                return
            self.unparsed += len(data)
            super().data_received(data)
            if self.unparsed > MAX_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("The headers are too long.")

        def leave_to_h11(self, data: bytes) -> None:
            self.connections.discard(self)
            self.end_wait()
            protocol = BoundedH11(self.config, self.server_state, self.app_state)
            protocol.counted = self.counted
            self.transport.set_protocol(protocol)
            protocol.connection_made(self.transport)
            protocol.data_received(data)

        def on_url(self, url: bytes) -> None:
            super().on_url(url[: MAX_URL_BYTES - len(self.url)])

        def on_headers_complete(self) -> None:
            """Raises ValueError, which becomes a 400, for an upgrade that was seen too late."""
            self.unparsed = 0
            upgrades = {value.lower() for name, value in self.headers if name == b"upgrade"}
            if self.parser.should_upgrade() and b"websocket" not in upgrades:
                raise ValueError
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self.unparsed = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            super().on_message_complete()
            self.scope[BODY_ARRIVED] = True  # type: ignore[literal-required]  # read once the application runs

    HTTP = BoundedHttp
