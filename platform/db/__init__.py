"""Database access for asynchronous code: a few threads, each with a connection, used only while a function runs."""

import asyncio
import atexit
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from threading import Semaphore

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

log = logging.getLogger("parley.db")

RECONNECT_SECONDS = (0.1, 0.4, 1.5, 3.0)  # waits while a database server restarts


async def run[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await `function(*args, **kwargs)` on a database thread (see `with_database`)."""
    call = partial(with_database, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_threads, call)


def submit[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
    """Call `function` on a database thread without waiting."""
    return _threads.submit(partial(with_database, function, *args, **kwargs))


async def persist[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`run`, retried every second while the database is away, for up to RUN_LEASE_SECONDS."""
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
    """`submit`, with errors logged."""

    def log_failure(future: "Future[object]") -> None:
        if not future.cancelled() and (error := future.exception()):
            log.error("background work on a database thread failed", exc_info=error)

    submit(function, *args, **kwargs).add_done_callback(log_failure)


def with_database[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` in this thread; reconnect and call it again if its connection breaks.

    The first call may have committed, so `function` must be safe to run twice.
    """
    for wait in (*RECONNECT_SECONDS, None):
        used = None
        try:
            connection.ensure_connection()
            used = connection.connection
            return function(*args, **kwargs)
        except (OperationalError, InterfaceError):
            # Django may have opened another connection after a broken transaction.
            is_sound = used is not None and connection.connection is used and connection.is_usable()
            if wait is None or connection.in_atomic_block or is_sound:
                raise
            log.warning("database connection lost; trying again in %s s", wait)
            forget_connection()
            time.sleep(wait)
    raise AssertionError("unreachable")


def forget_connection() -> None:
    """Close this thread's connection; the next use reopens it."""
    with contextlib.suppress(DatabaseError):
        connection.close()


class DatabaseThreads(Executor):
    """Up to `count` threads, started when needed; each keeps a connection until `shutdown`.

    The first thread is preferred: on SQLite a write invalidates the page caches of all other connections.
    """

    def __init__(self, count: int, name: str) -> None:
        self._connections: list[BaseDatabaseWrapper] = []
        self._first_is_free = Semaphore()
        start = partial(ThreadPoolExecutor, thread_name_prefix=name, initializer=self._register)
        self._first = start(1)
        self._others = start(count - 1) if count > 1 else self._first

    def _register(self) -> None:
        """Record the new thread's connection, for `shutdown` to close."""
        database = connections[DEFAULT_DB_ALIAS]
        database.inc_thread_sharing()
        self._connections.append(database)

    def submit[**P, T](self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """See `concurrent.futures.Executor`."""
        if not self._first_is_free.acquire(blocking=False):
            return self._others.submit(function, *args, **kwargs)
        future = self._first.submit(function, *args, **kwargs)
        future.add_done_callback(lambda _: self._first_is_free.release())
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Finish submitted work, then end the threads and close their connections."""
        self._first.shutdown(wait, cancel_futures=cancel_futures)
        self._others.shutdown(wait, cancel_futures=cancel_futures)
        for database in self._connections:
            with contextlib.suppress(DatabaseError):
                database.close()


_threads = DatabaseThreads(settings.BRIDGE_THREADS, "database")


def close() -> None:
    """Finish the running work, then end the threads; later calls start new ones."""
    global _threads
    ended, _threads = _threads, DatabaseThreads(settings.BRIDGE_THREADS, "database")
    ended.shutdown()


atexit.register(close)
