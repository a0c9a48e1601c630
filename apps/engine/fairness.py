"""Whose run is claimed next: workspaces take turns, and priorities count within a workspace.

A broker's message is worth one claim. Usually that is of the run it names. While runs wait longer than BEHIND_SECONDS,
the claim is of the run whose turn it is, so one workspace's thousand messages do not delay another's first. The
workspace with the fewest runs at work is next; of equal ones, the one that this process served longest ago. Within it:
the highest priority; of equal ones, its agents and keys take turns; then the oldest.

Where the number of runs at work is limited, the choice leaves out who has as many as they may. The end of a run there
is worth a claim too.

What a running turn waits for (`Priority.CONTINUED`) competes only by other such runs of its workspace, because the
turns that wait for it count as work too.
"""

from __future__ import annotations

import datetime
import itertools
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import connection

from apps.engine.claim import claim
from apps.engine.queue import Lane
from apps.engine.sql import QUEUE, RESERVE
from apps.engine.turns.assignment import Assignment
from apps.limits import current as limits
from apps.limits.current import Holder
from apps.limits.models import Kind, Whose
from apps.record.execution import Run
from parley.db.sql import CLOCK_SQL, Now, execute, uuid_from, write_transaction

BEHIND_SECONDS = 0.1
RESERVED_SECONDS = 5.0
HELD_SECONDS = 1.0  # for which a lane is passed over whose run cannot start
KEPT_SECONDS = 0.05  # what waits, because reading hundreds of lanes takes milliseconds
CHOICES = 5  # of a claim, before it takes the named run
REMEMBERED = 10_000  # workspaces and lanes


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits, and what is with workers.

    Attributes:
        heads: the highest priority of each lane with queued runs.
        busy: runs with workers, by lane and whether they continue a turn.
    """

    heads: dict[str, int]
    busy: Counter[tuple[str, bool]]

    @classmethod
    def read(cls) -> Waiting:
        """One query."""
        heads: dict[str, int] = {}
        busy: Counter[tuple[str, bool]] = Counter()
        for lane, priority, runs in execute(QUEUE.format(now=CLOCK_SQL[connection.vendor]), []).fetchall():
            if runs:
                busy[lane, priority == Run.Priority.CONTINUED] += runs
            else:
                heads[lane] = Run.Priority.CONTINUED if priority is None else priority
        return cls(heads, busy)


@dataclass
class Turns:
    """Whom this process has served, and whether its queue is behind. Any thread may use it."""

    is_behind: bool = False
    _served: dict[str | int, int] = field(default_factory=dict)
    _held: dict[str, float] = field(default_factory=dict)  # until when, by the monotonic clock
    _waiting: Waiting = field(default_factory=lambda: Waiting({}, Counter()))
    _kept_until: float = 0.0
    _count: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def claim(self, named: uuid.UUID | None, worker: str) -> Assignment | None:
        """Claim the named run, or the one whose turn it is. Returns None if there is none to be had."""
        if named and not self.is_behind and (assignment := claim(named, worker, self._is_turn)) is not None:
            return assignment
        for _ in range(CHOICES):
            if (chosen := self.choose()) is None:
                break
            run, lane = chosen
            if (assignment := claim(run, worker, self._is_reserved)) is not None:
                return assignment
            if Run.objects.filter(pk=run, state=Run.State.QUEUED).update(lease_until=None):
                self._held[lane] = time.monotonic() + HELD_SECONDS  # its agent is paused, or cannot run here
        return None if named is None else claim(named, worker, _is_free_and_unlimited)

    def choose(self) -> tuple[uuid.UUID, str] | None:
        """Reserve the run whose turn it is. Returns it with its lane; None if nothing waits."""
        if Kind.RUNNING in limits.snapshot().names:
            with _one_at_a_time():
                return self._reserve_of(Waiting.read())
        if time.monotonic() < self._kept_until and (chosen := self._reserve_of(self._waiting)):
            return chosen
        self._waiting = waiting = Waiting.read()
        self._kept_until = time.monotonic() + KEPT_SECONDS
        if (chosen := self._reserve_of(waiting)) is None:
            self.is_behind, self._kept_until = False, 0.0
        return chosen

    def _reserve_of(self, waiting: Waiting) -> tuple[uuid.UUID, str] | None:
        full = _full_holders(waiting)
        for lane in self._ordered(waiting):
            lowest = Run.Priority.CONTINUED if full & _holders(lane) else Run.Priority.LOW
            if waiting.heads[lane] <= lowest and (run := _reserve(lane, lowest)) is not None:
                waiting.busy[lane, waiting.heads[lane] == Run.Priority.CONTINUED] += 1
                self._note_served(lane)
                return run, lane
        return None

    def _ordered(self, waiting: Waiting) -> list[str]:
        busy: Counter[tuple[int, bool]] = Counter()
        for (lane, continues), runs in waiting.busy.items():
            busy[Lane.read(lane).workspace, continues] += runs

        def key(lane: str) -> tuple[int, int, int, int, str]:
            workspace, priority = Lane.read(lane).workspace, waiting.heads[lane]
            at_work = busy[workspace, True]
            if priority != Run.Priority.CONTINUED:
                at_work += busy[workspace, False]
            return at_work, self._served.get(workspace, 0), priority, self._served.get(lane, 0), lane

        now = time.monotonic()
        return sorted((lane for lane in waiting.heads if self._held.get(lane, 0.0) <= now), key=key)

    def _note_served(self, lane: str) -> None:
        with self._lock:
            if len(self._served) > REMEMBERED:
                self._served.clear()
            self._served[lane] = self._served[int(lane.partition(":")[0] or 0)] = next(self._count)

    def _is_turn(self, run: Run, now: datetime.datetime) -> bool:
        """May a message's own run be claimed without asking who else waits?"""
        if not _is_free_and_unlimited(run, now):
            return False
        if run.state == Run.State.QUEUED:
            self.is_behind = (now - run.queued_at).total_seconds() > BEHIND_SECONDS
            if self.is_behind:
                return False
            self._note_served(run.lane)
        return True

    def _is_reserved(self, run: Run, now: datetime.datetime) -> bool:
        """A run that `choose` gave may be claimed. Its wait says whether the queue is behind."""
        self.is_behind = (now - run.queued_at).total_seconds() > BEHIND_SECONDS
        return True


def _is_free_and_unlimited(run: Run, now: datetime.datetime) -> bool:
    """May it start whoever else is at work? No worker has it, and none is about to take it. A lost run is counted."""
    if run.state not in (Run.State.QUEUED, Run.State.RUNNING) or (run.lease_until and run.lease_until >= now):
        return False
    is_counted = run.state == Run.State.RUNNING or run.priority == Run.Priority.CONTINUED
    return is_counted or Kind.RUNNING not in limits.snapshot().names or not has_limit(run.lane)


def has_limit(lane: str) -> bool:
    """Is the number of runs at work limited in this lane? Then the end of one makes room for another."""
    workspace, agent, key = Lane.read(lane)
    return bool(limits.snapshot().limits(Kind.RUNNING, workspace, key, agent))


def _holders(lane: str) -> set[Holder]:
    workspace, agent, key = Lane.read(lane)
    return {Holder(Whose.WORKSPACE, workspace), Holder(Whose.AGENT, agent), Holder(Whose.KEY, key)}


def _full_holders(waiting: Waiting) -> set[Holder]:
    """Those with as many runs at work as they may have, without what continues others' turns."""
    known, busy = limits.snapshot(), Counter[Holder]()
    for (lane, continues), runs in waiting.busy.items():
        if not continues:
            for holder in _holders(lane):
                busy[holder] += runs
    return {one for one, runs in busy.items() if (most := known.of(one).get(Kind.RUNNING)) and runs >= most}


CHOICE_LOCK = 0x0FA1  # of PostgreSQL's advisory locks


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """A transaction in which no other worker chooses, so that no two fill the last place."""
    with write_transaction():
        if connection.vendor == "postgresql":
            execute("SELECT pg_advisory_xact_lock(%s)", [CHOICE_LOCK])
        yield


def _reserve(lane: str, lowest: Run.Priority) -> uuid.UUID | None:
    skip = "FOR UPDATE SKIP LOCKED" if connection.vendor == "postgresql" else ""
    now, until = Now().sql, Now(RESERVED_SECONDS).sql
    with write_transaction():
        row = execute(RESERVE.format(now=now, until=until, skip_locked=skip), [lane, int(lowest)]).fetchone()
    return uuid_from(row[0]) if row else None
