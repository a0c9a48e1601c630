"""How many runs a process carries that do something. One that waits for a child is carried too, and not counted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Slots:
    def __init__(self, count: int) -> None:
        self._free = count
        self._changed = threading.Condition()

    def take(self, timeout: float) -> bool:
        """Take one, waiting up to `timeout` seconds for it."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._free > 0, timeout):
                return False
            self._free -= 1
            return True

    def give(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify()

    @contextmanager
    def lent_out(self) -> Iterator[None]:
        """Give one for a while. It is taken back without waiting, since its run goes on; new runs wait for it."""
        self.give()
        try:
            yield
        finally:
            with self._changed:
                self._free -= 1
