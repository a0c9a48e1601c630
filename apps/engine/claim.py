"""Taking a run: by compare-and-swap, with a lease by the database's clock and a fence number that grows."""

from __future__ import annotations

import datetime
import math
import uuid
from typing import Any

from apps.agents import versions
from apps.agents.models import Agent, AgentVersion
from apps.engine import assignment, delegation, finish, handlers
from apps.engine.assignment import Assignment, skill_of
from apps.engine.queue import publish
from apps.engine.sql import RUN
from apps.record import ledger, runs, wire
from apps.record.content.strict_json import digest_of
from apps.record.events import JSON, EventType
from apps.record.ledger import Ledger
from apps.record.models import Context, Message, Run, TaskState
from apps.record.runs import Lease, LeaseLost
from db import sql


def claim(run_id: uuid.UUID, worker: str) -> Assignment | None:
    """Take the run for `worker`, a name of this one claim; None where it cannot be had or cannot run in this process.

    A run whose attempts are used up is not executed again: its turn fails with a reason. When the claim is retried
    after a commit whose reply was lost, the run is the worker's already.
    """
    try:
        return _try_claim(run_id, worker)
    except LeaseLost:
        runs.add_note(run_id, f"{worker} came second.", unless_queued=True)
        return None
    except Context.DoesNotExist:  # it was deleted just now
        return None


def _try_claim(run_id: uuid.UUID, worker: str) -> Assignment | None:
    found = RUN.one(run_id)
    if found is None:
        return None
    run, now = found
    if run.agent is not None:
        run.task.agent = run.agent  # in memory: the task stays whose it is
    is_taken = run.state == Run.State.RUNNING and run.worker == worker
    if not is_taken and run.attempt >= allowed_attempts(run):
        if following := _fail_exhausted(run, worker):
            publish(following)
        return None
    original = delegation.original_run(run) if delegation.repeats_turn(run) else None
    given = original or run
    skill = skill_of(run.task, run.agent_id)
    if not handlers.can_run(run.task.agent, answers_slot=given.slot is not None, skill=skill):
        return None  # the sweep finds another process, or this one when it is well again
    history, references = (
        _history(run.task.context, given.message),
        assignment.referenced_tasks(run.task.references, run.task.owner_id, run.task.context),
    )
    context, is_newest = run.task.context, False
    run.task.agent.current_version = _version(given)
    if not is_taken:
        run.input = snapshot = _snapshot(run, history, _options(given)) | (
            {"sent": sent} if (sent := run.input.get("sent")) else {}
        )
        with ledger.writing(context) as log:
            is_newest = context.last_event == run.message.index
            _take_lease(log, run, worker, snapshot)
            log.use_loaded(run.task, artifacts=[] if run.is_first else None)
            _record_start(log, run)
    return Assignment(
        lease=Lease(run.pk, run.fence),
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
        fallback_id=run.agent_id,
        span=run.traceparent,
        original=original,
        asked_by=delegation.answered_child(run),
        no_other_events_until=context.last_event if is_newest else None,
        history=[assignment.handler_message(message, run.task.context) for message in history],
        references=references,
    )


def allowed_attempts(run: Run) -> float:
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


def _take_lease(log: Ledger, run: Run, worker: str, snapshot: JSON) -> None:
    """Make the run this worker's, as an attempt that begins. Raises LeaseLost, now or when the log is written."""
    where = _claimable(run, log.now)
    run.attempt, run.fence, run.input_hash = run.attempt + 1, run.fence + 1, digest_of(snapshot)
    values = {
        "state": Run.State.RUNNING,
        "attempt": run.attempt,
        "fence": run.fence,
        "worker": worker,
        "lease_until": runs.lease_end(log.now),
        "started_at": run.started_at or log.now,
        "interrupted": False,
        "input": snapshot,
        "input_hash": run.input_hash,
    }
    log.acquire_lease(Lease(run.pk, run.fence), where, values)


def _claimable(run: Run, now: datetime.datetime) -> dict[str, Any]:
    """Compare and swap on the fence that was read: what holds for a run that is queued, or whose lease ran out.

    Raises LeaseLost for another.
    """
    where = {"id": run.pk, "fence": run.fence, "state": run.state}
    if run.state == Run.State.RUNNING:
        where["lease_until__lt"] = now
    elif run.state != Run.State.QUEUED:
        raise LeaseLost
    return where


def _record_start(log: Ledger, run: Run) -> None:
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


def _fail_exhausted(run: Run, worker: str) -> uuid.UUID | None:
    """The worker was lost in the middle of the last attempt that the agent allows; gives the run of the next turn.

    Raises LeaseLost.
    """
    if allowed_attempts(run) > 1:
        reason = f"The work was cut off {run.attempt} times and is not tried again."
    else:
        reason = "The work was cut off, and this agent's work is not repeated by itself. Send the message again."
    with ledger.writing(run.task.context) as log:
        lease = Lease(run.pk, run.fence + 1)
        values = {
            "state": Run.State.RUNNING,
            "fence": lease.fence,
            "worker": worker,
            "lease_until": runs.lease_end(log.now),
        }
        if not sql.update(Run, _claimable(run, log.now), values):
            raise LeaseLost
        log.use_loaded(run.task)
        return finish.fail_lost_turn(log, run, lease, reason)


def _history(context: Context, message: Message) -> list[Message]:
    return [] if message.index == 1 else assignment.earlier_messages(context, before=message.index)


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
        given["agent"] = versions.version_reference(version)
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
