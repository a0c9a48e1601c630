"""Daphne and the embedded worker as one process that a signal ends in good order."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from daphne.endpoints import build_endpoint_description_strings
from daphne.server import Server

import db
from apps.engine import embedded


class AddressTaken(Exception):
    """Nothing can listen at this address."""


def claim_address(host: str, port: int) -> None:
    """Find out before the long start whether `host`:`port` can be had. Raises AddressTaken with a sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), port))
    except OSError as error:
        raise AddressTaken(
            f"Nothing can be served at {host}:{port} ({error.strerror}). "
            "End what listens there, or choose another address with PORT and HOST."
        ) from error


def serve(application: Any, host: str, port: int, *, worker: bool, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` is called once requests are answered.

    Raises AddressTaken where another process took the address meanwhile.
    """
    server: Server = Server(
        application,
        endpoints=build_endpoint_description_strings(host=host, port=port),
        ready_callable=lambda: ready() if server.listening_addresses else None,
        server_name="Parley",
    )
    with _ended_by_signals(), contextlib.ExitStack() as stack:
        stack.callback(db.close)
        if worker:
            stack.enter_context(embedded.worker())
        server.run()
    if server.abort_start:
        raise AddressTaken(f"Nothing can be served at {host}:{port}. Choose another address with PORT and HOST.")


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C while the reactor, which then has handlers of its own, is not running."""

    def leave(*_: object) -> NoReturn:
        sys.exit(0)

    # The reactor takes SIGINT over from Python's own handler alone; a shell's background job begins without one.
    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, leave),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
