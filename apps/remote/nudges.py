"""Waiting for the word that a remote agent has something new: a wake-up, behind which there is always a time-out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from apps.record import notifications

_waiting: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}
_lock = threading.Lock()
_listens = False


@contextmanager
def listening(run_id: object) -> Iterator[asyncio.Event]:
    """An event of the running loop that is set whenever the run is nudged."""
    global _listens
    with _lock:
        listens, _listens = _listens, True
    if not listens:
        notifications.on_nudge(_nudged)
    event = asyncio.Event()
    key, mine = str(run_id), (asyncio.get_running_loop(), event)
    _waiting[key] = mine
    try:
        yield event
    finally:
        if _waiting.get(key) is mine:  # this process may have taken the run up again meanwhile
            del _waiting[key]


def _nudged(run_id: str) -> None:
    """Called from any thread."""
    if found := _waiting.get(run_id):
        loop, event = found
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(event.set)
