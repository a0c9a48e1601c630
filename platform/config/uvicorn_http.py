"""How uvicorn reads HTTP. `uvicorn --http` imports it by name, before Django's apps are ready."""

from __future__ import annotations

import asyncio
import contextlib

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_HEAD_BYTES = 128 * 1024  # of request line and headers; `RequestLimits` refuses less, with an explanation
MAX_URL_BYTES = 32 * 1024  # httptools reads no URL over 64 kB, so `RequestLimits` refuses the beginning of a longer one
HTTP: type[asyncio.Protocol] = H11Protocol

with contextlib.suppress(ImportError):  # httptools is not for Windows
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class BoundedHttp(HttpToolsProtocol):
        """uvicorn's protocol on httptools, without three faults.

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
            protocol = H11Protocol(self.config, self.server_state, self.app_state)
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

    HTTP = BoundedHttp
