"""Whose run is claimed next: workspaces take turns, and priorities count within a workspace.

A broker's message is worth one claim. Usually that is of the run it names. While runs wait longer than BEHIND_SECONDS,
the claim is of the run whose turn it is, so one workspace's thousand messages do not delay another's first. The
workspace with the fewest runs at work is next; of equal ones, the one that has waited longest since this process served
it. Within it: the highest priority; of equal ones, its agents and keys take turns; then the oldest.

A choice looks at LANES_AT_ONCE lanes, each of a workspace, an agent and a key, and at the next ones KEPT_SECONDS later.
So a workspace with thousands of lanes can delay another's first by seconds.

Where the number of runs at work is limited, the choice leaves out who has as many as they may. The end of a run there
is worth a claim too.

What a running turn waits for (`Priority.CONTINUED`) competes only by other such runs of its workspace, because the
turns that wait for it count as work too.
"""

from __future__ import annotations

import datetime
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db import connection

from apps.engine.claim import claim
from apps.engine.queue import Lane
from apps.engine.sql import QUEUE, RESERVE
from apps.engine.turns.assignment import Assignment
from apps.limits import current as limits
from apps.limits.current import Holder
from apps.limits.models import Kind, Whose
from apps.record.execution import Run
from parley.db.sql import CLOCK_SQL, Now, corrected_time, execute, time_from, uuid_from, write_transaction

BEHIND_SECONDS = 0.1
RESERVED_SECONDS = 5.0
HELD_SECONDS = 1.0  # for which a lane is passed over whose run cannot start
KEPT_SECONDS = 0.05  # what waits, because reading it takes milliseconds
LANES_AT_ONCE = 64
LONG_AGO = datetime.datetime.fromtimestamp(0, datetime.UTC)
READINGS = 20  # of what waits, while others take it
CHOICES = 5  # of a claim, before it takes the named run
REMEMBERED = 10_000  # workspaces and lanes


class Head(NamedTuple):
    """What is first in a lane: the highest priority, and since when such a run waits."""

    workspace: int
    priority: int
    since: datetime.datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits in some lanes, and what is with workers.

    Attributes:
        heads: of the lanes with queued runs that no worker is about to take.
        busy: runs with workers, by lane and whether they continue a turn.
        following: the lane after which to read next; "" if these were the last ones.
    """

    heads: dict[str, Head]
    busy: Counter[tuple[str, bool]]
    following: str = ""

    @classmethod
    def read(cls, after: str = "") -> Waiting:
        """LANES_AT_ONCE lanes after this one. One query, whose cost does not grow with what waits."""
        heads: dict[str, Head] = {}
        busy: Counter[tuple[str, bool]] = Counter()
        lanes: list[str] = []
        rows = execute(QUEUE.format(now=CLOCK_SQL[connection.vendor]), [after, LANES_AT_ONCE]).fetchall()
        for lane, priority, runs, since in rows:
            if runs:
                busy[lane, priority == Run.Priority.CONTINUED] += runs
                continue
            lanes.append(lane)
            if priority is not None:
                heads[lane] = Head(Lane.read(lane).workspace, priority, time_from(since))
        return cls(heads, busy, lanes[-1] if len(lanes) == LANES_AT_ONCE else "")

    def work_of_workspaces(self) -> Counter[tuple[int, bool]]:
        """`busy` by workspace."""
        found: Counter[tuple[int, bool]] = Counter()
        for (lane, continues), runs in self.busy.items():
            found[Lane.read(lane).workspace, continues] += runs
        return found


@dataclass
class Turns:
    """Whom this process has served, and whether its queue is behind. Any thread may use it."""

    is_behind: bool = False
    _served: dict[str | int, datetime.datetime] = field(default_factory=dict)
    _held: dict[str, float] = field(default_factory=dict)  # until when, by the monotonic clock
    _waiting: Waiting = field(default_factory=lambda: Waiting({}, Counter()))
    _kept_until: float = 0.0
    _after: str = ""  # the lane after which to read next
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
                return next(filter(None, map(self._reserve_of, self._read_all())), None)
        if time.monotonic() < self._kept_until and (chosen := self._reserve_of(self._waiting)):
            return chosen
        for _ in range(READINGS):
            is_taken = False
            for waiting in self._read_all():
                found = len(waiting.heads)
                self._waiting, self._kept_until = waiting, time.monotonic() + KEPT_SECONDS
                if (chosen := self._reserve_of(waiting)) is not None:
                    return chosen
                is_taken |= len(waiting.heads) < found
            if not is_taken:
                break
            # Others took what was found. They may have done so by a message of what came since, which now has none.
        self.is_behind, self._kept_until = False, 0.0
        return None

    def _read_all(self) -> Iterator[Waiting]:
        """What waits, some lanes at a time: from where the last reading ended, then from the beginning."""
        for after in [self._after, ""] if self._after else [""]:
            following = after
            while True:
                waiting = Waiting.read(following)
                self._after = following = waiting.following
                yield waiting
                if not following:
                    break

    def _reserve_of(self, waiting: Waiting) -> tuple[uuid.UUID, str] | None:
        full = _full_holders(waiting) if Kind.RUNNING in limits.snapshot().names else set()
        while (lane := self._next_lane(waiting, full)) is not None:
            lowest = Run.Priority.CONTINUED if full & _holders(lane) else Run.Priority.LOW
            if (run := _reserve(lane, lowest)) is not None:
                return run, lane
            with self._lock:
                waiting.heads.pop(lane, None)  # others have taken what waited there
        return None

    def _next_lane(self, waiting: Waiting, full: set[Holder]) -> str | None:
        """The lane whose turn it is. It counts as served, so that another thread takes the next one."""
        with self._lock:
            at_work, now = waiting.work_of_workspaces(), time.monotonic()
            oldest: dict[int, datetime.datetime] = {}
            for head in waiting.heads.values():
                oldest[head.workspace] = min(head.since, oldest.get(head.workspace, head.since))

            def key(lane: str) -> tuple[int, datetime.datetime, int, datetime.datetime]:
                workspace, priority, since = waiting.heads[lane]
                runs = at_work[workspace, True]
                if priority != Run.Priority.CONTINUED:
                    runs += at_work[workspace, False]
                turn = max(oldest[workspace], self._served.get(workspace, LONG_AGO))
                return runs, turn, priority, max(since, self._served.get(lane, LONG_AGO))

            lanes = [
                lane
                for lane, head in waiting.heads.items()
                if self._held.get(lane, 0.0) <= now
                and (head.priority == Run.Priority.CONTINUED or not full & _holders(lane))
            ]
            chosen = min(lanes, key=key, default=None)
            if chosen is not None:
                waiting.busy[chosen, waiting.heads[chosen].priority == Run.Priority.CONTINUED] += 1
                self._note_served(chosen)
        return chosen

    def _note_served(self, lane: str) -> None:
        """The caller holds the lock."""
        if len(self._served) > REMEMBERED:
            self._served.clear()
        self._served[lane] = self._served[Lane.read(lane).workspace] = corrected_time()

    def _is_turn(self, run: Run, now: datetime.datetime) -> bool:
        """May a message's own run be claimed without asking who else waits?"""
        if not _is_free_and_unlimited(run, now):
            return False
        if run.state == Run.State.QUEUED:
            self.is_behind = (now - run.queued_at).total_seconds() > BEHIND_SECONDS
            if self.is_behind:
                return False
            with self._lock:
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
