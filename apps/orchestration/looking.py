"""Looks at runs, one at a time for each run in a process: who comes while somebody looks has that one look again.

Of a fan-out many steps end at the same time, and one look sees them all.
"""

from __future__ import annotations

import threading
import uuid

from apps.orchestration import engine

_lock = threading.Lock()
_looked_at: dict[uuid.UUID, bool] = {}  # runs that a thread looks at: is it to look again?


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
