"""The link between a run and its remote task, written before anything depends on it.

`Run.remote`: {"agent" (key), "messageId", "sent", "taskId"?, "contextId"?, "continues"? (the remote task whose question
is answered), "first"? (the first remote task for ours), "seen" (the newest of our messages that the agent then knows),
"heard" (did the agent accept it?), "machine"? (whose process has the task, if the agent has a folder), "repeats"? (how
often the turn began again, because the agent's process ended)}.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from apps.engine.turns import payments
from apps.engine.turns.assignment import Assignment
from apps.record.content.strict_json import digest_of
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.runs import LeaseLost
from apps.remote.execution import snapshots, state
from apps.remote.execution.snapshots import AgentKnowledge
from apps.remote.models import OpenWork
from parley.db import sql
from parley.db.sql import NOW

RUNS_CONSIDERED = 100  # of a conversation


def this_machine() -> str:
    """Its name, or that of the container: agents with a folder have a process on each."""
    return os.uname().nodename.lower()


@dataclass(slots=True)
class RemoteRun:
    """A run, its snapshot, and the ids of its remote task (`Run.remote`)."""

    assignment: Assignment
    remote_ids: JSON
    snapshot: JSON
    is_resumed: bool = False  # an earlier attempt may have sent the snapshot
    may_have_arrived: bool = False

    @property
    def task_id(self) -> str:
        """ "" until the agent names its task."""
        return str(self.remote_ids.get("taskId", ""))

    @property
    def answers_task(self) -> str:
        return str(self.remote_ids.get("continues", ""))

    @property
    def machine(self) -> str:
        """Whose process has the task; "" if the agent can be called from all machines."""
        return str(self.remote_ids.get("machine", ""))

    @property
    def is_moved(self) -> bool:
        """Did another machine's worker have the run, whose agent's process cannot be called from here?"""
        return self.machine not in ("", this_machine())

    @property
    def prefix(self) -> str:
        """Prefix of artifact ids: unique per remote task for ours; "" for the first."""
        is_first = self.assignment.turn == 1 or self.task_id == self.remote_ids.get("first", self.task_id)
        return "" if is_first else f"{digest_of(self.task_id)[:8]}-"


def start_or_resume(assignment: Assignment) -> RemoteRun:
    """The state of an earlier attempt, or a new one, which is stored. Raises LeaseLost."""
    if is_started(assignment):
        sent = assignment.input["sent"]
        return RemoteRun(assignment, assignment.remote, sent, is_resumed=True, may_have_arrived=True)
    knowledge = _agent_knowledge(assignment)
    remote_ids = {
        "agent": assignment.agent.pk,
        "messageId": str(assignment.lease.run_id),
        "sent": True,
        "seen": assignment.message.message_id,
    }
    if assignment.agent.current_version and assignment.agent.current_version.folder:
        remote_ids["machine"] = this_machine()
    if knowledge.task_id:
        remote_ids["first"] = knowledge.first_task
    if knowledge.awaits_answer:
        remote_ids["continues"] = knowledge.task_id
    if knowledge.context_id:
        remote_ids["contextId"] = knowledge.context_id
    snapshot = snapshots.build_snapshot(assignment, knowledge)
    given = {**assignment.input, "sent": snapshot}
    _write_held(assignment, remote=remote_ids, input=given, input_hash=digest_of(given))
    return RemoteRun(assignment, remote_ids, snapshot)


def is_started(assignment: Assignment) -> bool:
    """Did an earlier attempt send the turn's message, or was it about to?"""
    return assignment.remote.get("agent") == assignment.agent.pk and bool(assignment.input.get("sent"))


def save_remote_task(remote_run: RemoteRun, task: JSON, *, is_open: bool) -> None:
    """Store the ids of the remote task; with `is_open` also a row to cancel it by. Raises LeaseLost."""
    assignment = remote_run.assignment
    work = note_remote_task(remote_run, task, is_open=is_open)
    try:
        _write_held(assignment, work, remote=remote_run.remote_ids)
    except LeaseLost:
        for one in work:  # so that the sweep cancels it
            one.save()
        raise
    if has_payment(remote_run):
        payments.forget_payloads(task=assignment.task.pk)  # the agent has it


def note_remote_task(remote_run: RemoteRun, task: JSON, *, is_open: bool) -> list[OpenWork]:
    """As `save_remote_task`, without storing them. Returns the row to cancel it by."""
    assignment = remote_run.assignment
    ids = {"taskId": task["id"], "heard": True} | ({"contextId": task["contextId"]} if task.get("contextId") else {})
    remote_run.remote_ids = {**remote_run.remote_ids, **ids}
    has_row = remote_run.answers_task == task["id"] and not remote_run.machine  # of another turn
    if not is_open or has_row:
        return []
    return [
        OpenWork(
            agent_id=assignment.agent.pk,
            owner_id=assignment.task.owner_id,
            task=assignment.task.pk,
            run=assignment.lease.run_id,
            remote_task=task["id"],
            machine=remote_run.machine,
            next_try_at=sql.corrected_time() - sql.MAX_SKEW,  # also where this machine's clock is ahead
        )
    ]


def has_payment(remote_run: RemoteRun) -> bool:
    return payments.AUTHORIZATION in remote_run.snapshot["message"].get("metadata", {})


def note_remote_context(remote_run: RemoteRun, context_id: str) -> None:
    """Have the remote contextId of an answer without a task stored with the turn's end."""
    remote_run.remote_ids = {**remote_run.remote_ids, "contextId": context_id, "heard": True}
    remote_run.assignment.at_end.run["remote"] = remote_run.remote_ids


def save_seen(remote_run: RemoteRun, message_id: str) -> None:
    """Note that the agent knows our messages up to this one. Raises LeaseLost."""
    remote_run.remote_ids = {**remote_run.remote_ids, "seen": message_id}
    _write_held(remote_run.assignment, remote=remote_run.remote_ids)


def save_repeat(remote_run: RemoteRun) -> bool:
    """Note that the turn begins again at the agent, on this machine; False if it may not start more often.

    Where another machine's process had it, that one's task is unwanted. Raises LeaseLost.
    """
    assignment, ids = remote_run.assignment, remote_run.remote_ids
    repeats = int(ids.get("repeats", 0)) + 1
    if repeats >= assignment.agent.attempts:
        return False
    moved = {"machine": this_machine()} if remote_run.is_moved else {}
    if moved and remote_run.task_id:
        mark_unwanted(remote_run)
    remote_run.remote_ids = {**ids, "repeats": repeats, **moved}
    work = note_remote_task(remote_run, {"id": remote_run.task_id}, is_open=True) if moved and ids.get("taskId") else []
    _write_held(assignment, work, remote=remote_run.remote_ids)
    return True


def close_open_work(remote_run: RemoteRun) -> None:
    _open_work(remote_run).delete()


def mark_unwanted(remote_run: RemoteRun) -> None:
    """Have the remote task canceled, unless another worker has claimed the run."""
    lease = remote_run.assignment.lease
    if remote_run.task_id and not Run.objects.filter(pk=lease.run_id, fence__gt=lease.fence).exists():
        _open_work(remote_run).update(is_unwanted=True)


def _open_work(remote_run: RemoteRun) -> QuerySet[OpenWork]:
    agent, task = remote_run.assignment.agent.pk, remote_run.task_id
    return OpenWork.objects.filter(agent=agent, remote_task=task, machine=remote_run.machine)


def _write_held(assignment: Assignment, rows: list[OpenWork] | None = None, **values: Any) -> None:
    held = {**assignment.lease.is_held, "state": Run.State.RUNNING, "lease_until__gt": NOW}
    with sql.write_transaction():
        if not sql.update(Run, held, values):
            raise LeaseLost
        sql.write(rows or [])


def _agent_knowledge(assignment: Assignment) -> AgentKnowledge:
    if not assignment.history:
        return AgentKnowledge()
    if not (runs := _earlier_runs(assignment)):
        shared = state.at_branch_point(assignment.agent.pk, assignment.task.context)
        return (
            AgentKnowledge()
            if shared is None
            else AgentKnowledge(has_state=True, newest_message=shared.seen, known_tasks={str(shared.task_id)})
        )
    of_task = [run for run in runs if run.task_id == assignment.task.pk and run.remote.get("taskId")]
    task_ids = [str(run.remote["taskId"]) for run in sorted(of_task, key=lambda run: run.turn)]
    conversation: JSON = next(
        (run.remote for run in runs if run.remote.get("contextId") and run.remote.get("heard")), {}
    )
    remote_tasks = {str(run.task_id): run.remote["taskId"] for run in reversed(runs) if run.remote.get("taskId")}
    return AgentKnowledge(
        task_id=task_ids[-1] if task_ids else "",
        first_task=task_ids[0] if task_ids else "",
        awaits_answer=bool(task_ids) and assignment.slot is not None,
        context_id=str(conversation.get("contextId", "")),
        newest_message=str(conversation.get("seen", "")),
        known_tasks={str(run.task_id) for run in runs if run.remote.get("heard")},
        references={key: remote_tasks[key] for key in assignment.task.references if key in remote_tasks},
    )


def _earlier_runs(assignment: Assignment) -> list[Run]:
    """The agent's runs of the conversation, the newest first.

    Runs before a fork do not count: the agent's conversation also has what came after the branch point.
    """
    forked_at = assignment.task.context.forked_at or 0
    own = Run.objects.filter(task__context=assignment.context_id, task__first_event__gt=forked_at)
    others = own.exclude(pk=assignment.lease.run_id).exclude(remote={})
    newest = others.order_by("-queued_at").only("task_id", "turn", "remote")[:RUNS_CONSIDERED]
    return [run for run in newest if run.remote.get("agent") == assignment.agent.pk and run.remote.get("sent")]
