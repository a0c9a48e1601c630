"""The one way from asynchronous code to the database: a few threads, each with a connection of its own.

A caller that waits or streams holds neither: it borrows a thread for the length of one function.
"""

import asyncio
import atexit
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from django.conf import settings
from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    InterfaceError,
    OperationalError,
    connection,
    connections,
)
from django.db.backends.base.base import BaseDatabaseWrapper

from db.threads import Singleton

log = logging.getLogger("parley.db")

RECONNECT_SECONDS = (0.1, 0.4, 1.5, 3.0)  # waits between tries while a database server restarts


async def run[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await `function(*args, **kwargs)` on a database thread (see `with_database`)."""
    call = partial(with_database, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_threads.get(), call)


def submit[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
    """Call `function` on a database thread (see `with_database`): for threads that do something else meanwhile."""
    return _threads.get().submit(partial(with_database, function, *args, **kwargs))


async def persist[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await `run(function, …)` again and again while the database is away, for as long as a lease may last."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + settings.RUN_LEASE_SECONDS
    while True:
        try:
            return await run(function, *args, **kwargs)
        except (OperationalError, InterfaceError):
            if loop.time() > deadline:
                raise
            await asyncio.sleep(1)


def later[**P](function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call `function` on a database thread soon; nobody waits for it, and its errors are logged."""
    submit(function, *args, **kwargs).add_done_callback(_log_failure)


def _log_failure(future: "Future[object]") -> None:
    if not future.cancelled() and (error := future.exception()):
        log.error("work left to a database thread failed", exc_info=error)


def with_database[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` in this thread, and again after a reconnection if its connection turns out to be broken.

    A function is called again only when the database itself went away, so its transaction was rolled back (or, at the
    worst, committed unheard): give it functions that may run twice, as compare-and-swap and idempotency make ours.
    Raises what `function` raises.
    """
    for wait in (*RECONNECT_SECONDS, None):
        used = None
        try:
            connection.ensure_connection()
            used = connection.connection
            return function(*args, **kwargs)
        except (OperationalError, InterfaceError):
            if wait is None or connection.in_atomic_block or _still_holds(used):
                raise
            log.warning("database connection lost; trying again in %s s", wait)
            forget_connection()
            time.sleep(wait)
    raise AssertionError("unreachable")


def _still_holds(used: object) -> bool:
    """Is it still this connection, and sound? Leaving a transaction that broke off, Django opens another."""
    return used is not None and connection.connection is used and connection.is_usable()


def forget_connection() -> None:
    """Close this thread's connection; the next use opens another."""
    with contextlib.suppress(DatabaseError):
        connection.close()


class DatabaseThreads(ThreadPoolExecutor):
    """At most `count` threads, each with a connection that it keeps until `close`."""

    def __init__(self, count: int, name: str) -> None:
        self._connections: list[BaseDatabaseWrapper] = []
        super().__init__(count, thread_name_prefix=name, initializer=self._register)

    def _register(self) -> None:
        """Note the new thread's connection, which `close` closes from another thread."""
        database = connections[DEFAULT_DB_ALIAS]
        database.inc_thread_sharing()
        self._connections.append(database)

    def close(self) -> None:
        """End the threads and their connections, after what they have been given."""
        self.shutdown()
        for database in self._connections:
            with contextlib.suppress(DatabaseError):
                database.close()


_threads = Singleton(lambda: DatabaseThreads(settings.BRIDGE_THREADS, "database"))


def close() -> None:
    """End the threads and their connections, after what they are doing; the next use starts new ones."""
    if (threads := _threads.take()) is not None:
        threads.close()


atexit.register(close)
