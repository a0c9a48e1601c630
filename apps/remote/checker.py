"""The part of a worker process that checks remote agents: one event loop, many agents side by side, none of which waits
for another."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from typing import Any

import db
from apps.remote import checking
from apps.remote.checking import Round
from apps.remote.examining import findings_of
from db.single import Single

log = logging.getLogger("parley.remote")

AT_ONCE = 100  # rounds of one process at a time


class Checker:
    """Takes the rounds that are due, as many as it has places for."""

    def __init__(self) -> None:
        self._works: set[asyncio.Task[None]] = set()
        self._taking = False
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="checks", daemon=True).start()

    def look(self) -> None:
        """Check who is due. Called from any thread; it does not wait."""
        asyncio.run_coroutine_threadsafe(self._take(), self._loop)

    def close(self) -> None:
        """Stop; rounds that are not over are dropped."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _take(self) -> None:
        places = AT_ONCE - len(self._works)
        if self._taking or not places:
            return
        self._taking = True
        try:
            for one in await db.run(checking.take, places):
                work = self._loop.create_task(_work_off(one))
                self._works.add(work)
                work.add_done_callback(self._works.discard)
        except Exception:
            log.exception("remote agents could not be checked; they are due the next time")
        finally:
            self._taking = False

    async def _end(self) -> None:
        works = list(self._works)
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    def _run[T](self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)


async def _work_off(one: Round) -> None:
    try:
        await db.run(checking.keep, one, await findings_of(one.remote, one.probe))
    except Exception:
        log.exception("the check of agent %s broke off", one.agent.slug)


_single = Single(Checker)


def this_process() -> Checker:
    """The one of this process, made when agents are to be checked for the first time."""
    return _single.get()


def close_this_process() -> None:
    """End it (see `Checker.close`)."""
    if (closing := _single.take()) is not None:
        closing.close()
