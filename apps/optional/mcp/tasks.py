"""MCP's own tasks, as version 2025-11-25 has them: calls that answer at once with a task."""

from __future__ import annotations

import mcp_types as types
from django.db.models import Q

from apps.a2a.tasks import page_token, read_page_token
from apps.accounts.principals import Principal
from apps.doors.turns import words_of
from apps.engine import cancel
from apps.optional.mcp.calls import Turn, tool_of, turn_of
from apps.optional.mcp.protocol import Call
from apps.record import wire
from apps.record.errors import TaskNotCancelable
from apps.record.models import Task, TaskState
from apps.record.reading import lookup

STATUS: dict[TaskState, types.TaskStatus] = {
    TaskState.SUBMITTED: "working",
    TaskState.WORKING: "working",
    TaskState.INPUT_REQUIRED: "input_required",
    TaskState.AUTH_REQUIRED: "input_required",
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "failed",
    TaskState.CANCELED: "cancelled",
}
POLL_MS = 1000
TASKS_PER_PAGE = 50


def _shown(task: Task) -> types.Task:
    return types.Task(
        task_id=str(task.pk),
        status=STATUS[TaskState(task.state)],
        status_message=words_of(task.status_message) if task.status_message else None,
        created_at=wire.timestamp(task.created_at),
        last_updated_at=wire.timestamp(task.status_at),
        ttl=None,  # tasks are kept
        poll_interval=POLL_MS,
    )


def created(turn: Turn) -> types.CreateTaskResult:
    """For a call that asks for a task."""
    return types.CreateTaskResult(task=_shown(lookup.find_task(turn.principal, str(turn.sent.task))))


def get_task(principal: Principal, call: Call) -> types.GetTaskResult:
    """Raises TaskNotFound."""
    return types.GetTaskResult(**_shown(lookup.find_task(principal, call.params.task_id)).model_dump())


def cancel_task(principal: Principal, call: Call) -> types.CancelTaskResult:
    """Raises TaskNotFound, TaskNotCancelable, NotYourTask."""
    task = lookup.find_task(principal, call.params.task_id)
    if task.is_finished:  # also if it is canceled
        raise TaskNotCancelable
    cancel.cancel_for(principal, task)
    task.refresh_from_db()
    return types.CancelTaskResult(**_shown(task).model_dump())


def wait_for_task(principal: Principal, call: Call) -> Turn:
    """What the call of the task would have returned; a question is such a result, too. Raises TaskNotFound."""
    task = lookup.find_task(principal, call.params.task_id)
    return turn_of(call, principal, task, tool_of(task))


def list_tasks(principal: Principal, call: Call) -> types.ListTasksResult:
    """The caller's own, newest status first. Raises InvalidParams for a cursor of another list."""
    bound = wire.binding("mcp tasks", principal.sender)
    after = read_page_token((call.params and call.params.cursor) or "", bound)
    rows = Task.objects.of(principal).order_by("-status_at", "-id")
    if after is not None:
        at, key = after
        rows = rows.filter(Q(status_at__lt=at) | Q(status_at=at, pk__lt=key))
    page = list(rows[: TASKS_PER_PAGE + 1])
    shown = page[:TASKS_PER_PAGE]
    more = page_token((shown[-1].status_at, shown[-1].pk), bound) if len(page) > len(shown) else None
    return types.ListTasksResult(tasks=[_shown(task) for task in shown], next_cursor=more)
