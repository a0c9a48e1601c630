"""Which processes live: heartbeats, and what they say about the installation."""

from __future__ import annotations

import datetime
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from importlib.metadata import version
from typing import Any

from django.conf import settings
from django.db.models.functions import Now
from django.utils import timezone

from apps.engine.worker import Load
from apps.housekeeping.models import ServerProcess
from parley import db
from parley.db import sql
from parley.program import DISTRIBUTION

log = logging.getLogger("parley.housekeeping")

HEARTBEAT_SECONDS = 10.0
KEPT = datetime.timedelta(days=1)
NOT_SEEN = {
    ServerProcess.Kind.WORKER: "No worker was seen lately: agents' tasks wait.",
    ServerProcess.Kind.BEAT: "No beat was seen lately: periodic jobs do not run.",
}
_started_at = timezone.now()


_writes: set[Future[Any]] = set()


def write_later[**P](function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call `function` on a database thread, without waiting. What fails is written the next time."""

    def end(write: Future[Any]) -> None:
        _writes.discard(write)
        if not write.cancelled() and (error := write.exception()):
            log.warning("housekeeping could not be written down: %s", error)

    write = db.submit(function, *args, **kwargs)
    _writes.add(write)
    write.add_done_callback(end)


def finish_writing(seconds: float) -> None:
    """Wait for what `write_later` has begun."""
    wait(list(_writes), seconds)


def note_heartbeat(kind: ServerProcess.Kind, load: Load | None = None, due: Mapping[str, str] | None = None) -> None:
    """Write this process's row. The time is the database's, so that clocks need not agree."""
    load = load or Load(0, 0, 0)
    row = ServerProcess(
        kind=kind, host=socket.gethostname(), pid=os.getpid(), version=version(DISTRIBUTION), started_at=_started_at,
        seen_at=Now(), busy=load.busy, waiting=load.waiting, capacity=load.capacity, due=dict(due or {}),
    )  # fmt: skip
    changing = ["version", "started_at", "seen_at", "busy", "waiting", "capacity", "due"]
    ServerProcess.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=["kind", "host", "pid"], update_fields=changing
    )


def note_end() -> None:
    """Delete this process's rows, when it stops in good order."""
    ServerProcess.objects.filter(host=socket.gethostname(), pid=os.getpid()).delete()


def delete_gone() -> int:
    """Deletes the rows of processes that were not seen for a day."""
    return ServerProcess.objects.filter(seen_at__lt=sql.database_time() - KEPT).delete()[0]


def expected() -> dict[ServerProcess.Kind, int]:
    """How many processes of each kind there should be."""
    return {ServerProcess.Kind.WORKER: settings.EXPECTED_WORKERS, ServerProcess.Kind.BEAT: 1}


def missing(rows: Iterable[ServerProcess] | None = None) -> dict[ServerProcess.Kind, str]:
    """The kinds of process of which fewer than expected were seen lately, each with a sentence.

    `rows`: those that were seen, for callers that have read them.
    """
    rows = ServerProcess.objects.seen() if rows is None else rows
    seen = Counter(row.kind for row in rows)
    return {
        kind: f"{seen[kind]} of {count} {kind.label.lower()}s were seen lately." if seen[kind] else NOT_SEEN[kind]
        for kind, count in expected().items()
        if seen[kind] < count
    }


def next_runs() -> dict[str, datetime.datetime]:
    """When each periodic job is due next, as the beat that was seen last says."""
    beats = ServerProcess.objects.seen().filter(kind=ServerProcess.Kind.BEAT).order_by("-seen_at")
    due = beats.values_list("due", flat=True).first() or {}
    return {name: datetime.datetime.fromisoformat(at) for name, at in due.items()}
