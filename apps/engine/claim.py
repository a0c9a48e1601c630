"""Taking a run: by compare-and-swap, with a lease by the database's clock and a fence number that grows."""

from __future__ import annotations

import datetime
import math
import uuid
from contextlib import suppress
from typing import Any

from apps.agents import versions
from apps.agents.models import Agent, AgentVersion
from apps.engine import earlier, finish, hosting, suspending
from apps.engine.assignments import Assignment, skill_of
from apps.engine.queue import publish
from apps.record import leases, ledger, notes, wire
from apps.record.digests import digest_of
from apps.record.events import JSON, EventType
from apps.record.leases import Hold, LeaseLost
from apps.record.ledger import Ledger
from apps.record.lifecycle import TaskState
from apps.record.models import Context, Message, Run
from db import statements
from db.selections import Selection

RUN = Selection(
    lambda key: Run.objects.select_related("task__context", "task__agent", "task__owner", "message").filter(pk=key),
    uuid.UUID(int=0),
)


def claim(run_id: uuid.UUID, worker: str) -> Assignment | None:
    """Take the run for `worker`, a name of this one claim; None where it is not to be had, or lacks something here.

    A run whose attempts are used up is not executed again: its turn fails with a reason. When the claim is tried
    again after a commit that nobody heard of, the run is the worker's already.
    """
    try:
        with suppress(ledger.NotAtOnce):
            return _claim(run_id, worker)
        return _claim(run_id, worker, locked=True)
    except LeaseLost:
        notes.leave(run_id, f"{worker} came second.", unless_queued=True)
        return None


def _claim(run_id: uuid.UUID, worker: str, *, locked: bool = False) -> Assignment | None:
    found = RUN.one_now(run_id)
    if found is None:
        return None
    run, now = found
    if run.agent is not None:
        run.task.agent = run.agent  # in memory: the task stays whose it is
    is_taken = run.state == Run.State.RUNNING and run.worker == worker
    if not is_taken and run.attempt >= attempts_of(run):
        if following := _give_up(run, worker):
            publish(following)
        return None
    original = suspending.original_of(run) if suspending.is_taken_again(run) else None
    given = original or run
    skill = skill_of(run.task, run.agent_id)
    if not hosting.can_take(run.task.agent, answers_slot=given.slot is not None, skill=skill):
        return None  # the sweep finds another process, or this one when it is well again
    history, references = (
        _history(run.task.context, given.message),
        earlier.tasks(run.task.references, run.task.owner_id, run.task.context),
    )
    context, is_newest = run.task.context, False
    run.task.agent.current_version = _version(given)
    if not is_taken:
        run.input = snapshot = _snapshot(run, history, _options(given)) | (
            {"sent": sent} if (sent := run.input.get("sent")) else {}
        )
        with ledger.writing(context) if locked else ledger.proposing(context, now) as log:
            is_newest = context.last_event == run.message.index
            _take(log, run, worker, snapshot)
            log.knows(run.task, artifacts=[] if run.is_first else None)
            _start(log, run)
    return Assignment(
        hold=Hold(run.pk, run.fence),
        agent=run.task.agent,
        task=run.task,
        message=run.message,
        turn=run.turn,
        attempt=run.attempt,
        slot=given.slot,
        resumed=given.resumed,
        memory=run.memory,
        input_hash=run.input_hash,
        usage=run.usage,
        seconds=(now - run.started_at).total_seconds() if run.started_at else 0.0,
        input=run.input,
        remote=run.remote,
        stand_in=run.agent_id,
        span=run.traceparent,
        original=original,
        asked_by=suspending.asked_by(run),
        quiet_until=context.last_event if is_newest else None,
        history=[earlier.said(message, run.task.context) for message in history],
        references=references,
    )


def attempts_of(run: Run) -> float:
    """How often a turn may be started: once, unless the agent says that a second time does no harm.

    What a remote agent works on is not started again but found again, as often as it takes; whether something may be
    sent to it twice is for its executor to say.
    """
    agent = run.task.agent
    if agent.kind == Agent.Kind.REMOTE:
        return math.inf if run.remote.get("taskId") else agent.attempts
    if agent.kind == Agent.Kind.PLAN:  # what was begun is found again, as often as it takes
        return math.inf
    return agent.attempts if agent.retry_safe else 1


def _take(log: Ledger, run: Run, worker: str, snapshot: JSON) -> None:
    """Make the run this worker's, as an attempt that begins. Raises LeaseLost, now or when the log is written."""
    where = _to_be_had(run, log.now)
    run.attempt, run.fence, run.input_hash = run.attempt + 1, run.fence + 1, digest_of(snapshot)
    values = {
        "state": Run.State.RUNNING,
        "attempt": run.attempt,
        "fence": run.fence,
        "worker": worker,
        "lease_until": leases.end(log.now),
        "started_at": run.started_at or log.now,
        "interrupted": False,
        "input": snapshot,
        "input_hash": run.input_hash,
    }
    log.begin_hold(Hold(run.pk, run.fence), where, values)


def _to_be_had(run: Run, now: datetime.datetime) -> dict[str, Any]:
    """Compare and swap on the fence that was read: what holds for a run that is queued, or whose lease ran out.

    Raises LeaseLost for another.
    """
    where = {"id": run.pk, "fence": run.fence, "state": run.state}
    if run.state == Run.State.RUNNING:
        where["lease_until__lt"] = now
    elif run.state != Run.State.QUEUED:
        raise LeaseLost
    return where


def _start(log: Ledger, run: Run) -> None:
    task, version = run.task, run.task.agent.current_version
    if task.state == TaskState.SUBMITTED:
        log.add(EventType.AGENT_STATUS, {"state": TaskState.WORKING}, task=task.pk)
    started: JSON = {"attempt": run.attempt, "turn": run.turn, "messageId": run.message.message_id}
    if run.fence > run.attempt:
        started["again"] = True
    if run.agent_id is not None:
        started["agent"] = run.agent_id
    if version is not None:
        started["version"] = version.number
    log.add(EventType.AGENT_START, started, task=task.pk)


def _give_up(run: Run, worker: str) -> uuid.UUID | None:
    """The worker was lost in the middle of the last attempt that the agent allows; gives the run of the next turn.

    Raises LeaseLost.
    """
    if attempts_of(run) > 1:
        reason = f"The work was cut off {run.attempt} times and is not tried again."
    else:
        reason = "The work was cut off, and this agent's work is not repeated by itself. Send the message again."
    with ledger.writing(run.task.context) as log:
        hold = Hold(run.pk, run.fence + 1)
        values = {"state": Run.State.RUNNING, "fence": hold.fence, "worker": worker, "lease_until": leases.end(log.now)}
        if not statements.update(Run, _to_be_had(run, log.now), values):
            raise LeaseLost
        log.knows(run.task)
        return finish.cut_off(log, run, hold, reason)


def _history(context: Context, message: Message) -> list[Message]:
    return [] if message.index == 1 else earlier.messages(context, before=message.index)


def _version(run: Run) -> AgentVersion | None:
    """The version of the agent that all attempts of the turn go by: the first one's. Mostly without a query."""
    begun = run.input.get("agent")
    key = uuid.UUID(begun["version"]) if begun else run.task.agent.current_version_id
    return versions.version_at(key) if key else None


def _snapshot(run: Run, history: list[Message], options: JSON) -> JSON:
    """What the turn is given, in a form that can be compared later. Of memory, which is erased, only the digest."""
    given: dict[str, Any] = {
        "message": wire.stored_message(run.message, run.task.context),
        "history": [message.message_id for message in history],
        "references": run.task.references,
        "slot": run.slot,
        "memory": digest_of(run.memory),
    }
    if version := run.task.agent.current_version:
        given["agent"] = versions.reference(version)
    if session := run.task.context.memory:
        given["session"] = digest_of(session)
    if options:
        given["options"] = options
    if skill := skill_of(run.task, run.agent_id):
        given["skill"] = skill
    return given


def _options(run: Run) -> JSON:
    """How the agent is set up in this conversation: for all attempts of a turn as it was for the first.

    Where the conversation is with another agent by now, its task keeps what it had; who stands in for it has none.
    """
    options: JSON | None
    if run.input:
        options = run.input.get("options")
    elif run.agent_id is not None:
        options = None
    elif run.task.context.agent_id == run.task.agent_id:
        options = run.task.context.options
    else:
        before = Run.objects.filter(task=run.task_id, turn__lt=run.turn).order_by("-turn")
        options = before.values_list("input__options", flat=True).first()
    return options or {}
