"""Stops work: cancels a task and its children, or lets them end after their steps."""

import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from django.db import transaction

from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.agents.models import Agent
from apps.record import ledger, runs
from apps.record.errors import TaskNotCancelable, TaskNotFound, UnsupportedOperation
from apps.record.events import EventType
from apps.record.execution import Run, Withheld
from apps.record.ledger import Ledger
from apps.record.models import Context, Task, TaskState
from apps.record.reading import lookup, notifications
from parley.telemetry import metrics

Check = Callable[[Ledger, uuid.UUID], None]
"""Refuses to cancel a task, under the lock of its context."""


def cancel_by_id(principal: Principal, agent: Agent, task_id: str, check: Check | None = None) -> uuid.UUID:
    """Cancel the caller's task and return its id. Does nothing if it is canceled already.

    Raises TaskNotFound, TaskNotCancelable, and what `check` raises.
    """
    task = lookup.find_seen_task(principal, agent, task_id)
    cancel_for(principal, task, check)
    return task.pk


def cancel_for(principal: Principal, task: Task, check: Check | None = None) -> None:
    """Cancel a task, with its context, that the caller sees: their own, or one of their session.

    Raises NotYourTask, TaskNotFound, TaskNotCancelable.
    """
    _check_is_theirs(task, principal)
    cancel_task(task, check)


def _check_is_theirs(task: Task, principal: Principal) -> None:
    """Raises NotYourTask."""
    if principal.user_id not in (task.owner_id, task.context.owner_id):
        raise lookup.NotYourTask("Only the person who began this task, or the session's owner, can cancel it.")


def cancel_task(task: Task, check: Check | None = None) -> None:
    """Cancel a task and its children.

    Raises TaskNotFound, and TaskNotCancelable, which leaves a note in the last run.
    """
    try:
        _record_and_stop(task, check)
    except TaskNotCancelable:
        runs.add_late_note(task.pk, "A cancel came after the task had ended.")
        raise
    except Context.DoesNotExist:
        raise TaskNotFound from None
    cancel_children(task.pk)


def cancel_children(parent: uuid.UUID) -> None:
    """Cancel a task's unfinished children, recursively."""
    for child in Task.objects.unfinished().select_related("context").filter(parent=parent):
        with suppress(TaskNotCancelable, TaskNotFound):
            cancel_task(child)


def _record_and_stop(task: Task, check: Check | None = None) -> None:
    with ledger.writing(task.context_id) as log:
        if check is not None:
            check(log, task.pk)
        state = TaskState(log.task(task.pk).state)
        if state == TaskState.CANCELED:
            return
        if state.is_terminal:
            raise TaskNotCancelable
        runs = record_cancel(log, task.pk)
    for run in runs:
        notifications.stop(run)


def record_cancel(log: Ledger, task: uuid.UUID) -> list[uuid.UUID]:
    """Cancel an unfinished task. Returns the runs to stop after the commit."""
    discarded = [artifact.artifact_id for artifact in log.provisional_artifacts(task)]
    log.add(EventType.AGENT_CANCELLED, {"discarded": discarded}, task=task)
    log.add(EventType.AGENT_STATUS, {"state": TaskState.CANCELED}, task=task)
    unfinished = Run.objects.unfinished().filter(task=task)
    runs = list(unfinished.values_list("pk", flat=True))
    unfinished.update(state=Run.State.CANCELED, finished_at=log.now)
    Run.objects.filter(task=task, state=Run.State.WAITING).update(state=Run.State.CANCELED, finished_at=log.now)
    Run.objects.filter(task=task).update(memory={})
    Withheld.objects.filter(task=task).update(content="")
    ended = metrics.RUNS_ENDED[log.task(task).agent.slug, TaskState.CANCELED.value, ""]
    transaction.on_commit(partial(ended.inc, len(runs)))
    return runs


def _cancel(task: Task, principal: Principal) -> Task:
    if task.state == TaskState.CANCELED:
        raise NotNeeded("It is canceled already.")
    cancel_task(task)
    return task


CANCEL = Act[Task](
    "cancel",
    "Cancel task",
    _cancel,
    "Cancel a task and all tasks that it started",
    "The agent stops, and its unfinished results are discarded.",
    lambda task: "Canceled.",
    lambda task: not task.is_finished,
    check=_check_is_theirs,
    is_grave=True,
    icon="stop_circle",
    note="Canceling a canceled task has no effect. A task that has ended in another state cannot be canceled.",
)


class NoSteps(UnsupportedOperation):
    """This agent cannot stop after a step. Cancel the task, or let it go on."""


class NotRunning(UnsupportedOperation):
    """The task is not at work, so no step can end. Cancel the task if you do not need it."""


def stop_after_step(task: Task, by: int | None) -> bool:
    """Ask the running turn of a task, and of its children, to end after its step, with what there is.

    Returns False if it was asked before. The next turn, if a message waits, is a turn like any other.
    Raises NoSteps, NotRunning, TaskNotFound.
    """
    if not task.agent.is_steerable:
        raise NoSteps
    try:
        with ledger.writing(task.context_id) as log:
            run = Run.objects.filter(task=task.pk, state=Run.State.RUNNING).first()
            if run is None or log.task(task.pk).state != TaskState.WORKING:
                raise NotRunning
            if run.stops_after_step:
                return False
            Run.objects.filter(pk=run.pk).update(stops_after_step=True)
            log.add(EventType.STOP_REQUESTED, {"by": by}, task=task.pk)
    except Context.DoesNotExist:
        raise TaskNotFound from None
    notifications.stop(run.pk)
    for child in Task.objects.unfinished().select_related("agent", "context").filter(parent=task.pk):
        with suppress(UnsupportedOperation, TaskNotFound):
            stop_after_step(child, by)
    return True


def stop_by_id(principal: Principal, agent: Agent, task_id: str) -> uuid.UUID:
    """`stop_after_step` for the caller's task. Returns its id. Raises TaskNotFound too."""
    task = lookup.find_seen_task(principal, agent, task_id)
    with suppress(NotNeeded):
        STOP_AFTER_STEP.perform(principal, task)
    return task.pk


def _stop_after_step(task: Task, principal: Principal) -> Task:
    if not stop_after_step(task, principal.user_id):
        raise NotNeeded("It stops after this step already.")
    return task


STOP_AFTER_STEP = Act[Task](
    "stop-after-step",
    "Stop after this step",
    _stop_after_step,
    "Stop a task after its step",
    "The agent finishes its step, and ends with what it has.",
    lambda task: "It stops after this step.",
    lambda task: task.state == TaskState.WORKING and task.agent.is_steerable,
    check=_check_is_theirs,
    icon="flag",
    note="Only for a task at work whose agent can do so. What it has becomes its answer, and the task is completed. "
    "Asking twice has no effect.",
)
TASKS = Resource("tasks", "task", Task, acts=(CANCEL, STOP_AFTER_STEP), related=("context", "agent", "owner"))
