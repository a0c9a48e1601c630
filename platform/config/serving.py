"""The web server and the embedded worker as one process that a signal ends in good order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn

import db
from apps.engine import jobs

STALLED_SECONDS = 60  # how long a client may read nothing of what is sent to it, before its connection is cut
MAX_HEAD_BYTES = 128 * 1024  # of the request line and the headers; within it `RequestLimits` refuses in words
MAX_SOCKET_MESSAGE_BYTES = 1024 * 1024
KEEP_ALIVE_SECONDS = 60
GRACE_SECONDS = 1  # for open streams to end, before they are canceled


class AddressTaken(Exception):
    """Nothing can listen at this address."""


def check_address(host: str, port: int) -> None:
    """Find out before the long start whether `host`:`port` can be had. Raises AddressTaken with a sentence."""
    listen(host, port).close()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, whose connections are cut when the other side stops reading. Raises AddressTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host.strip("[]"), port), family=family)
    except OSError as error:
        raise AddressTaken(
            f"Nothing can be served at {host}:{port} ({error.strerror}). "
            "End what listens there, or choose another address with PORT and HOST."
        ) from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)
    return listener


def serve(application: Any, host: str, port: int, *, worker: bool, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` is called once requests are answered.

    Raises AddressTaken where another process took the address meanwhile.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            http="h11",
            ws="websockets-sansio",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=[("Server", "Parley")],
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        listener = stack.enter_context(listen(host, port))
        stack.callback(db.close)
        if worker:
            stack.enter_context(jobs.embedded_worker())
        ready()
        server.run(sockets=[listener])


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Streams that are canceled when the server ends are no errors."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
