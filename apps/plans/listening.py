"""A ledger listener: in the transaction of the event that ends or interrupts the task of a step, its row is marked.

The row is the work to be done: who looks at the run finds it there. Neither the run nor the plan's context is locked.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

import db
from apps.plans import looking
from apps.plans.models import PlanRun, Step, StepQuerySet
from apps.record.events import EventType
from apps.record.lifecycle import TaskState
from apps.record.models import Context, Event
from db import statements
from db.selections import Selection

State, Phase = Step.State, Step.Phase
MOVING = (State.RUNNING, State.ASKING)
RUN = Selection(lambda key: PlanRun.objects.only("finished_at").filter(pk=key), uuid.UUID(int=0))
STEPS = Selection(
    lambda task, consulted: Step.objects.only("run", "state", "phase", "task", "consulted").filter(
        Q(task=task) | Q(consulted=consulted)
    ),
    uuid.UUID(int=0),
    uuid.UUID(int=1),
)


def tell_plans(context: Context, events: Sequence[Event]) -> None:
    """Mark the steps whose tasks moved, and have their runs looked at after the commit; so also where a plan ended."""
    states = {
        event.task_id: TaskState(event.payload["state"])
        for event in events
        if event.type == EventType.AGENT_STATUS and event.task_id and "kept" not in event.payload
    }
    runs: set[uuid.UUID] = set()
    for task, state in states.items():
        runs.update(_mark(task, state))
        if state.is_terminal and (own := RUN.one(task)) is not None and own.finished_at is None:
            runs.add(task)
    for run in runs:
        transaction.on_commit(partial(db.later, looking.look_soon, run))


def _mark(task: uuid.UUID, state: TaskState) -> set[uuid.UUID]:
    """Mark the steps that a task works for; gives the runs that are to be looked at."""
    found = [step for step in STEPS.all(task, task) if step.state in MOVING and step.worked_at_by == task]
    if not state.is_settled:
        if any(step.state == State.ASKING for step in found):
            went_on = {"due_at": F("due_at") + (Now() - F("asked_at")), "asked_at": None}  # waiting is not counted
            _moving(found, task).filter(state=State.ASKING).update(state=State.RUNNING, **went_on)
        return set()
    if found and state.is_interrupted:  # whoever is to answer has no questions to ask
        _moving(found, task).filter(phase=Phase.ANSWERING).update(state=State.ENDED)
        _moving(found, task).update(state=State.ASKING, asked_at=Now())
    elif found and not (len(found) == 1 and _end(found[0])):
        _moving(found, task).update(state=State.ENDED)
    return {step.run_id for step in found}


def _moving(found: list[Step], task: uuid.UUID) -> StepQuerySet:
    """Those of these steps that the task works for at this moment."""
    works = Q(phase=Phase.WORK, task=task) | ~Q(phase=Phase.WORK) & Q(consulted=task)
    return Step.objects.filter(works, pk__in=[step.pk for step in found], state__in=MOVING)


def _end(step: Step) -> bool:
    """Mark a step whose task has ended; False where it has moved since it was read."""
    worker = "task" if step.phase == Phase.WORK else "consulted"
    as_read = {"id": step.pk, "state": step.state, "phase": step.phase, worker: step.worked_at_by}
    return bool(statements.update(Step, as_read, {"state": State.ENDED}))
