"""Executing one run: the handler takes its turn, what it says is recorded, and so is how it ends."""

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
from agentkit import Failed, HandlerError, Outcome, Session, Suspended, TaskContext
from agentkit.delegation import bookmarks
from apps.agents.models import Agent
from apps.engine import canceling, fallbacks, finish, remembering, suspending
from apps.engine.assignments import Aside, Assignment
from apps.engine.bounds import TooLarge
from apps.engine.breaking import BROKEN, INVALID, code_of
from apps.engine.cleaning import clean, clean_outcome
from apps.engine.delegation import Delegation
from apps.engine.fallbacks import Unavailable
from apps.engine.finish import Ending, Ongoing
from apps.engine.guarding import Blocked
from apps.engine.queue import publish
from apps.engine.recording import Recorder, RecordLost
from apps.engine.remembering import TooMuchToRemember
from apps.record import notes, usage
from apps.record.events import JSON
from apps.record.hooks import hook
from apps.record.leases import LeaseLost

log = logging.getLogger("parley.engine")

BLOCKED = (
    "The agent computed for long without letting others go on, and was stopped. Its author can write it as `def`, "
    "which runs in a thread."
)

Executor = Callable[[Assignment, TaskContext, Aside], Awaitable[Outcome | Ongoing]]
"""What `EXECUTORS` names for each kind of agent. What is to wait for long enters the `Aside`, which frees its place."""


async def execute(assignment: Assignment, interrupted: Callable[[], bool], aside: Aside = nullcontext) -> None:
    """Take the turn of a run that this process holds, to its recorded end.

    Cancel it to stop the handler: `interrupted` tells whether the task then goes on with a newer message; otherwise
    nothing more is recorded, for whoever stopped it has recorded that. `aside` is entered while it waits for children.
    """
    recorder = Recorder(assignment)
    calls = Delegation(assignment, recorder, aside)
    task = context_of(assignment, recorder, calls)
    outcome: Outcome | Ongoing | None
    error: JSON | None = None
    try:
        try:
            outcome, error = await _turn(assignment, task, calls, aside)
        except asyncio.CancelledError:
            if not interrupted():
                raise
            outcome = None
        await _through(_end(assignment, recorder, outcome, task, error, calls), interrupted)
    except LeaseLost:
        await _note_late(assignment)
    except asyncio.CancelledError:
        recorder.abandon()
        await _note_usage(assignment, recorder)
        raise


async def _through(ending: Coroutine[Any, Any, None], interrupted: Callable[[], bool]) -> None:
    """Await the recording of a turn's end, which an interruption does not cut short: the turn is over already."""
    work = asyncio.eager_task_factory(asyncio.get_running_loop(), ending)
    while True:
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if work.cancelled() or not interrupted():
                work.cancel()
                raise


def context_of(assignment: Assignment, recorder: Recorder, calls: Delegation) -> TaskContext:
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


async def _turn(
    assignment: Assignment, task: TaskContext, calls: Delegation, aside: Aside
) -> tuple[Outcome | Ongoing, JSON | None]:
    """How the turn ended: once a child has asked, with its question, whatever the handler then makes of that."""
    outcome: Outcome | Ongoing
    try:
        await calls.pass_down()
        outcome, error = await _handled(assignment, task, calls, aside)
    except Suspended as suspended:
        return suspended.question, None
    return (calls.suspended.question, None) if calls.suspended else (outcome, error)


async def _handled(
    assignment: Assignment, task: TaskContext, calls: Delegation, aside: Aside
) -> tuple[Outcome | Ongoing, JSON | None]:
    """The outcome of the handler's turn, whatever it raises, and what operators should know of an error."""
    agent = assignment.agent
    try:
        async with asyncio.timeout(_seconds_left(assignment)) as limit:
            return await _taken(assignment, task, calls, aside), None
    except (LeaseLost, RecordLost):
        raise
    except Unavailable as unavailable:
        return Failed(str(unavailable), unavailable.code), None
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():  # a handler may raise one of its own
            seconds = f"{agent.time_limit:g}"
            return Failed(f"The agent took longer than its limit of {seconds} seconds.", "time_limit"), None
        return _broken(assignment, error)
    except Blocked:
        return Failed(BLOCKED, "blocked"), None


def _seconds_left(assignment: Assignment) -> float:
    """How long the turn may take. A remote agent's time goes on while nobody here listens."""
    spent = assignment.seconds if assignment.agent.kind == Agent.Kind.REMOTE else 0.0
    return max(0.0, assignment.agent.time_limit - spent)


async def _taken(assignment: Assignment, task: TaskContext, calls: Delegation, aside: Aside) -> Outcome | Ongoing:
    """The turn of the agent, or of the first of its fallbacks that can be reached. What it raises passes through."""
    while True:
        try:
            return await _executor(assignment.agent.kind)(assignment, task, aside)
        except (Unavailable, HandlerError):
            if calls.is_used or not await fallbacks.take_over(assignment, calls.recorder, task):
                raise
            session = dataclasses.replace(task.session, options=assignment.options)
            task = dataclasses.replace(task, skill=assignment.skill, session=session)


def _broken(assignment: Assignment, error: Exception, code: str = "") -> tuple[Outcome, JSON]:
    code = code or code_of(error)
    told = {"code": code, "message": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    told = assignment.redaction(told)
    log.error("agent %s failed\n%s", assignment.agent.slug, told["traceback"])
    return Failed(BROKEN, code), told


async def _end(
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
            assignment.hold,
            outcome,
            turn=assignment.turn,
            quiet_until=assignment.quiet_until,
            nothing_before=assignment.turn == 1 and assignment.hold.fence == 1,
            memory=assignment.memory | redact(clean(bookmarks(task.memory))) if child else redact(clean(task.memory)),
            session=None if child else remembering.changes(assignment.task.context.memory, redact(task.session.memory)),
            tokens=tokens,
            streamed=recorder.streamed,
            error=error,
            child=child,
            input_hash="" if agent.kind == Agent.Kind.REMOTE else assignment.input_hash,  # its run knows what was sent
            usage=recorder.spent.as_json,
        )
        following = await db.persist(_finish, assignment, ending)
    except (LeaseLost, RecordLost, OperationalError, InterfaceError):
        raise
    except (TooMuchToRemember, TooLarge) as much:
        too_large = Failed(str(much), much.code)
        ending = Ending(assignment.hold, too_large, turn=assignment.turn, memory=assignment.memory)
        following = await db.persist(_finish, assignment, ending)
    except Exception as unsaid:  # what the agent delivers cannot be recorded as it is
        failed, told = _broken(assignment, unsaid, INVALID)
        ending = Ending(
            assignment.hold,
            failed,
            turn=assignment.turn,
            memory=assignment.memory,
            error=told,
            usage=recorder.spent.as_json,
        )
        following = await db.persist(_finish, assignment, ending)
    if calls.is_used and agent.kind != Agent.Kind.PLAN:  # whose children end with its task
        await calls.made()
        await db.run(_leave_children, assignment.task.pk, ending)
    if following is not None:  # the next turn begins after that: the children that it calls for are its own
        await db.run(publish, following)


def _finish(assignment: Assignment, ending: Ending) -> uuid.UUID | None:
    """Record it; gives the run of the next turn, to be published."""
    ending.stand_in, ending.span = assignment.stand_in, assignment.span
    if ending.child is not None:
        suspending.watch(ending.child.pk)
    return finish.finish(assignment.task, assignment.message, ending)


async def _note_usage(assignment: Assignment, recorder: Recorder) -> None:
    """What language models took for a turn that was stopped; a turn that ends writes it with its end."""
    if recorder.spent.models:
        await db.run(usage.note, assignment.hold, recorder.spent)


def _leave_children(task: uuid.UUID, ending: Ending) -> None:
    """Children end with the turn that called for them, unless it is to be taken again."""
    if ending.child is None:
        canceling.cancel_children(task)
    else:
        suspending.take_along(Q(task=task))  # the child may have gone on before it was watched


async def _note_late(assignment: Assignment) -> None:
    run_id: uuid.UUID = assignment.hold.run_id
    await db.run(notes.leave, run_id, f"Attempt {assignment.attempt} ended after the run was no longer its own.")


@cache
def _executor(kind: str) -> Executor:
    found: Executor = import_string(settings.EXECUTORS[kind])
    return found
