"""Tasks that start when others end, and fail when one of those fails (docs/extensions/depends-on-v1.md).

Such a task is submitted. Its run waits, which no worker sees, until it has no `Dependency` left. After a crash, the
sweep finds what is due.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress

from django.db import transaction
from django.db.models import Q

from agentkit import Failed
from apps.engine import finish
from apps.engine.queue import publish
from apps.record import ledger
from apps.record.events import EventType
from apps.record.execution import Dependency, Run
from apps.record.models import TERMINAL_STATES, Context, Event, Task, TaskState
from parley import db

DEPENDENCY_FAILED = "dependency_failed"
TASKS_PER_SWEEP = 500
DUE = Q(on=None) | Q(on__state__in=TERMINAL_STATES) | Q(task__state__in=TERMINAL_STATES)


def wake_dependents(context: Context, events: Sequence[Event]) -> None:
    """A ledger listener: after the commit, settles the tasks that depend on tasks that ended."""
    changes = [event for event in events if event.type == EventType.AGENT_STATUS and event.task_id]
    ended = {event.task_id for event in changes if TaskState(event.payload["state"]).is_terminal}
    for task in ended:
        transaction.on_commit(lambda task=task: db.later(settle, Q(on=task)))  # type: ignore[misc]


def sweep() -> None:
    """Settle what a crash left."""
    settle(DUE)


def settle(which: Q) -> None:
    """Start, fail or forget those tasks with such a `Dependency` that no longer have to wait."""
    due = Dependency.objects.filter(DUE, which).order_by().values_list("task_id", "task__context_id").distinct()
    for task, context in due[:TASKS_PER_SWEEP]:
        with suppress(Context.DoesNotExist, Task.DoesNotExist):
            _settle(task, context)


def _settle(task_id: uuid.UUID, context: uuid.UUID) -> None:
    with ledger.writing(context) as log:
        task, own = log.task(task_id), Dependency.objects.filter(task=task_id)
        own.filter(on__state=TaskState.COMPLETED).delete()
        waiting = Run.objects.filter(task=task_id, state=Run.State.WAITING)
        failed = own.filter(Q(on=None) | Q(on__state__in=TERMINAL_STATES)).select_related("on__agent").first()
        has_ended, run = TaskState(task.state).is_terminal, None
        if has_ended or failed is not None:
            own.delete()
            waiting.update(state=Run.State.CANCELED, finished_at=log.now)
        elif not own.exists():
            run = waiting.values_list("pk", flat=True).first()
            waiting.update(state=Run.State.QUEUED, queued_at=log.now)
        if failed is not None and not has_ended:
            finish.fail_waiting(log, task, Failed(_sentence(failed), DEPENDENCY_FAILED))
    if run is not None:
        publish(run)


def _sentence(failed: Dependency) -> str:
    if failed.on is None:
        return "A task that this one depends on was deleted. Send the message again without it."
    return f"The task of {failed.on.agent.name} that this one depends on was not completed: it is {failed.on.state}."
