"""When each attempt at a step waited for its agent, was worked at, and asked: read from the tasks that it became."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from django.db.models import Q

from apps.plans.models import PlanRun, Step
from apps.plans.pictures.gantt import Spell
from apps.record.events import EventType
from apps.record.lifecycle import TaskState
from apps.record.models import Accepted, Event

MOST = 400  # tasks of a run; of one with more, each step is one bar

ENDS = {
    TaskState.COMPLETED: Step.State.DONE,
    TaskState.FAILED: Step.State.FAILED,
    TaskState.REJECTED: Step.State.FAILED,
    TaskState.CANCELED: Step.State.CANCELED,
}

type Place = tuple[str, int]
"""The key of a step, and which element of a fan-out it is; -1: of none."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task that a step became: to do its work, or to ask somebody about it (`is_work` False)."""

    task: uuid.UUID
    place: Place
    number: int
    is_work: bool
    state: TaskState
    begun: datetime.datetime


def attempts_of(run: PlanRun) -> dict[Place, list[Spell]]:
    """The spells of each step, in the order of time; empty for a run of more tasks than MOST. Two queries."""
    found = list(_attempts(run))
    if len(found) > MOST:
        return {}
    changes: dict[uuid.UUID, list[tuple[str, datetime.datetime]]] = defaultdict(list)
    told = Q(payload__has_key="progress") | Q(payload__has_key="kept")
    changed = Event.objects.filter(task__in=[one.task for one in found], type=EventType.AGENT_STATUS).exclude(told)
    for task, state, at in changed.order_by("index").values_list("task", "payload__state", "at"):
        changes[task].append((state, at))
    spells: dict[Place, list[Spell]] = defaultdict(list)
    for one in found:
        spells[one.place] += _spells(one, changes[one.task])
    return spells


def _attempts(run: PlanRun) -> Iterator[Attempt]:
    """By the ids of the messages that made them, which name step, element, round and attempt."""
    sent = Accepted.objects.filter(sender=f"task:{run.pk}", task__parent=run.pk).order_by("task__created_at", "pk")
    rows = sent.values_list("message_id", "task", "task__state", "task__created_at")
    for message_id, task, state, begun in rows[: MOST + 1]:
        match message_id.split(":"):
            case [_, "answer"] | [_, _, _, _, "answered", _]:
                continue  # to a task that asked
            case [key, item, round_, attempt, *about]:
                number = max(int(round_), int(attempt))
                yield Attempt(task, (key, int(item)), number, not about, TaskState(state), begun)


def _spells(attempt: Attempt, changes: list[tuple[str, datetime.datetime]]) -> Iterator[Spell]:
    """What was worked at has the state in which it ended."""
    stretches = [(TaskState.SUBMITTED.value, attempt.begun), *changes]
    worked = ENDS.get(attempt.state, Step.State.RUNNING)
    names = {TaskState.SUBMITTED: Step.State.WAITING, TaskState.WORKING: worked}
    for (state, begins), (_, ends) in pairwise([*stretches, ("", None)]):
        if begins is None or TaskState(state).is_terminal:
            continue
        name = names.get(TaskState(state), Step.State.ASKING)
        if attempt.is_work or name == Step.State.ASKING:
            yield Spell(name, begins, ends, attempt.number)
