"""The web server and the embedded worker in one process, with a graceful shutdown."""

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
from django.conf import settings

from apps.engine import jobs
from parley import db
from parley.uvicorn_http import HTTP, MAX_HEAD_BYTES

STALLED_SECONDS = 60  # without reading, before a client is disconnected
MAX_SOCKET_MESSAGE_BYTES = 1024 * 1024
KEEP_ALIVE_SECONDS = 60
GRACE_SECONDS = 1  # before open streams are canceled


class AddressTaken(Exception):
    """Nothing can listen at this address."""


def check_address(host: str, port: int) -> None:
    """Check early that `host`:`port` is free. Raises AddressTaken with a sentence."""
    listen(host, port).close()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket that disconnects clients that stop reading. Raises AddressTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host.strip("[]"), port), family=family)
    except OSError as error:
        raise AddressTaken(
            f"Cannot listen at {host}:{port} ({error.strerror}). Stop the program that uses the address, or choose "
            f"another port: PORT={port % 65535 + 1} make run. HOST chooses another address."
        ) from error
    # Accepted connections inherit both. asyncio sets TCP_NODELAY only for sockets that name their protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)
    return listener


def serve(application: Any, host: str, port: int, *, worker: bool, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` is called once the socket listens. Raises AddressTaken."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
    server = uvicorn.Server(configuration(application))
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        listener = stack.enter_context(listen(host, port))
        stack.callback(db.close)
        if worker:
            stack.enter_context(jobs.embedded_worker())
        ready()
        server.run(sockets=[listener])


def configuration(application: Any) -> uvicorn.Config:
    """How uvicorn serves `application`. Proxies of `FORWARDED_ALLOW_IPS` may say who is calling, nobody else."""
    return uvicorn.Config(
        application,
        http=HTTP,
        ws="websockets-sansio",
        loop="auto",  # uvloop where it is installed
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=bool(settings.FORWARDED_ALLOW_IPS),
        forwarded_allow_ips=settings.FORWARDED_ALLOW_IPS,
        server_header=False,
        headers=[("Server", "Parley")],
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Streams canceled at the shutdown are not errors."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
