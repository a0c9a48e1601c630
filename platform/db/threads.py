"""What a process has one of: made when it is first asked for, and again once it was taken away."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Singleton[T]:
    """Holds the one that `make` makes; threads that ask for it at the same time get the same."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: T | None = None
        self._lock = threading.Lock()

    def get(self) -> T:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def take(self) -> T | None:
        """Takes it away, for who is to end it; None where there is none."""
        with self._lock:
            taken, self._made = self._made, None
        return taken
