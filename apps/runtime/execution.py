"""Executing one run: the handler takes its turn, what it says is recorded, and so is how it ends."""

from __future__ import annotations

import asyncio
import copy
import logging
import traceback
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.utils.module_loading import import_string

import bridge
from agentkit import Failed, HandlerError, Outcome, Session, TaskContext
from apps.agents.models import Agent
from apps.conversations import notes
from apps.conversations.events import JSON
from apps.conversations.ledger import LeaseLost
from apps.runtime import outcomes, remembering
from apps.runtime.claims import Assignment
from apps.runtime.cleaning import clean, clean_outcome
from apps.runtime.outcomes import Ending
from apps.runtime.publishing import publish
from apps.runtime.recording import Recorder, RecordLost
from apps.runtime.remembering import TooMuchToRemember

log = logging.getLogger("parley.runtime")

Executor = Callable[[Agent, TaskContext], Awaitable[Outcome]]
"""What `EXECUTORS` names for each kind of agent."""


async def execute(assignment: Assignment, interrupted: Callable[[], bool]) -> None:
    """Take the turn of a run that this process holds, to its recorded end.

    Cancel it to stop the handler: `interrupted` tells whether the task then goes on with a newer message; otherwise
    nothing more is recorded, for whoever stopped it has recorded that.
    """
    recorder = Recorder(assignment)
    task = context_of(assignment, recorder)
    outcome: Outcome | None
    error: JSON | None = None
    try:
        try:
            outcome, error = await _turn(assignment.agent, task)
        except asyncio.CancelledError:
            if not interrupted():
                raise
            outcome = None
        await _through(_end(assignment, recorder, outcome, task, error), interrupted)
    except LeaseLost:
        await _note_late(assignment)
    except asyncio.CancelledError:
        recorder.abandon()
        raise


async def _through(ending: Coroutine[Any, Any, None], interrupted: Callable[[], bool]) -> None:
    """Await the recording of a turn's end, which an interruption does not cut short: the turn is over already."""
    work = asyncio.ensure_future(ending)
    while True:
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if work.cancelled() or not interrupted():
                work.cancel()
                raise


def context_of(assignment: Assignment, recorder: Recorder) -> TaskContext:
    """What the handler is given."""
    owner = assignment.task.owner
    return TaskContext(
        task_id=str(assignment.task.pk),
        context_id=assignment.task.context.context_id,
        message=assignment.said,
        history=assignment.history,
        references=assignment.references,
        skill=assignment.task.metadata.get("skill"),
        slot=assignment.slot["name"] if assignment.slot else None,
        asked=assignment.slot or {},
        resumed=assignment.resumed,
        memory=dict(assignment.memory),
        session=Session(copy.deepcopy(assignment.task.context.memory)),
        attempt=assignment.attempt,
        caller=owner.short_name if owner else None,
        emit=recorder.emit,
    )


async def _turn(agent: Agent, task: TaskContext) -> tuple[Outcome, JSON | None]:
    """The outcome of the handler's turn, whatever it raises, and what operators should know of an error."""
    try:
        async with asyncio.timeout(agent.time_limit) as limit:
            return await _executor(agent.kind)(agent, task), None
    except (LeaseLost, RecordLost):
        raise
    except HandlerError as error:
        return _broken(agent, error, "agent_unavailable")
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():  # a handler may raise one of its own
            seconds = f"{agent.time_limit:g}"
            return Failed(f"The agent took longer than its limit of {seconds} seconds.", "time_limit"), None
        return _broken(agent, error, "agent_error")


def _broken(agent: Agent, error: Exception, code: str) -> tuple[Outcome, JSON]:
    log.error("agent %s failed", agent.slug, exc_info=error)
    told = {"code": code, "message": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    return Failed("The agent stopped because of an error of its own. Its operators can see the details.", code), told


async def _end(
    assignment: Assignment, recorder: Recorder, outcome: Outcome | None, task: TaskContext, error: JSON | None
) -> None:
    try:
        ending = Ending(
            assignment.hold,
            clean_outcome(outcome, assignment.given) if outcome else None,
            turn=assignment.turn,
            quiet_until=assignment.quiet_until,
            nothing_before=assignment.turn == 1 and assignment.hold.fence == 1,
            memory=clean(task.memory),
            session=remembering.changes(assignment.task.context.memory, task.session.memory),
            tokens=await recorder.close(),
            streamed=recorder.streamed,
            error=error,
            input_hash=assignment.input_hash,
            usage=recorder.spent.as_json,
        )
        await bridge.persist(_finish, assignment, ending)
    except (LeaseLost, RecordLost, OperationalError, InterfaceError):
        raise
    except TooMuchToRemember as much:
        too_large = Failed(str(much), "memory_too_large")
        ending = Ending(assignment.hold, too_large, turn=assignment.turn, memory=assignment.memory)
        await bridge.persist(_finish, assignment, ending)
    except Exception as unsaid:  # what the agent delivers cannot be recorded as it is
        failed, told = _broken(assignment.agent, unsaid, "agent_error")
        ending = Ending(
            assignment.hold,
            failed,
            turn=assignment.turn,
            memory=assignment.memory,
            error=told,
            usage=recorder.spent.as_json,
        )
        await bridge.persist(_finish, assignment, ending)


def _finish(assignment: Assignment, ending: Ending) -> None:
    following = outcomes.finish(assignment.task, assignment.message, ending)
    if following is not None:
        publish(following)


async def _note_late(assignment: Assignment) -> None:
    run_id: uuid.UUID = assignment.hold.run_id
    await bridge.run(notes.leave, run_id, f"Attempt {assignment.attempt} ended after the run was no longer its own.")


@cache
def _executor(kind: str) -> Executor:
    found: Executor = import_string(settings.EXECUTORS[kind])
    return found
