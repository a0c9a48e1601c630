"""Lazily created objects, one per process."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Singleton[T]:
    """Creates an object with `make` on first use and shares it between threads."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: T | None = None  # the object, if it was made
        self._lock = threading.Lock()

    def get(self) -> T:
        with self._lock:
            if self.made is None:
                self.made = self._make()
            return self.made

    def take(self) -> T | None:
        """Remove and return the object, for the caller to end it; None if there is none."""
        with self._lock:
            taken, self.made = self.made, None
        return taken
