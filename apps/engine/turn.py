"""Executing one run: the agent takes its turn, what it says is recorded, and so is how the turn ends.

Where the agent cannot be reached, the first of the fallbacks that it names takes the turn in its place.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import logging
import traceback
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import Q
from django.utils.module_loading import import_string

import db
from agentkit import Failed, HandlerError, Outcome, Progress, Session, Suspended, TaskContext
from agentkit.context import bookmarks
from apps.agents import versions
from apps.agents.models import Agent
from apps.engine import cancel, delegation, finish, handlers, output
from apps.engine.assignment import Assignment, ReleaseSlot
from apps.engine.delegation import Delegation, principal_of
from apps.engine.finish import Ending, Ongoing
from apps.engine.handlers import Blocked
from apps.engine.output import (
    AGENT_ERROR_MESSAGE,
    INVALID_RESPONSE,
    MemoryTooLarge,
    TooLarge,
    clean,
    clean_outcome,
    error_code,
)
from apps.engine.queue import publish
from apps.engine.recorder import NewEvent, Recorder, RecordLost, event_of
from apps.record import runs
from apps.record.content.strict_json import digest_of
from apps.record.events import JSON
from apps.record.hooks import hook
from apps.record.models import Run
from apps.record.runs import LeaseLost

log = logging.getLogger("parley.engine")

BLOCKED_MESSAGE = (
    "The agent computed for long without letting others go on, and was stopped. Its author can write it as `def`, "
    "which runs in a thread."
)

Executor = Callable[[Assignment, TaskContext, ReleaseSlot], Awaitable[Outcome | Ongoing]]
"""What `EXECUTORS` names for each kind of agent. One that waits for long enters the `ReleaseSlot` meanwhile."""


async def execute_turn(
    assignment: Assignment, interrupted: Callable[[], bool], release_slot: ReleaseSlot = nullcontext
) -> None:
    """Take the turn of a run that this process holds, to its recorded end.

    Cancel it to stop the handler: `interrupted` tells whether the task then goes on with a newer message; otherwise
    nothing more is recorded, for whoever stopped it has recorded that. `release_slot` is entered while the turn waits
    for children.
    """
    recorder = Recorder(assignment)
    calls = Delegation(assignment, recorder, release_slot)
    task = task_context(assignment, recorder, calls)
    outcome: Outcome | Ongoing | None
    error: JSON | None = None
    try:
        try:
            outcome, error = await _run_turn(assignment, task, calls, release_slot)
        except asyncio.CancelledError:
            if not interrupted():
                raise
            outcome = None
        await _await_end(_finish_turn(assignment, recorder, outcome, task, error, calls), interrupted)
    except LeaseLost:
        await _note_late(assignment)
    except asyncio.CancelledError:
        recorder.abandon()
        await _note_usage(assignment, recorder)
        raise


def task_context(assignment: Assignment, recorder: Recorder, calls: Delegation) -> TaskContext:
    """What the handler is given."""
    owner = assignment.task.owner
    return TaskContext(
        task_id=str(assignment.task.pk),
        context_id=assignment.task.context.context_id,
        message=assignment.said,
        history=assignment.history,
        references=assignment.references,
        skill=assignment.skill,
        slot=assignment.slot["name"] if assignment.slot else None,
        asked=assignment.slot or {},
        resumed=assignment.resumed,
        memory=dict(assignment.memory),
        session=Session(copy.deepcopy(assignment.task.context.memory), options=copy.deepcopy(assignment.options)),
        attempt=assignment.attempt,
        caller=owner.short_name if owner else None,
        emit=recorder.emit,
        lend=partial(hook("CREDENTIAL_LENDER"), assignment),
        delegate=calls,
    )


async def _run_turn(
    assignment: Assignment, task: TaskContext, calls: Delegation, release_slot: ReleaseSlot
) -> tuple[Outcome | Ongoing, JSON | None]:
    """How the turn ended. If a child asked something, its question is the outcome, even if the handler gave another."""
    outcome: Outcome | Ongoing
    try:
        await calls.forward_answer()
        outcome, error = await _run_within_limit(assignment, task, calls, release_slot)
    except Suspended as suspended:
        return suspended.question, None
    return (calls.suspended.question, None) if calls.suspended else (outcome, error)


async def _run_within_limit(
    assignment: Assignment, task: TaskContext, calls: Delegation, release_slot: ReleaseSlot
) -> tuple[Outcome | Ongoing, JSON | None]:
    """The outcome of the handler's turn, whatever it raises, and what operators should know of an error."""
    agent = assignment.agent
    try:
        async with asyncio.timeout(_seconds_left(assignment)) as limit:
            return await _run_with_fallbacks(assignment, task, calls, release_slot), None
    except (LeaseLost, RecordLost):
        raise
    except AgentUnavailable as unavailable:
        return Failed(str(unavailable), unavailable.code), None
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():  # a handler may raise one of its own
            seconds = f"{agent.time_limit:g}"
            return Failed(f"The agent took longer than its limit of {seconds} seconds.", "time_limit"), None
        return _agent_error(assignment, error)
    except Blocked:
        return Failed(BLOCKED_MESSAGE, "blocked"), None


def _seconds_left(assignment: Assignment) -> float:
    """How long the turn may take. A remote agent's time goes on while nobody here listens."""
    spent = assignment.seconds if assignment.agent.kind == Agent.Kind.REMOTE else 0.0
    return max(0.0, assignment.agent.time_limit - spent)


async def _run_with_fallbacks(
    assignment: Assignment, task: TaskContext, calls: Delegation, release_slot: ReleaseSlot
) -> Outcome | Ongoing:
    """The turn of the agent, or of the first of its fallbacks that can be reached. What it raises passes through."""
    while True:
        try:
            return await _executor_of(assignment.agent.kind)(assignment, task, release_slot)
        except (AgentUnavailable, HandlerError):
            if calls.is_used or not await hand_to_fallback(assignment, calls.recorder, task):
                raise
            session = dataclasses.replace(task.session, options=assignment.options)
            task = dataclasses.replace(task, skill=assignment.skill, session=session)


@cache
def _executor_of(kind: str) -> Executor:
    found: Executor = import_string(settings.EXECUTORS[kind])
    return found


AGENT_FIELDS = ("agent", "options", "skill", "sent")  # of a run's input: removed when a fallback takes the turn


class AgentUnavailable(Exception):
    """An agent cannot be reached, and nothing was sent to it. `str()` is a sentence for people, `code` for programs."""

    code = "unavailable"


async def hand_to_fallback(assignment: Assignment, recorder: Recorder, task: TaskContext) -> bool:
    """Hand a turn of which nothing was done on to the next fallback of its agent; False where there is none.

    Only what nobody has begun is handed on: not a turn in which anything was said, nor the answer to a question, which
    is for the agent that asked. Raises LeaseLost.
    """
    if recorder.has_spoken or assignment.slot is not None or assignment.original is not None:
        return False
    away = assignment.agent
    fallback = await db.run(_next_fallback, assignment)
    if fallback is None:
        return False
    assignment.input = await db.persist(_record_fallback, assignment, fallback)
    assignment.input_hash = digest_of(assignment.input)
    assignment.hand_to(fallback)
    task.memory.clear()  # what is in there is the other's
    told = event_of(Progress(f"{away.name} is not available. {fallback.name} answers instead."))
    by = {"version": version.number} if (version := fallback.current_version) else {}
    await recorder.record(NewEvent(told.type, {**told.payload, "agent": fallback.pk, **by}))
    return True


def _next_fallback(assignment: Assignment) -> Agent | None:
    """The first fallback after the one that was tried last which may be used, takes the message, and is well here."""
    own = Agent.objects.get(tasks=assignment.task.pk)
    slugs = own.fallbacks
    if assignment.agent.slug in slugs:
        slugs = slugs[slugs.index(assignment.agent.slug) + 1 :]
    usable = Agent.objects.visible_to(principal_of(assignment.task)).filter(slug__in=slugs).exclude(pk=own.pk)
    known = {agent.slug: agent for agent in usable}
    return next((agent for slug in slugs if (agent := known.get(slug)) and _can_stand_in(agent, assignment)), None)


def _can_stand_in(agent: Agent, assignment: Assignment) -> bool:
    return not agent.refused_type(assignment.message.parts) and handlers.can_run(agent)


def _record_fallback(assignment: Assignment, fallback: Agent) -> JSON:
    """Keep in the run who takes it, so that another attempt begins with the same. Gives its new input."""
    version = versions.version_at(fallback.current_version_id) if fallback.current_version_id else None
    fallback.current_version = version
    held = Run.objects.filter(pk=assignment.lease.run_id, fence=assignment.lease.fence, state=Run.State.RUNNING)
    given = held.values_list("input", flat=True).first()
    if given is None:
        raise LeaseLost
    given = {name: value for name, value in given.items() if name not in AGENT_FIELDS}
    if version is not None:
        given["agent"] = versions.version_reference(version)
    if not held.update(agent=fallback, input=given, input_hash=digest_of(given), memory={}, remote={}):
        raise LeaseLost
    return given


async def _await_end(ending: Coroutine[Any, Any, None], interrupted: Callable[[], bool]) -> None:
    """Await the recording of a turn's end, which an interruption does not cut short: the turn is over already."""
    work = asyncio.eager_task_factory(asyncio.get_running_loop(), ending)
    while True:
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if work.cancelled() or not interrupted():
                work.cancel()
                raise


def _agent_error(assignment: Assignment, error: Exception, code: str = "") -> tuple[Outcome, JSON]:
    code = code or error_code(error)
    told = {"code": code, "message": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    told = assignment.redaction(told)
    log.error("agent %s failed\n%s", assignment.agent.slug, told["traceback"])
    return Failed(AGENT_ERROR_MESSAGE, code), told


async def _finish_turn(
    assignment: Assignment,
    recorder: Recorder,
    outcome: Outcome | Ongoing | None,
    task: TaskContext,
    error: JSON | None,
    calls: Delegation,
) -> None:
    redact, agent = assignment.redaction, assignment.agent
    child = calls.asking if outcome else None
    try:
        tokens = await recorder.close()  # first: nothing else of this run is being written while its end is
        if outcome is not None and not isinstance(outcome, Ongoing):
            if child is None:
                recorder.bounds.check(outcome, task.memory)
            outcome = redact(recorder.spent.labelled(clean_outcome(outcome, assignment.given)))
        ending = Ending(
            assignment.lease,
            outcome,
            turn=assignment.turn,
            no_other_events_until=assignment.no_other_events_until,
            is_first_attempt=assignment.turn == 1 and assignment.lease.fence == 1,
            memory=assignment.memory | redact(clean(bookmarks(task.memory))) if child else redact(clean(task.memory)),
            session=None
            if child
            else output.memory_changes(assignment.task.context.memory, redact(task.session.memory)),
            tokens=tokens,
            streamed=recorder.streamed,
            error=error,
            child=child,
            input_hash="" if agent.kind == Agent.Kind.REMOTE else assignment.input_hash,  # its run knows what was sent
            usage=recorder.spent.as_json,
        )
        following = await db.persist(_record_end, assignment, ending)
    except (LeaseLost, RecordLost, OperationalError, InterfaceError):
        raise
    except (MemoryTooLarge, TooLarge) as too_large:
        refused, usage = Failed(str(too_large), too_large.code), recorder.spent.as_json
        ending = Ending(assignment.lease, refused, turn=assignment.turn, memory=assignment.memory, usage=usage)
        following = await db.persist(_record_end, assignment, ending)
    except Exception as error:  # what the agent delivers cannot be recorded as it is
        failed, told = _agent_error(assignment, error, INVALID_RESPONSE)
        ending = Ending(
            assignment.lease,
            failed,
            turn=assignment.turn,
            memory=assignment.memory,
            error=told,
            usage=recorder.spent.as_json,
        )
        following = await db.persist(_record_end, assignment, ending)
    if calls.is_used and agent.kind != Agent.Kind.PLAN:  # a plan's children live until its task ends
        await calls.made()
        await db.run(_release_children, assignment.task.pk, ending)
    if following is not None:  # published last, so that the children of the next turn are not canceled
        await db.run(publish, following)


def _record_end(assignment: Assignment, ending: Ending) -> uuid.UUID | None:
    """Record it; gives the run of the next turn, to be published."""
    ending.fallback_id, ending.span = assignment.fallback_id, assignment.span
    if ending.child is not None:
        delegation.watch_child(ending.child.pk)
    return finish.finish(assignment.task, assignment.message, ending)


async def _note_usage(assignment: Assignment, recorder: Recorder) -> None:
    """What language models took for a turn that was stopped; a turn that ends writes it with its end."""
    if recorder.spent.models:
        await db.run(runs.save_usage, assignment.lease, recorder.spent)


def _release_children(task: uuid.UUID, ending: Ending) -> None:
    """Children end with the turn that called for them, unless it is to be taken again."""
    if ending.child is None:
        cancel.cancel_children(task)
    else:
        delegation.resume_suspended(Q(task=task))  # the child may have gone on before it was watched


async def _note_late(assignment: Assignment) -> None:
    run_id: uuid.UUID = assignment.lease.run_id
    await db.run(runs.add_note, run_id, f"Attempt {assignment.attempt} ended after the run was no longer its own.")
