"""Looks at runs, one at a time for each run in a process: who comes while somebody looks has that one look again.

Of a fan-out many steps end at the same time, and one look sees them all. A worker's process looks by itself at what
moved in it, on a few threads of its own: that takes no turn of the queue. Other processes name the run to the workers.
"""

from __future__ import annotations

import logging
import threading
import uuid
from functools import partial

import db
from apps.plans import engine, waking
from db.threads import Threads

log = logging.getLogger("parley.plans")

AT_ONCE = 4  # runs that a process looks at by itself: that is waiting for the database more than it is work

_lock = threading.Lock()
_looked_at: dict[uuid.UUID, bool] = {}  # runs that a thread looks at: is it to look again?
_queued: set[uuid.UUID] = set()  # runs that wait for one of this process's own threads
_threads: Threads | None = None  # of a worker's process


def begin() -> None:
    """This process is a worker's: from now on it looks by itself at what moves in it."""
    global _threads
    _threads = _threads or Threads(AT_ONCE, db.forget_connection)


def end() -> None:
    """It is one no more: what is being looked at is looked at, and what waits is left to other processes."""
    global _threads
    threads, _threads = _threads, None
    if threads is not None:
        threads.close()


def look_soon(run: uuid.UUID) -> None:
    """Have a run looked at, here or by whichever worker comes first. Call it after the commit."""
    threads = _threads
    if threads is None or not _look_here(threads, run):
        waking.wake(run)


def _look_here(threads: Threads, run: uuid.UUID) -> bool:
    """Leave it to one of these threads, or to one that has it before it already."""
    with _lock:
        if run in _looked_at:
            _looked_at[run] = True
            return True
        if run in _queued:
            return True
        _queued.add(run)
    try:
        threads.call(partial(_take_up, run))
    except RuntimeError:  # they were closed just now
        _queued.discard(run)
        return False
    return True


def _take_up(run: uuid.UUID) -> None:
    _queued.discard(run)
    try:
        if _threads is None:
            waking.wake(run)
        else:
            db.with_database(look, run)
    except Exception:
        log.exception("plan run %s could not be looked at; it waits for the sweep", run)


def look(run: uuid.UUID) -> None:
    """Have a run moved on: all that is committed by now is seen, by this look or by one that begins after it."""
    with _lock:
        is_looked_at = run in _looked_at
        _looked_at[run] = is_looked_at
    if is_looked_at:
        return
    try:
        engine.advance(run)
        while _is_to_be_looked_at_again(run):
            engine.advance(run)
    except BaseException:
        _looked_at.pop(run, None)  # what it did not see is left to the sweep
        raise


def _is_to_be_looked_at_again(run: uuid.UUID) -> bool:
    with _lock:
        again = _looked_at.pop(run)
        if again:
            _looked_at[run] = False
        return again
