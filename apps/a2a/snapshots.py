"""A task as it stands at one event of its context, so that a stream can begin with it and go on from there."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import canceling
from apps.record import addressing, whole_tasks, wire
from apps.record.errors import TaskNotFound
from apps.record.events import JSON, EventType
from apps.record.lifecycle import TaskState
from apps.record.models import Artifact, Context, Event, Task


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A task in its wire form, what it shows of the log, and the chunks of artifacts that are still being made."""

    task: JSON
    key: uuid.UUID
    context: Context
    state: TaskState
    index: int  # of the newest event that the task shows
    begun: list[Event]

    @property
    def start(self) -> int:
        """The index after which a stream that begins with this task goes on."""
        return self.begun[0].index - 1 if self.begun else self.index


def find(principal: Principal, agent: Agent, task_id: str, history_length: int | None = None) -> JSON:
    """The caller's task as it stands now. Raises TaskNotFound."""
    whole = partial(whole_tasks.find, history_length=history_length)
    return wire.load_task(addressing.find_task(principal, agent, task_id, whole), history_length=history_length)


def cancel(principal: Principal, agent: Agent, task_id: str) -> JSON:
    """The caller's task, canceled. Raises TaskNotFound, TaskNotCancelable."""
    canceling.cancel(principal, agent, task_id)
    return find(principal, agent, task_id)


def load(task: uuid.UUID, show: Callable[[Task], JSON]) -> JSON:
    """A task that the caller is known to own, as it stands now. Raises TaskNotFound."""
    return show(_row(task))


def now(principal: Principal, agent: Agent, task_id: str, history_length: int | None = None) -> Snapshot:
    """The caller's task at the newest event of its context. Raises TaskNotFound."""
    row = addressing.find_task(principal, agent, task_id)
    return _snapshot(row, row.context.last_event, history_length)


def accepted(task: uuid.UUID, index: int, history_length: int | None) -> Snapshot:
    """A task as it was when it accepted the message of event `index`, however far it has come since."""
    row = _row(task)
    if row.context.last_event > index:
        _turn_back(row, index)
        if TaskState(row.state).is_interrupted:
            index += 1  # the answer to a question sets the task to work at once
            _turn_back(row, index)
    return _snapshot(row, index, history_length)


def at(task: uuid.UUID, index: int) -> JSON:
    """A task as it stood at an event of its context, with the newest of its messages by then."""
    row = _row(task)
    if row.context.last_event > index:
        _turn_back(row, index)
    return wire.load_task(row, up_to=index)


def _row(task: uuid.UUID) -> Task:
    row = whole_tasks.TASK.one(task)
    if row is None:
        raise TaskNotFound  # it was deleted just now
    return row


def _turn_back(row: Task, index: int) -> None:
    """Give the task the status that it had at an earlier event."""
    statuses = Event.objects.filter(task=row, type=EventType.AGENT_STATUS, index__lte=index)
    event = statuses.order_by("-index").first()
    row.state = TaskState(event.payload["state"]) if event else TaskState.SUBMITTED
    row.status_message = event.payload.get("message") if event else None
    row.status_at = event.at if event else row.created_at


def _snapshot(row: Task, index: int, history_length: int | None) -> Snapshot:
    state = TaskState(row.state)
    shown = wire.load_task(row, history_length=history_length, up_to=index)
    return Snapshot(shown, row.pk, row.context, state, index, _begun(row, state, index))


def _begun(row: Task, state: TaskState, index: int) -> list[Event]:
    """The chunks so far of artifacts that the task does not show yet, because it has not ended."""
    if state.is_terminal or state == TaskState.SUBMITTED:
        return []
    artifacts = Artifact.objects.filter(task=row, first_event__lte=index).exclude(state=Artifact.State.DISCARDED)
    ids = list(artifacts.values_list("artifact_id", flat=True))
    if not ids:
        return []
    return list(Event.objects.filter(task=row, artifact_id__in=ids, index__lte=index).order_by("index"))
