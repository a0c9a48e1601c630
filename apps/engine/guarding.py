"""Watching over the event loop that all runs of a process share: a handler that computes without end is ended.

An async handler that awaits nothing keeps every other from going on. The guard looks on from a thread of its own, and
raises `Blocked` in the handler. Leases are kept meanwhile: that is another thread's work.
"""

from __future__ import annotations

import asyncio
import logging
import threading

from django.conf import settings

from agentkit.interrupting import interrupt

log = logging.getLogger("parley.engine")

TRIES = 3  # after which nothing more is to be hoped for
LOOKS = 10  # how often the same task must be seen at it; a process that only gets no time is not blocked


class Blocked(BaseException):
    """Raised in a handler that has kept the event loop to itself. No `Exception`: `except Exception` lets it pass."""


class Guard:
    """Watches the loop that `thread` runs.

    Attributes:
        is_stuck: a handler lets nothing end it: this process had better leave its runs to others.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        self._loop = loop
        self._watched = thread
        self.is_stuck = False
        self._beats = 0
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="guard", daemon=True).start()

    def close(self) -> None:
        self._ended.set()

    def _beat(self) -> None:
        self._beats += 1

    def _watch(self) -> None:
        seen: asyncio.Task[object] | None = None
        looks, tries, beats = 0, 0, -1
        while not self._ended.wait(settings.BLOCKED_SECONDS / LOOKS):
            now = asyncio.current_task(self._loop)
            if self._beats != beats:  # it answered: ask again
                beats, looks, tries, self.is_stuck = self._beats, 0, 0, False
                self._ask()
            elif now is None or now is not seen:
                looks = 0
            elif (looks := looks + 1) >= LOOKS:
                looks, tries = 0, tries + 1
                self.is_stuck = tries > TRIES
                log.error("agent %s computes and awaits nothing; it is ended, for all others wait", agent_of(now))
                interrupt(self._watched.ident or 0, Blocked)
            seen = now

    def _ask(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._beat)
        except RuntimeError:  # the loop has ended
            self._ended.set()


def agent_of(task: asyncio.Task[object]) -> str:
    """The agent's slug, which is bound to its task for the lines of the log."""
    return next((str(value) for name, value in task.get_context().items() if name.name == "structlog_agent"), "?")
