"""Database access for asynchronous code: a few threads, each with a connection, used only while a function runs."""

import asyncio
import atexit
import contextlib
import itertools
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import Context, ContextVar, copy_context
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from parley.telemetry import metrics

log = logging.getLogger("parley.db")

caller: ContextVar[str] = ContextVar("caller", default="")
"""On whose behalf the current code runs: callers take turns where they have to wait. "": background work, and others
that nobody named."""

RECONNECT_SECONDS = (0.1, 0.4, 1.5, 3.0)  # waits while a database server restarts


async def run[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await `function(*args, **kwargs)` on a database thread (see `with_database`), in this code's context."""
    call = partial(with_database, function, *args, **kwargs)
    result: T = await _threads.enqueue(call, asyncio.get_running_loop().create_future())
    return result


async def run_for_stream[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`run` for an open stream: many of these leave threads to those who wait for an answer."""
    call = partial(with_database, function, *args, **kwargs)
    result: T = await _threads.enqueue(call, asyncio.get_running_loop().create_future(), is_stream=True)
    return result


def submit[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
    """Call `function` on a database thread without waiting, in this code's context."""
    return _threads.submit(partial(with_database, function, *args, **kwargs))


def submit_unnamed[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
    """`submit` on nobody's behalf: such calls may take all threads."""
    context = copy_context()
    context.run(caller.set, "")
    call: Callable[[], T] = partial(with_database, function, *args, **kwargs)
    return context.run(_threads.submit, call)


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


POOL_COUNT_SECONDS = 1.0


def count_pool() -> None:
    """Count the connections of this process's PostgreSQL pool, which pages share with database threads."""
    if (pool := getattr(connection, "pool", None)) is not None:
        numbers = pool.get_stats()
        metrics.POOL["idle"].set(numbers.get("pool_available", 0))
        metrics.POOL["in_use"].set(numbers.get("pool_size", 0) - numbers.get("pool_available", 0))
        metrics.POOL["waiting"].set(numbers.get("requests_waiting", 0))


class Call(NamedTuple):
    """A call that waits for a thread."""

    function: Callable[[], Any]
    context: Context
    future: "Future[Any] | asyncio.Future[Any]"
    share: str | None  # of the threads, that it takes: its caller's, or, as None, that of all streams
    since: float  # by the performance counter


class DatabaseThreads(Executor):
    """Up to `count` threads, started when needed; each keeps a connection until `shutdown`, at the latest at exit.

    So that one caller's many calls do not delay another's, callers take turns, and each named caller has `share`
    threads at most, by default a third. So have all streams together.
    """

    def __init__(self, count: int, name: str, share: int = 0) -> None:
        self._name = name
        self._started: list[Thread] = []
        self._begun: SimpleQueue[Call | None] = SimpleQueue()  # a call for each thread that has to wake up; None: end
        self._lock = Lock()  # guards what follows
        self._free = count  # threads without work
        self._share = share or max(1, count // 3)
        self._busy: Counter[str | None] = Counter()  # threads by share
        self._waiting: dict[tuple[str, bool], deque[Call]] = {}  # by caller, its streams apart; the next turn is first
        self._count = count
        self._has_ended = False
        self._pool_counted_at = 0.0
        metrics.DATABASE_THREADS.inc(count)
        atexit.register(self.shutdown)

    @property
    def is_busy(self) -> bool:
        """Does any call run or wait?"""
        with self._lock:
            return self._free < self._count or bool(self._waiting)

    def submit[**P, T](self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """See `concurrent.futures.Executor`."""
        return self.enqueue(partial(function, *args, **kwargs), Future())

    def enqueue[F: (Future[Any], asyncio.Future[Any])](
        self, function: Callable[[], Any], future: F, *, is_stream: bool = False
    ) -> F:
        """Call the function in this context when it is the caller's turn; `future` gets the result.

        `is_stream`: an open stream needs it. Raises RuntimeError after `shutdown`.
        """
        whose = caller.get()
        share = None if is_stream else whose
        call = Call(function, copy_context(), future, share, time.perf_counter())
        with self._lock:
            if self._has_ended:
                raise RuntimeError("These database threads have ended.")
            if self._free and not self._waiting and (share == "" or self._busy[share] < self._share):
                next_call: Call | None = call  # nobody waits
                self._busy[share] += 1
            else:
                self._waiting.setdefault((whose, is_stream), deque()).append(call)
                next_call = self._next_call() if self._free else None
            if next_call is None:
                return future
            self._free -= 1
            if len(self._started) < self._count - self._free:
                name = f"{self._name}_{len(self._started)}"
                thread = Thread(target=self._serve, name=name, daemon=True)  # `shutdown` ends it
                thread.start()
                self._started.append(thread)
            self._begun.put(next_call)  # under the lock, so that it is before the end that `shutdown` puts
        return future

    def _next_call(self) -> Call | None:
        """Take the call whose turn it is, if any may begin. The lock is held."""
        for lane, calls in self._waiting.items():
            share = calls[0].share
            if share != "" and self._busy[share] >= self._share:
                continue
            del self._waiting[lane]
            call = calls.popleft()
            if calls:
                self._waiting[lane] = calls  # as the last
            self._busy[share] += 1
            return call
        return None

    def _serve(self) -> None:
        """Be a thread: make the calls that are begun, until the end."""
        while self._work(self._begun.get()):
            pass  # an idle thread keeps no call, and so nobody's request
        forget_connection()

    def _work(self, call: Call | None) -> bool:
        """Make the call, and those that wait meanwhile. False if there is none."""
        if call is None:
            return False
        began = time.perf_counter()
        while call is not None:
            future, result, error = call.future, None, None
            is_wanted = future.set_running_or_notify_cancel() if isinstance(future, Future) else not future.cancelled()
            if is_wanted:
                try:
                    result = call.context.run(call.function)
                except BaseException as problem:
                    error = problem
            with self._lock:  # before the caller learns the result, so that its next call finds this thread free
                self._busy[call.share] -= 1
                if not self._busy[call.share]:
                    del self._busy[call.share]
                call = self._next_call() if self._waiting else None
                self._free += call is None
            if not is_wanted:
                pass
            elif isinstance(future, Future):
                _settle(future, result, error)
            else:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    future.get_loop().call_soon_threadsafe(_settle, future, result, error)
            del future, result, error  # an idle thread keeps nothing
            now = time.perf_counter()
            metrics.DATABASE_BUSY_SECONDS.inc(now - began)
            began = now
            if call is not None:
                metrics.DATABASE_WAIT_SECONDS.observe(now - call.since)
            if now - self._pool_counted_at > POOL_COUNT_SECONDS:
                self._pool_counted_at = now
                with contextlib.suppress(Exception):  # a thread must not end because nobody could count
                    count_pool()
        return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Finish submitted work, then end the threads and close their connections."""
        with self._lock:
            if self._has_ended:
                return
            self._has_ended = True
            unwanted = [*itertools.chain.from_iterable(self._waiting.values())] if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
        atexit.unregister(self.shutdown)
        metrics.DATABASE_THREADS.dec(self._count)
        for call in unwanted:
            if isinstance(call.future, Future):
                call.future.cancel()
                call.future.set_running_or_notify_cancel()
            else:
                call.future.get_loop().call_soon_threadsafe(call.future.cancel)
        for _ in self._started:
            self._begun.put(None)
        for thread in self._started if wait else ():
            thread.join()


def _settle(future: "Future[Any] | asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():
        return  # canceled meanwhile
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


_threads = DatabaseThreads(settings.BRIDGE_THREADS, "database")


def close() -> None:
    """Finish the running work, then end the threads; later calls start new ones."""
    global _threads
    ended, _threads = _threads, DatabaseThreads(settings.BRIDGE_THREADS, "database")
    ended.shutdown()
