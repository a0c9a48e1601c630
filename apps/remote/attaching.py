"""What ties a run to the remote agent's task that does its work: written before anything depends on it.

`Run.remote`: {"agent" (key), "messageId", "sent", "taskId"?, "contextId"?, "continues"? (the remote task that is
answered), "first"? (the first remote task of ours), "seen" (the newest message here that the remote conversation then
knows), "heard" (did the agent take it up?)}.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from apps.agents.models import Agent
from apps.engine.assignments import Assignment
from apps.record.digests import digest_of
from apps.record.events import JSON
from apps.record.leases import LeaseLost
from apps.record.models import Run
from apps.remote import snapshots
from apps.remote.models import OpenWork
from apps.remote.snapshots import Known
from db.statements import NOW, Batch

LATEST = 100  # runs of a conversation that are looked at for what the remote agent knows


@dataclass(slots=True)
class Attachment:
    """A run, the snapshot that its agent is sent, and what is known of the agent's work on it."""

    assignment: Assignment
    remote: JSON
    snapshot: JSON
    is_again: bool = False  # an earlier attempt may have sent it
    may_have_come: bool = False  # did anything go out of which nobody knows what became of it?

    @property
    def task_id(self) -> str:
        """The remote task's id; "" until the agent gave one."""
        return str(self.remote.get("taskId", ""))

    @property
    def continues(self) -> str:
        """The remote task to whose question this is the answer."""
        return str(self.remote.get("continues", ""))

    @property
    def prefix(self) -> str:
        """What tells artifacts of this remote task from those of an earlier one for the same task of ours."""
        is_first = self.assignment.turn == 1 or self.task_id == self.remote.get("first", self.task_id)
        return "" if is_first else f"{digest_of(self.task_id)[:8]}-"


def attach(assignment: Assignment) -> Attachment:
    """What an earlier attempt was at, or the snapshot for a new one, which is written. Raises LeaseLost."""
    if is_begun(assignment):
        sent = assignment.input["sent"]
        return Attachment(assignment, assignment.remote, sent, is_again=True, may_have_come=True)
    known = _known(assignment)
    remote = {
        "agent": assignment.agent.pk,
        "messageId": str(assignment.hold.run_id),
        "sent": True,
        "seen": assignment.message.message_id,
    }
    if known.task_id:
        remote["first"] = known.first_task
    if known.asks:
        remote["continues"] = known.task_id
    if known.context_id:
        remote["contextId"] = known.context_id
    attachment = Attachment(assignment, remote, snapshots.build(assignment, known))
    given = {**assignment.input, "sent": attachment.snapshot}
    _write(assignment, remote=remote, input=given, input_hash=digest_of(given))
    return attachment


def is_begun(assignment: Assignment) -> bool:
    """Did an earlier attempt send the turn's message to this agent, or was it about to?"""
    return assignment.remote.get("agent") == assignment.agent.pk and bool(assignment.input.get("sent"))


def learn(attachment: Attachment, task: JSON, *, is_open: bool) -> None:
    """Write the ids of the remote task, of which work `is_open`. Raises LeaseLost."""
    assignment = attachment.assignment
    ids = {"taskId": task["id"], "heard": True} | ({"contextId": task["contextId"]} if task.get("contextId") else {})
    attachment.remote = {**attachment.remote, **ids}
    work = OpenWork(
        agent_id=assignment.agent.pk,
        owner_id=assignment.task.owner_id,
        task=assignment.task.pk,
        run=assignment.hold.run_id,
        remote_task=task["id"],
    )
    is_new = is_open and attachment.continues != task["id"]
    try:
        _write(assignment, [work] if is_new else [], remote=attachment.remote)
    except LeaseLost:
        if is_new:  # a cancel came first, and is passed on all the same
            work.save()
        raise


def learn_context(attachment: Attachment, context_id: str) -> None:
    """Write the id of the remote conversation, where the agent answered without a task. Raises LeaseLost."""
    attachment.remote = {**attachment.remote, "contextId": context_id, "heard": True}
    _write(attachment.assignment, remote=attachment.remote)


def close(attachment: Attachment) -> None:
    """The remote task has ended there."""
    OpenWork.objects.filter(agent=attachment.assignment.agent.pk, remote_task=attachment.task_id).delete()


def give_up(attachment: Attachment) -> None:
    """The remote task's work is not wanted any more, whatever becomes of ours; another worker's is left alone."""
    hold = attachment.assignment.hold
    if attachment.task_id and not Run.objects.filter(pk=hold.run_id, fence__gt=hold.fence).exists():
        found = OpenWork.objects.filter(agent=attachment.assignment.agent.pk, remote_task=attachment.task_id)
        found.update(is_unwanted=True)


def _write(assignment: Assignment, rows: list[OpenWork] | None = None, **values: Any) -> None:
    batch = Batch()
    hold = assignment.hold
    held = {"id": hold.run_id, "fence": hold.fence, "state": Run.State.RUNNING, "lease_until__gt": NOW}
    batch.update(Run, held, values, missing=LeaseLost())
    batch.insert(rows or [])
    batch.write()


def _known(assignment: Assignment) -> Known:
    """What the remote agent knows of the task and of the conversation, by the runs that it took before."""
    if not assignment.history:
        return Known()
    earlier = _Earlier(assignment)
    return Known(
        task_id=earlier.task_id,
        first_task=earlier.first_task,
        asks=bool(earlier.task_id and assignment.slot is not None),
        context_id=earlier.context_id,
        seen=earlier.seen,
        own_tasks={str(run.task_id) for run in earlier.runs if run.remote.get("heard")},
        references=earlier.references,
    )


class _Earlier:
    """The runs of a conversation that its remote agent took, newest first."""

    def __init__(self, assignment: Assignment) -> None:
        self._task = assignment.task
        agent: Agent = assignment.agent
        # In a fork the agent's conversation begins anew: that of before knows what came after the place of the fork.
        forked_at = assignment.task.context.forked_at or 0
        own = Run.objects.filter(task__context=assignment.context_id, task__first_event__gt=forked_at)
        runs = own.exclude(pk=assignment.hold.run_id)
        newest = runs.exclude(remote={}).order_by("-queued_at").only("task_id", "turn", "remote")[:LATEST]
        self.runs = [run for run in newest if run.remote.get("agent") == agent.pk and run.remote.get("sent")]

    @cached_property
    def _of_task(self) -> list[Run]:
        own = [run for run in self.runs if run.task_id == self._task.pk and run.remote.get("taskId")]
        return sorted(own, key=lambda run: -run.turn)

    @property
    def task_id(self) -> str:
        return str(self._of_task[0].remote["taskId"]) if self._of_task else ""

    @property
    def first_task(self) -> str:
        return str(self._of_task[-1].remote["taskId"]) if self._of_task else ""

    @cached_property
    def _of_conversation(self) -> Run | None:
        return next((run for run in self.runs if run.remote.get("contextId") and run.remote.get("heard")), None)

    @property
    def context_id(self) -> str:
        return str(self._of_conversation.remote["contextId"]) if self._of_conversation else ""

    @property
    def seen(self) -> str:
        return str(self._of_conversation.remote.get("seen", "")) if self._of_conversation else ""

    @property
    def references(self) -> dict[str, str]:
        """The remote tasks of those tasks that this one refines, by our ids."""
        known = {str(run.task_id): run.remote["taskId"] for run in reversed(self.runs) if run.remote.get("taskId")}
        return {key: known[key] for key in self._task.references if key in known}
