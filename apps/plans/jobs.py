"""Schedules ticks of plan runs when a task changes.

A ledger listener marks the affected steps in the transaction of the event. After the commit their runs get a tick: in
this process if it is a worker, else in a Celery task. The sweep finds runs whose tick was lost. The listener
locks neither the run nor the plan's context.
"""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from celery.signals import worker_shutdown
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from apps.plans.models import GivenAnswer, PlanRun, Step, StepQuerySet
from apps.plans.running import engine
from apps.plans.sql import RUNNING_PLAN, STEPS_OF_TASK
from apps.record.events import EventType
from apps.record.execution import Accepted
from apps.record.models import INTERRUPTED_STATES, TERMINAL_STATES, Context, Event, TaskState
from parley import db
from parley.db import sql
from parley.db.threads import Singleton
from parley.work import WorkList
from parley.work.running import do_soon

State, Phase = Step.State, Step.Phase
MOVING = (State.RUNNING, State.ASKING)


def mark_steps(context: Context, events: Sequence[Event]) -> None:
    """Mark the steps whose tasks changed, and tick their runs and the runs that ended."""
    states = {
        event.task_id: TaskState(event.payload["state"])
        for event in events
        if event.type == EventType.AGENT_STATUS and event.task_id and "kept" not in event.payload
    }
    runs = _note_answers(events)
    for task, state in states.items():
        runs.update(_mark_steps_of(task, state))
        if state.is_terminal and RUNNING_PLAN.one(task) is not None:
            runs.add(task)
    for run in runs:
        transaction.on_commit(partial(db.later, tick_soon, run))


def _note_answers(events: Sequence[Event]) -> set[uuid.UUID]:
    """Note answers to steps that came neither from nor through their runs; those runs' logs are to have them too."""
    runs: set[uuid.UUID] = set()
    for event in events:
        if event.type != EventType.USER_MESSAGE or event.task_id is None or "task" in event.payload:
            continue
        message_id = event.payload["message"]["messageId"]
        for step in STEPS_OF_TASK.all(event.task_id, event.task_id):
            asks = step.state == State.ASKING and step.worked_at_by == event.task_id
            is_answered_by_agent = step.phase == Phase.ANSWERING and step.task_id == event.task_id
            forwarded = Accepted.objects.filter(sender=f"task:{step.run_id}", message_id=message_id, task=event.task_id)
            if (asks or is_answered_by_agent) and not forwarded.exists():
                GivenAnswer.objects.create(run_id=step.run_id, task_id=event.task_id, index=event.index)
                runs.add(step.run_id)
    return runs


def _mark_steps_of(task: uuid.UUID, state: TaskState) -> set[uuid.UUID]:
    found = [step for step in STEPS_OF_TASK.all(task, task) if step.state in MOVING and step.worked_at_by == task]
    if not state.is_settled:
        if any(step.state == State.ASKING for step in found):
            resumed = {"due_at": F("due_at") + (Now() - F("asked_at")), "asked_at": None}  # waiting does not count
            _steps_worked_at_by(found, task).filter(state=State.ASKING).update(state=State.RUNNING, **resumed)
        return set()
    if found and state.is_interrupted:  # an answering agent must not ask questions
        _steps_worked_at_by(found, task).filter(phase=Phase.ANSWERING).update(state=State.ENDED)
        _steps_worked_at_by(found, task).update(state=State.ASKING, asked_at=Now())
    elif found and not (len(found) == 1 and _mark_ended(found[0])):
        _steps_worked_at_by(found, task).update(state=State.ENDED)
    return {step.run_id for step in found}


def _steps_worked_at_by(found: list[Step], task: uuid.UUID) -> StepQuerySet:
    works = Q(phase=Phase.WORK, task=task) | ~Q(phase=Phase.WORK) & Q(consulted=task)
    return Step.objects.filter(works, pk__in=[step.pk for step in found], state__in=MOVING)


def _mark_ended(step: Step) -> bool:
    """One statement; False if the step has changed since it was read."""
    worker = "task" if step.phase == Phase.WORK else "consulted"
    as_read = {"id": step.pk, "state": step.state, "phase": step.phase, worker: step.worked_at_by}
    return bool(sql.update(Step, as_read, {"state": State.ENDED}))


TICK_THREADS = 4  # per process; a tick mostly waits for the database
_threads = Singleton(lambda: db.DatabaseThreads(TICK_THREADS, "plans", share=TICK_THREADS))


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def stop_threads(**_: Any) -> None:
    """Finish the current ticks; the sweep finds the runs that wait."""
    if (threads := _threads.take()) is not None:
        threads.shutdown()


async def tick(run: uuid.UUID) -> None:
    """Moves a run of a plan on."""
    await asyncio.get_running_loop().run_in_executor(_threads.get(), db.with_database, engine.advance, run)


def tick_soon(run: uuid.UUID) -> None:
    """Tick a run, after the commit. In a worker it needs no message, and the ticks that come meanwhile become one."""
    do_soon(RUNS_TO_ADVANCE, run)


def due_runs() -> QuerySet[PlanRun, uuid.UUID]:
    """Runs of plans that are due and that nobody has moved."""
    now = sql.database_time()
    long_ago = now - datetime.timedelta(seconds=settings.SWEEP_SECONDS)
    _mark_missed_moves()
    steps = Step.objects.filter(run=OuterRef("pk"))
    to_do = steps.filter(Q(state__in=(State.ENDED, State.FAILED)) | Q(state=State.STARTING, due_at__lt=now))
    is_idle = ~Exists(steps.filter(state__in=Step.ACTIVE))
    is_done = ~Exists(steps.open())
    overdue = steps.filter(state=State.RUNNING, due_at__lt=now)
    is_stale = Q(advanced_at=None) | Q(advanced_at__lt=long_ago)
    asks = Exists(steps.filter(state=State.ASKING)) & Q(task__state=TaskState.WORKING)
    is_startable = Q(advanced_at=None) | Q(paused_at=None) & is_idle
    due = is_stale & (Exists(to_do) | asks | is_startable | is_done | Q(task__state__in=TERMINAL_STATES))
    has_answers = Exists(GivenAnswer.objects.filter(run=OuterRef("pk")))
    is_report_due = Q(told=engine.REPORT_PENDING, told_at__lt=now - engine.REPORT_INTERVAL)
    found = PlanRun.objects.unfinished().filter(due | Exists(overdue) | has_answers | is_report_due)
    return found.order_by("advanced_at").values_list("pk", flat=True)


RUNS_TO_ADVANCE = WorkList("plan_runs", "plans.advance", tick, PlanRun, due=due_runs, at_once=TICK_THREADS)


def _mark_missed_moves() -> None:
    """Mark steps whose tasks changed during a phase change, or were deleted."""
    moving = Step.objects.filter(run__finished_at=None, state__in=(State.RUNNING, State.ASKING))
    is_lost = Q(phase=Phase.WORK, task=None) | ~Q(phase=Phase.WORK) & Q(consulted=None)
    moving.filter(is_lost | _task_is_in(TERMINAL_STATES)).update(state=State.ENDED)
    asks = moving.filter(_task_is_in(INTERRUPTED_STATES), state=State.RUNNING).exclude(phase=Phase.ANSWERING)
    asks.update(state=State.ASKING, asked_at=Now())
    goes_on = moving.filter(_task_is_in([TaskState.WORKING]), state=State.ASKING)
    goes_on.update(state=State.RUNNING, asked_at=None)


def _task_is_in(states: Collection[TaskState]) -> Q:
    consulted = ~Q(phase=Phase.WORK) & Q(consulted__state__in=states)
    return Q(phase=Phase.WORK, task__state__in=states) | consulted
