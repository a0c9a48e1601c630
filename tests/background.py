"""What database threads do when a test ends.

Access that ends between a commit and the return to autocommit would spoil the thread's connection for later tests, so
each test waits for them while it may use the database.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

import pytest

import db

MOST_SECONDS = 20.0

_under_way: set[Future[object]] = set()


@contextmanager
def known() -> Iterator[None]:
    """All calls are remembered while they run, also what a canceled task has left."""

    def remembering(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
        def remembered(*args: Any, **kwargs: Any) -> Future[Any]:
            future = submit(*args, **kwargs)
            _under_way.add(future)
            future.add_done_callback(_under_way.discard)
            return future

        return remembered

    with pytest.MonkeyPatch.context() as patch:
        for way in (db.DatabaseThreads.submit, db.DatabaseThreads.submit_for_stream):
            patch.setattr(db.DatabaseThreads, way.__name__, remembering(way))
        yield


def is_under_way() -> bool:
    return bool(_under_way)


def wait_for_all() -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while (running := list(_under_way)) and time.monotonic() < deadline:
        wait(running, timeout=MOST_SECONDS)
