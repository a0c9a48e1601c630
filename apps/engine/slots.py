"""How many runs a process carries that do something. One that waits for a child is carried too, and not counted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Slots:
    """They are taken from any thread, and awaited and given back on the process's event loop."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._freed = asyncio.Event()

    def take(self) -> bool:
        """Take one, if one is free."""
        with self._lock:
            if self._free <= 0:
                return False
            self._free -= 1
            return True

    async def take_within(self, seconds: float) -> bool:
        """Take one as soon as one is free, if that is soon enough."""
        try:
            async with asyncio.timeout(seconds):
                while not self.take():
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            return False
        return True

    def give(self) -> None:
        with self._lock:
            self._free += 1
        self._freed.set()

    @contextmanager
    def lent_out(self) -> Iterator[None]:
        """Give one for a while. It is taken back without waiting, since its run goes on; new runs wait for it."""
        self.give()
        try:
            yield
        finally:
            with self._lock:
                self._free -= 1
