"""How the workers of a parallel run share the tests out: by file."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

LAST = "tests/browser/"
"""What is tried when nearly nothing else runs: pages on a busy machine are late, and browsers make it busier."""

BROWSERS = 2
"""How many workers try pages in any case: each has a Parley and a Chromium of its own."""

SPARE = 0.2
"""How much of the processor's time must be left over for one more of them to try some."""

LONGEST = (
    "tests/docs/test_pages",
    "tests/conversations/test_random_",
    "tests/orchestration/test_edges",
    "tests/faults/",
    "tests/serving/test_asking_from_a_terminal",
    "tests/benchmarks/",
    "tests/browser/test_hostile",
    "tests/browser/test_reachable",
    "tests/browser/test_panel",
    "tests/browser/test_budget",
)
"""What is begun first, in this order, so that nobody waits for it at the end.

Few of the first start a whole Parley: what all of those begin with is made by one of them, and the others wait for it.
"""


CONNECTIONS = 45
"""What one worker may take of PostgreSQL's, with the whole Parleys that its tests start."""


def workers() -> int:
    """How many workers `-n auto` makes: two a core, since tests wait more than they compute, and at most eight.

    On services they are no more than PostgreSQL has connections for.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(2 * cores, 8, _connections() // CONNECTIONS))


def _connections() -> int:
    url = os.environ.get("DATABASE_URL", "sqlite")
    if url.startswith("sqlite"):
        return sys.maxsize
    with psycopg.connect(url) as connection:
        [most] = connection.execute("SHOW max_connections").fetchone() or ["0"]
        return int(most)


class Processor:
    """How much of its time is left over, by what Linux counts; nothing where nobody counts."""

    COUNTED = Path("/proc/stat")
    LOOKS = 10.0  # seconds from one to the next

    def __init__(self) -> None:
        self._seen, self._at = self._count(), time.monotonic()
        self._spare = 0.0

    def spare(self) -> float:
        """The share of its time in which it had nothing to do lately: 0 to 1."""
        if time.monotonic() - self._at > self.LOOKS:
            before, self._seen, self._at = self._seen, self._count(), time.monotonic()
            idle, whole = (now - then for now, then in zip(self._seen, before, strict=True))
            self._spare = idle / max(1, whole)
        return self._spare

    def _count(self) -> tuple[int, int]:
        """Ticks without work, and all of them, since the machine was started."""
        if not self.COUNTED.exists():
            return 0, 0
        user, nice, system, idle, waiting, *others = map(int, self.COUNTED.read_text().split("\n", 1)[0].split()[1:9])
        return idle + waiting, user + nice + system + idle + waiting + sum(others)


class Sharing(LoadScopeScheduling):
    """Gives out whole files: the longest first, those with browsers last, and to no more than the processor bears."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._browsing: set[WorkerController] = set()
        self._processor = Processor()

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Also offers what is left to those who were given nothing when they asked."""
        super().mark_test_complete(node, item_index, duration)
        for idle in set(self.nodes) - self._browsing - {node}:
            self._reschedule(idle)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self._put_in_order()
        if next(iter(self.workqueue)).startswith(LAST):
            self._browsing &= set(self.nodes)  # one that crashed has a successor
            if len(self._browsing - {node}) >= BROWSERS and self._processor.spare() < SPARE:
                self._browsing.discard(node)
                return
            self._browsing.add(node)
        super()._assign_work_unit(node)

    def _put_in_order(self) -> None:
        for beginning in reversed(LONGEST):
            for unit in [unit for unit in self.workqueue if unit.startswith(beginning)]:
                self.workqueue.move_to_end(unit, last=False)
        for unit in sorted((unit for unit in self.workqueue if unit.startswith(LAST)), key=_place):
            self.workqueue.move_to_end(unit)


def _place(unit: str) -> int:
    return next((place for place, beginning in enumerate(LONGEST) if unit.startswith(beginning)), len(LONGEST))
