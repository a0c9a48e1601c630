"""A task whose child asks for something asks for the same, and goes on when the child does, whoever saw to that.

A child's context and its parent's are never locked together: the parent is told after the child's commit, and the sweep
finds those that nobody told.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress

from django.db import transaction
from django.db.models import F, Q

import db
from apps.engine import canceling
from apps.engine.resuming import resume
from apps.record.errors import TaskNotCancelable, TaskNotFound
from apps.record.events import EventType
from apps.record.lifecycle import INTERRUPTED, TERMINAL
from apps.record.models import Context, Event, Run, Suspension, Task
from db.selections import Selection

AT_ONCE = 500
SUSPENDED = Selection(lambda child: Suspension.objects.only("pk").filter(child=child)[:1], uuid.UUID(int=0))
BECAUSE = "The agent that had asked goes on."


def watch(child: uuid.UUID) -> None:
    """Have `tell_parents` called when the child moves."""
    Context.objects.filter(tasks=child, is_watched=False).update(is_watched=True)


def tell_parents(context: Context, events: Sequence[Event]) -> None:
    """A ledger listener: a child that goes on, or ends, takes its parent along, after the commit."""
    if context.parent_task is None:
        return
    moved = {event.task_id for event in events if event.type == EventType.AGENT_STATUS and event.task_id}
    for task in moved:
        transaction.on_commit(lambda task=task: db.later(_take_along_with, task))  # type: ignore[misc]


def _take_along_with(child: uuid.UUID) -> None:
    if SUSPENDED.one(child) is not None:
        take_along(Q(child=child))


def take_along(which: Q) -> int:
    """Let those of these suspended tasks go on whose child asks that no longer; gives how many did."""
    asks_still = Q(child__state__in=INTERRUPTED, child__status_at=F("asked_at"))
    gone_on = Q(child=None) | ~asks_still
    waiting = Suspension.objects.filter(which, gone_on, task__state__in=INTERRUPTED)
    went = 0
    for suspension in waiting.select_related("task")[:AT_ONCE]:
        asking = (suspension.task.slot or {}).get("child")
        if asking and (suspension.child_id is None or asking == str(suspension.child_id)):
            went += resume(suspension.task_id, because=BECAUSE)
        else:
            suspension.delete()  # it is of an earlier question; now the task asks one of its own
    return went


def sweep() -> None:
    """Find what a crash left: suspended tasks that nobody told, and children of tasks that have ended."""
    take_along(Q())
    Suspension.objects.filter(task__state__in=TERMINAL).delete()
    orphans = Task.objects.unfinished().filter(parent__isnull=False, parent__state__in=TERMINAL)
    for child in orphans.select_related("context")[:AT_ONCE]:
        with suppress(TaskNotCancelable, TaskNotFound):
            canceling.cancel_found(child)


def is_taken_again(run: Run) -> bool:
    """Does the run take a turn again that a child's question had ended?"""
    return bool(run.slot and run.slot.get("child"))


def asked_by(run: Run) -> uuid.UUID | None:
    """The child to which the message of the run is the answer, if it is one."""
    return uuid.UUID(run.slot["child"]) if run.slot and is_taken_again(run) and not run.resumed else None


def original_of(run: Run) -> Run:
    """The run whose turn is taken again: the handler is given what that was given. Its `message` is loaded."""
    earlier = Run.objects.filter(task=run.task_id, turn__lt=run.turn).select_related("message").order_by("-turn")
    return next(one for one in earlier if not is_taken_again(one))
