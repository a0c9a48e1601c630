"""A clock for patience: on a busy machine it runs as much slower as processors give this program less.

Who waits for an answer by this clock waits as long on a machine that others use as on one that is idle.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

WORK_SECONDS = 0.02  # of processor time, to measure
BETWEEN = 1.0
MOST = 10.0  # times; a wait ends some time


class Machine:
    """Attributes:
    stretch: seconds that a second of a processor's work takes now, up to MOST; 1 on an idle machine.
    most: the largest so far.
    """

    def __init__(self, measure: Callable[[], float], clock: Callable[[], float] = time.monotonic) -> None:
        self._measure, self._clock, self._lock = measure, clock, threading.Lock()
        self.stretch = self.most = 1.0
        self._at, self._now = clock(), 0.0

    def start(self) -> None:
        """Measure in a thread, as long as the program lives."""
        threading.Thread(target=self._keep_measuring, name="machine", daemon=True).start()

    def _keep_measuring(self) -> None:
        while True:
            self.note()
            time.sleep(BETWEEN)

    def note(self) -> None:
        """Measure once."""
        stretch = min(MOST, max(1.0, self._measure()))
        self.now()
        self.stretch, self.most = stretch, max(self.most, stretch)

    def now(self) -> float:
        """Seconds as they pass on an idle machine."""
        with self._lock:
            at = self._clock()
            self._now += (at - self._at) / self.stretch
            self._at = at
            return self._now

    def seconds(self, idle: float) -> float:
        """How long takes now what takes so many seconds on an idle machine."""
        return idle * self.stretch


def measured(clock: Callable[[], float] = time.monotonic, worked: Callable[[], float] = time.thread_time) -> float:
    """How many seconds a second of this thread's work takes."""
    began, end = clock(), worked() + WORK_SECONDS
    while worked() < end:
        pass
    return (clock() - began) / WORK_SECONDS


machine = Machine(measured)
