"""How the workers of a parallel run share the tests out: by file."""

from __future__ import annotations

import os
import sys
from typing import Any

import psycopg
import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


LAST = "tests/browser/"
"""What is tried when nearly nothing else runs: pages on a busy machine are late, and browsers make it busier."""


BROWSERS = cores() + 1
"""How many workers try pages: each has a Parley and a Chromium of its own, and waits for them half of the time."""

LONGEST = (
    "tests/docs/test_pages",
    "tests/faults/",
    "tests/serving/test_asking_from_a_terminal",
    "tests/benchmarks/",
    "tests/browser/test_hostile",
)
"""What is begun first, in this order, so that nobody waits for it at the end."""


CONNECTIONS = 45
"""What one worker may take of PostgreSQL's, with the whole Parleys that its tests start."""


def workers() -> int:
    """How many workers `-n auto` makes: two a core, since tests wait more than they compute, and at most eight.

    On services they are no more than PostgreSQL has connections for.
    """
    return max(1, min(2 * cores(), 8, _connections() // CONNECTIONS))


def _connections() -> int:
    url = os.environ.get("DATABASE_URL", "sqlite")
    if url.startswith("sqlite"):
        return sys.maxsize
    with psycopg.connect(url) as connection:
        [most] = connection.execute("SHOW max_connections").fetchone() or ["0"]
        return int(most)


class Sharing(LoadScopeScheduling):
    """Gives out whole files: the longest first, those with browsers last and to few."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._browsing: set[WorkerController] = set()

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        self._put_in_order()
        if next(iter(self.workqueue)).startswith(LAST):
            self._browsing &= set(self.nodes)  # one that crashed has a successor
            if node not in self._browsing and len(self._browsing) == BROWSERS:
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
