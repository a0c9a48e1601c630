"""What database threads do when a test ends.

Access that ends between a commit and the return to autocommit would spoil the thread's connection for later tests, so
each test waits for them while it may use the database.
"""

import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from parley import db

MOST_SECONDS = 20.0

_made: weakref.WeakSet[db.DatabaseThreads] = weakref.WeakSet()


@contextmanager
def known() -> Iterator[None]:
    """All threads are remembered, so also what a canceled task has left to them."""

    make = db.DatabaseThreads.__init__

    def remembering(threads: db.DatabaseThreads, *args: Any, **kwargs: Any) -> None:
        make(threads, *args, **kwargs)
        _made.add(threads)

    _made.add(db._threads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(db.DatabaseThreads, "__init__", remembering)
        yield


def is_under_way() -> bool:
    return any(threads.is_busy for threads in _made)


def wait_for_all() -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while is_under_way() and time.monotonic() < deadline:
        time.sleep(0.001)
