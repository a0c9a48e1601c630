"""What database threads do when a test ends.

Access that ends between a commit and the return to autocommit would spoil the thread's connection for later tests, so
each test waits for them while it may use the database.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

import pytest

from parley import db

MOST_SECONDS = 20.0

_under_way: set[Future[object]] = set()


@contextmanager
def known() -> Iterator[None]:
    """All calls are remembered while they run, also what a canceled task has left."""

    enqueue = db.DatabaseThreads.enqueue

    def remembering(*args: Any, **kwargs: Any) -> Future[Any]:
        future = enqueue(*args, **kwargs)
        _under_way.add(future)
        future.add_done_callback(_under_way.discard)
        return future

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(db.DatabaseThreads, "enqueue", remembering)
        yield


def is_under_way() -> bool:
    return bool(_under_way)


def wait_for_all() -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while (running := list(_under_way)) and time.monotonic() < deadline:
        wait(running, timeout=MOST_SECONDS)
