"""A task in time, as a picture: its states, and the runs in which somebody worked on it."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, cast

from django.db.models import F, Q

from apps.record.events import EventType
from apps.record.models import Event, Run, Task
from apps.web.templatetags.parley import STATES
from console.scales import Scale, lasted

MOST_CHANGES = 400  # changes of state and beginnings of turns that are drawn, the newest
MOST_RUNS = 200  # the newest

RUNS = {
    "queued": ("queued", "Waiting for a worker"),
    "running": ("working", "Running"),
    "done": ("done", "Ran"),
    "failed": ("failed", "Failed"),
    "canceled": ("canceled", "Stopped"),
}
"""How the state of a run looks, and what it is called."""


LOOKS = {**STATES, "submitted": ("queued", STATES["submitted"][1])}
"""The same for the states of a task: as a bar, one that waits to start is no work."""

TRIED_AGAIN = ("failed", "Broke off, and was tried again")
GIVEN_BACK = ("canceled", "Given back, and taken up again")

Change = dict[str, Any]


@dataclass(slots=True)
class Spell:
    """A task in one state, or a run in the queue or at work, from when to when (None: still)."""

    look: str
    word: str
    begins: datetime.datetime
    ends: datetime.datetime | None
    anchor: str  # the row of the table that says the same
    label: str = ""
    more: str = ""
    left: float = 0.0
    width: float = 0.0

    @property
    def took(self) -> str:
        return lasted(self.ends - self.begins) if self.ends else "still going on"

    @property
    def words(self) -> str:
        """For who cannot see the picture, or points at it."""
        return ", ".join(filter(None, [self.label, self.word, self.took, self.more]))


@dataclass(frozen=True, slots=True)
class ToldRun:
    """A run as a row of a table."""

    anchor: str
    turn: int
    word: str
    attempts: int
    queued_at: datetime.datetime
    waited: str
    ran: str
    worker: str


@dataclass(slots=True)
class Timeline:
    states: list[Spell] = field(default_factory=list)
    queued: list[Spell] = field(default_factory=list)
    worked: list[Spell] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    cuts: list[tuple[float, str]] = field(default_factory=list)
    begins: datetime.datetime | None = None
    ends: datetime.datetime | None = None
    is_cut_off: bool = False  # only the newest of it is drawn

    @property
    def took(self) -> str:
        return lasted(self.ends - self.begins) if self.begins and self.ends else ""

    @property
    def said(self) -> str:
        """All states in one line."""
        return ", ".join(one.words for one in self.states)

    @property
    def told_runs(self) -> list[ToldRun]:
        return [_told(run) for run in self.runs]

    @property
    def version(self) -> int | None:
        """The number of the version of its agent that the newest turn went by, if one began."""
        return next((run.version for run in reversed(self.runs) if run.version), None)  # type: ignore[attr-defined]

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Each look that is in the picture, with its word."""
        return list(dict.fromkeys((one.look, one.word) for one in [*self.states, *self.queued, *self.worked]))


def timeline_of(task: Task, now: datetime.datetime) -> Timeline:
    """Two queries, however much happened."""
    changes = _changes(task)
    by_version = Run.objects.filter(task=task).defer("input", "memory").annotate(version=F("input__agent__number"))
    runs = list(by_version.order_by("-turn")[:MOST_RUNS])[::-1]
    is_cut_off = len(changes) == MOST_CHANGES or len(runs) == MOST_RUNS
    begins = changes[0]["at"] if is_cut_off else task.created_at
    ends = max([task.status_at, *(run.finished_at for run in runs if run.finished_at)]) if task.is_finished else now
    span = (begins, max(begins, ends))
    scale = Scale(span, [(run.queued_at, run.finished_at or span[1]) for run in runs])
    timeline = Timeline(
        states=_states(task, changes, begins),
        queued=[_queued(run) for run in runs],
        worked=_attempts(runs, changes),
        runs=runs,
        cuts=[(round(one.cut_at, 2), lasted(one.ends - one.begins)) for one in scale.stretches if one.is_cut],
        begins=span[0],
        ends=span[1],
        is_cut_off=is_cut_off,
    )
    for spell in (*timeline.states, *timeline.queued, *timeline.worked):
        spell.left, spell.width = scale.bar(spell.begins, spell.ends or span[1])
    return timeline


def _changes(task: Task) -> list[Change]:
    """The newest changes of state and beginnings of turns, oldest first: progress is neither."""
    changed = Q(type=EventType.AGENT_STATUS) & ~Q(payload__has_key="progress") & ~Q(payload__has_key="kept")
    found = Event.objects.filter(changed | Q(type=EventType.AGENT_START), task=task).order_by("-index")
    told = found.values("index", "type", "at", "run", "payload__state", "payload__attempt", "payload__again")
    return cast("list[Change]", list(told[:MOST_CHANGES])[::-1])


def _states(task: Task, changes: list[Change], begins: datetime.datetime) -> list[Spell]:
    """How long the task was in each state; a state that follows itself is one spell."""
    known: list[tuple[str, datetime.datetime, int]] = []
    if begins == task.created_at:
        known.append(("submitted", task.created_at, task.first_event))
    for change in changes:
        state = change["payload__state"]
        if change["type"] == EventType.AGENT_STATUS and not (known and known[-1][0] == state):
            known.append((state, change["at"], change["index"]))
    ends = [at for _, at, _ in known[1:]] + ([task.status_at] if task.is_finished else [None])
    return [
        Spell(*LOOKS[state], begins=at, ends=end, anchor=f"state-{index}")
        for (state, at, index), end in zip(known, ends, strict=True)
    ]


def _queued(run: Run) -> Spell:
    """When a run waited for a worker."""
    ends = run.started_at or run.finished_at
    return Spell(*RUNS["queued"], begins=run.queued_at, ends=ends, anchor=f"turn-{run.turn}", label=f"Turn {run.turn}")


def _attempts(runs: list[Run], changes: list[Change]) -> list[Spell]:
    """When each run was worked on: once for each time it was begun."""
    starts: dict[uuid.UUID, list[Change]] = defaultdict(list)
    for change in changes:
        if change["type"] == EventType.AGENT_START and change["run"]:
            starts[change["run"]].append(change)
    return [spell for run in runs if run.started_at for spell in _attempts_of(run, starts[run.pk][1:])]


def _attempts_of(run: Run, later: list[Change]) -> list[Spell]:
    """`later`: how it was begun anew. Only the newest worker is known."""
    label, anchor = f"Turn {run.turn}", f"turn-{run.turn}"
    begins, spells = run.started_at or run.queued_at, []
    for number, start in enumerate(later, 1):
        look = GIVEN_BACK if start["payload__again"] else TRIED_AGAIN
        spells.append(Spell(*look, begins=begins, ends=start["at"], anchor=anchor, label=f"{label}, attempt {number}"))
        begins = start["at"]
    label += f", attempt {len(later) + 1}" if later else ""
    where = f"on {run.worker}" if run.worker else ""
    spells.append(Spell(*RUNS[run.state], begins=begins, ends=run.finished_at, anchor=anchor, label=label, more=where))
    return spells


def _told(run: Run) -> ToldRun:
    taken = run.started_at or run.finished_at
    ended = run.finished_at
    return ToldRun(
        anchor=f"turn-{run.turn}",
        turn=run.turn,
        word=RUNS[run.state][1],
        attempts=run.attempt,
        queued_at=run.queued_at,
        waited=lasted(taken - run.queued_at) if taken else "still waiting",
        ran=lasted(ended - run.started_at) if ended and run.started_at else "still running" if run.started_at else "–",
        worker=run.worker,
    )
