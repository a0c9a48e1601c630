"""The one way from asynchronous code to the database: a few threads, each with a connection while it is used.

A caller that waits or streams holds neither: it borrows a thread for the length of one function.
"""

import asyncio
import atexit
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from db.single import Single
from db.threads import Threads

log = logging.getLogger("parley.db")

RECONNECT_SECONDS = (0.1, 0.4, 1.5, 3.0)  # waits between tries while a database server restarts

_threads = Single(lambda: Threads(settings.BRIDGE_THREADS, forget_connection))


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


async def run[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await `function(*args, **kwargs)` on a bridge thread (see `with_database`)."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def call() -> None:
        if answer.cancelled():
            return
        try:
            settle = partial(_settle, answer, with_database(function, *args, **kwargs), None)
        except BaseException as error:
            settle = partial(_settle, answer, None, error)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
            loop.call_soon_threadsafe(settle)
        del settle  # or an error would keep itself, by way of its traceback and this frame

    _threads.get().call(call)
    return await answer


def _settle(answer: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if answer.done():  # who waited was canceled
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def submit[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
    """Call `function` on a bridge thread (see `with_database`): for threads that do something else meanwhile."""
    answer: Future[T] = Future()

    def call() -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            result = with_database(function, *args, **kwargs)
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(result)

    _threads.get().call(call)
    return answer


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
    """Call `function` on a bridge thread soon; nobody waits for it, and its errors are logged."""
    submit(function, *args, **kwargs).add_done_callback(_log_failure)


def _log_failure(future: "Future[object]") -> None:
    if not future.cancelled() and (error := future.exception()):
        log.error("work left to the bridge failed", exc_info=error)


def close() -> None:
    """End the threads and their connections, after what they are doing; the next use starts new ones."""
    if (threads := _threads.take()) is not None:
        threads.close()


atexit.register(close)
