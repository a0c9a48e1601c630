"""How the workers of a parallel run share the tests out: by file, or by folder where files share something costly."""

from __future__ import annotations

import os
import sys

import psycopg
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TOGETHER = ("tests/browser/",)
"""Folders whose tests share what takes long to start: one worker has the whole folder."""

LONGEST = (
    "tests/docs/test_pages",
    "tests/faults/",
    "tests/browser/",
    "tests/serving/test_asking_from_a_terminal",
    "tests/benchmarks/",
)
"""What is begun first, in this order, so that nobody waits for it at the end."""


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


class Sharing(LoadScopeScheduling):
    """Gives out whole files or folders, the longest first, then those of many tests."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        for beginning in reversed(LONGEST):
            for unit in [unit for unit in self.workqueue if unit.startswith(beginning)]:
                self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)
