"""Connections that are no HTTP exchange: TCP for other protocols, and WebSockets. Only to checked addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from parley.outbound.errors import Forbidden, TooSlow, Unreachable, Untrusted
from parley.outbound.targets import Guard, IPAddress, parse_url
from parley.outbound.trust import trusted

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection


async def connect(guard: Guard, host: str, port: int, seconds: float) -> socket.socket:
    """A TCP connection for a thread: each of its steps blocks for up to `seconds`. Raises OutboundError."""
    for address in await guard.addresses(host, port):
        if opened := await _connected(address, port, seconds):
            opened.settimeout(seconds)
            return opened
    raise Unreachable(f"{host} cannot be reached at port {port}.")


async def _connected(address: IPAddress, port: int, seconds: float) -> socket.socket | None:
    opened = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    opened.setblocking(False)
    try:
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().sock_connect(opened, (str(address), port))
    except BaseException as error:
        opened.close()
        if isinstance(error, OSError):  # a timeout is one, too
            return None
        raise
    return opened


def encrypted(connection: socket.socket, host: str) -> ssl.SSLSocket:
    """The connection with TLS, for a thread. Raises Untrusted, Unreachable, and closes the connection then."""
    try:
        return trusted().wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        connection.close()
        told = f"its certificate is not to be trusted ({error.verify_message})"
        raise Untrusted(f"{host} is not called: {told}.", error.verify_code) from error
    except OSError as error:  # TLS has errors of this kind
        connection.close()
        raise Unreachable(f"{host} cannot be reached by TLS: {type(error).__name__}.") from error


@asynccontextmanager
async def websocket(guard: Guard, url: str, seconds: float, most_bytes: int) -> AsyncIterator[ClientConnection]:
    """An open WebSocket at a `ws` or `wss` URL; no redirect is followed. `most_bytes`: of a message, unpacked.

    Raises OutboundError before it is open, and what `websockets` raises after that.
    """
    from websockets.asyncio.client import connect as open_websocket  # slow to load, and seldom used
    from websockets.exceptions import WebSocketException

    if not url.startswith(("ws://", "wss://")):
        raise Forbidden("Must be an absolute ws or wss URL.")
    target = parse_url(f"http{url.removeprefix('ws')}")
    secure: dict[str, Any] = {"ssl": trusted(), "server_hostname": target.host} if url.startswith("wss://") else {}
    opened = await connect(guard, target.host, target.port, seconds)
    opened.setblocking(False)
    try:
        connection = await open_websocket(
            url, sock=opened, proxy=None, open_timeout=seconds, close_timeout=seconds, max_size=most_bytes, **secure
        )
    except BaseException as error:
        opened.close()
        if isinstance(error, TimeoutError):
            raise TooSlow(f"{target.host} did not answer in time.") from None
        if isinstance(error, (OSError, WebSocketException, ValueError)):
            raise Unreachable(f"{target.host} opens no WebSocket: {type(error).__name__}.") from error
        raise
    try:
        yield connection
    finally:
        await connection.close()
