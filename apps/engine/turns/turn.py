"""Executes one run: the agent takes its turn, whose end is recorded.

If the agent cannot be reached, its first reachable fallback takes the turn.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import logging
import time
import traceback
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import Q
from opentelemetry.trace import Span, get_current_span

from agentkit import (
    AuthRequired,
    Client,
    Completed,
    Failed,
    HandlerError,
    InputRequired,
    Outcome,
    PaymentRequired,
    Progress,
    Session,
    Suspended,
    TaskContext,
)
from agentkit.clients import CLIENT
from agentkit.content.passages import Search
from agentkit.context import bookmarks
from agentkit.errors import Escaped
from agentkit.runner import contained
from apps.agents import versions
from apps.agents.models import USUAL_SECONDS, Agent, in_words
from apps.engine import cancel, finish
from apps.engine.finish import STATES, Ending, Ongoing
from apps.engine.queue import publish
from apps.engine.turns import delegation, guarding, handlers, payments
from apps.engine.turns.approvals import TurnApprovals
from apps.engine.turns.assignment import Assignment, ReleaseSlot, handler_message, searcher_in, told_to_handler
from apps.engine.turns.delegation import Delegation, principal_of
from apps.engine.turns.effects import TaskEffects
from apps.engine.turns.guards import GUARDED
from apps.engine.turns.handlers import Blocked
from apps.engine.turns.inbox import TaskMail
from apps.engine.turns.output import (
    AGENT_ERROR_MESSAGE,
    INVALID_RESPONSE,
    MemoryTooLarge,
    NewEvent,
    TooLarge,
    clean,
    clean_outcome,
    error_code,
    memory_changes,
    those_with_room,
)
from apps.engine.turns.recorder import Recorder, RecordLost, event_of
from apps.record import runs
from apps.record.content.strict_json import digest_of
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.models import Task
from apps.record.projection import Author
from apps.record.runs import LeaseLost
from parley import db
from parley.registry import added
from parley.telemetry import metrics, tracing

log = logging.getLogger("parley.engine")

BLOCKED_MESSAGE = (
    "The agent computed for long without letting others go on, and was stopped. Its author can write it as `def`, "
    "which runs in a thread."
)

Executor = Callable[[Assignment, TaskContext, ReleaseSlot], Awaitable[Outcome | Ongoing]]
"""One of the `executors`. It enters the `ReleaseSlot` while it only waits."""


async def execute_turn(
    assignment: Assignment, interrupted: Callable[[], bool], release_slot: ReleaseSlot = nullcontext
) -> None:
    """Take the turn of a run that this process holds, and record its end.

    Cancel it to stop the handler. If `interrupted` then reports a newer message, the task continues with it; otherwise
    nothing more is recorded. `release_slot` is entered while the turn waits for children.
    """
    recorder = Recorder(assignment)
    calls = Delegation(assignment, recorder, release_slot, is_used=assignment.original is not None)
    task = task_context(assignment, recorder, calls)
    outcome: Outcome | Ongoing | None = None
    error: JSON | None = None
    try:
        try:
            if assignment.asked_by is not None:
                await calls.forward_answer(assignment.asked_by)
            outcome, error = await _run_agent(assignment, task, calls, release_slot)
        except asyncio.CancelledError:
            if not interrupted():
                raise
        # An interruption does not cut short the recording of the end.
        end = asyncio.eager_task_factory(
            asyncio.get_running_loop(), _finish_turn(assignment, recorder, outcome, task, error, calls)
        )
        while True:
            try:
                await asyncio.shield(end)
                break
            except asyncio.CancelledError:
                if end.cancelled() or not interrupted():
                    end.cancel()
                    raise
    except LeaseLost:
        note = f"Attempt {assignment.attempt} ended after the run was no longer its own."
        await db.run(runs.add_note, assignment.lease.run_id, note)
        if recorder.usage.models:
            await db.run(runs.save_usage, assignment.lease, recorder.usage)
    except asyncio.CancelledError:
        recorder.abandon()
        if recorder.usage.models:
            await db.run(runs.save_usage, assignment.lease, recorder.usage)
        raise


def task_context(assignment: Assignment, recorder: Recorder, calls: Delegation) -> TaskContext:
    owner, message, options = assignment.task.owner, assignment.input_message, assignment.input.get("options") or {}
    model = options.get("model")
    return TaskContext(
        task_id=str(assignment.task.pk),
        context_id=assignment.task.context.context_id,
        message=message,
        history=assignment.history,
        references=assignment.references,
        skill=assignment.skill,
        slot=assignment.slot["name"] if assignment.slot else None,
        asked=assignment.slot or {},
        resumed=assignment.resumed,
        memory=dict(assignment.memory),
        session=Session(copy.deepcopy(assignment.task.context.memory), options=copy.deepcopy(options)),
        attempt=assignment.lease.fence,  # a start that counts as no attempt may have had effects, too
        caller=owner.short_name if owner else None,
        emit=recorder.emit,
        lend=partial(added["credential_lender"], assignment),
        find=_search_of(assignment),
        delegate=calls,
        effects=TaskEffects(assignment, recorder),
        approvals=TurnApprovals(assignment, recorder),
        mail=TaskMail(assignment, recorder),
        stop_after_step=assignment.stop_after_step,
        model=model if model and assignment.agent.offers_models else None,
        client=_client_of(assignment),
        **told_to_handler(assignment.told),
    )


def _search_of(assignment: Assignment) -> Search:
    project = assignment.task.context.project
    return handlers.search_of(assignment.agent, project, partial(searcher_in, assignment))


def _client_of(assignment: Assignment) -> Client:
    """What the sender's program asks, and what it answered."""
    message = assignment.input_message
    if not (assignment.original is not None or assignment.slot or CLIENT in message.wire.get("metadata", ())):
        return Client(answer=message)
    if assignment.original is None:
        return Client.of(assignment.input_message, assignment.slot)
    answer = handler_message(assignment.message, assignment.task.context)
    return Client.of(answer, assignment.answered, Client.of(assignment.input_message))


async def _run_agent(
    assignment: Assignment, task: TaskContext, calls: Delegation, release_slot: ReleaseSlot
) -> tuple[Outcome | Ongoing, JSON | None]:
    """The outcome of the agent or its fallback, and the error for operators.

    A child's question is the outcome, even if the handler returned another.
    """
    agent = assignment.agent
    error: JSON | None = None
    spent = (
        assignment.seconds if agent.kind == Agent.Kind.REMOTE else 0.0
    )  # between attempts it keeps working, so that time counts
    outcome: Outcome | Ongoing
    try:
        left = None if agent.time_limit is None else max(0.0, agent.time_limit - spent)
        says_its_time = agent.capabilities.get(USUAL_SECONDS)
        notice = _notice_when_late(agent, calls.recorder, spent) if says_its_time else nullcontext()
        async with asyncio.timeout(left) as limit, notice:
            while True:
                held = await guarding.before_agent(assignment, calls.recorder, task)
                if held is not None:
                    calls.recorder.guard = None  # these are the platform's own words, or they were checked
                    return held, None
                if assignment.input.get(GUARDED):
                    task = dataclasses.replace(guarding.told(task, assignment), client=_client_of(assignment))
                try:
                    with contained():
                        outcome = await added["executors", assignment.agent.kind](assignment, task, release_slot)
                    break
                except (AgentUnavailable, HandlerError):
                    if calls.is_used or not await hand_to_fallback(assignment, calls.recorder, task):
                        raise
                session = dataclasses.replace(task.session, options=assignment.options)
                task = dataclasses.replace(task, skill=assignment.skill, session=session, find=_search_of(assignment))
    except (LeaseLost, RecordLost):
        raise
    except Suspended as suspended:
        return suspended.question, None
    except AgentUnavailable as unavailable:
        outcome = Failed(str(unavailable), unavailable.code)
    except Blocked:
        outcome = Failed(BLOCKED_MESSAGE, "blocked")
    except Exception as raised:
        if isinstance(raised, TimeoutError) and limit.expired():
            outcome = Failed(f"The agent took longer than its limit of {agent.time_limit:g} seconds.", "time_limit")
        else:
            outcome, error = _agent_error(assignment, raised)
    if isinstance(outcome, PaymentRequired) and not payments.is_on():
        outcome = Failed(payments.OFF, "payments_off")
    return (calls.suspended.question, None) if calls.suspended else (outcome, error)


@asynccontextmanager
async def _notice_when_late(agent: Agent, recorder: Recorder, spent: float) -> AsyncIterator[None]:
    """Tells who waits, once, that the turn takes twice as long as the agent declares. `spent` in seconds."""

    async def tell(usual: float) -> None:
        await asyncio.sleep(2 * usual - spent)
        notice = event_of(Progress(f"{agent.name} usually takes {in_words(usual)}. It is still working."))
        with suppress(LeaseLost, RecordLost):
            await recorder.record(NewEvent(notice.type, notice.payload))

    usual = agent.usual_seconds
    waiting = asyncio.create_task(tell(usual)) if usual and spent < 2 * usual else None
    try:
        yield
    finally:
        if waiting is not None:
            waiting.cancel()


AGENT_FIELDS = ("agent", "options", "skill", "sent", GUARDED)  # of a run's input; a fallback has its own


class AgentUnavailable(Exception):
    """The agent cannot be reached, and nothing was sent to it. `str()` is a sentence for people."""

    code = "unavailable"


async def hand_to_fallback(assignment: Assignment, recorder: Recorder, task: TaskContext) -> bool:
    """Hand the turn to the next fallback. Returns False if there is none or the turn cannot be handed on.

    It cannot if the agent said anything or the message answers its question. Raises LeaseLost.
    """
    if recorder.has_spoken or assignment.slot is not None or assignment.original is not None:
        return False
    unavailable = assignment.agent
    fallback = await db.run(_next_fallback, assignment)
    if fallback is None:
        return False
    assignment.input = await db.persist(_record_fallback, assignment, fallback)
    assignment.input_hash = digest_of(assignment.input)
    assignment.hand_to(fallback)
    task.memory.clear()
    notice = event_of(Progress(f"{unavailable.name} is not available. {fallback.name} answers instead."))
    author = {"agent": fallback.pk} | ({"version": version.number} if (version := fallback.current_version) else {})
    await recorder.record(NewEvent(notice.type, notice.payload | author))
    return True


def _next_fallback(assignment: Assignment) -> Agent | None:
    own = Agent.objects.get(tasks=assignment.task.pk)
    slugs = own.fallbacks
    if assignment.agent.slug in slugs:
        slugs = slugs[slugs.index(assignment.agent.slug) + 1 :]
    usable = Agent.objects.visible_to(principal_of(assignment.task)).filter(slug__in=slugs).exclude(pk=own.pk)
    for agent in sorted(usable, key=lambda agent: slugs.index(agent.slug)):
        if agent.refused_part(assignment.message.parts) is None and handlers.can_run(agent):
            return agent
    return None


def _record_fallback(assignment: Assignment, fallback: Agent) -> JSON:
    """Record the fallback in the run, for its other attempts. Returns the run's new input. Raises LeaseLost."""
    version = versions.version_at(fallback.current_version_id) if fallback.current_version_id else None
    fallback.current_version = version
    held = Run.objects.filter(**assignment.lease.is_held, state=Run.State.RUNNING)
    given = held.values_list("input", flat=True).first()
    if given is None:
        raise LeaseLost
    told = guarding.for_fallback(given.get(GUARDED))
    given = {name: value for name, value in given.items() if name not in AGENT_FIELDS} | (
        {GUARDED: told} if told else {}
    )
    if version is not None:
        given["agent"] = version.reference
    if not held.update(agent=fallback, input=given, input_hash=digest_of(given), memory={}, remote={}):
        raise LeaseLost
    return given


def _agent_error(assignment: Assignment, raised: Exception, code: str = "") -> tuple[Outcome, JSON]:
    code = code or error_code(raised)
    error = {"code": code, "message": f"{type(raised).__name__}: {raised}", "traceback": traceback.format_exc()}
    error = assignment.redaction(error)
    handlers.log_error(assignment.agent, raised, whole=error["traceback"])
    return Failed(_message_of(assignment, raised), code), error


def _message_of(assignment: Assignment, raised: Exception) -> str:
    """For who asked: operators are told why an agent cannot be loaded."""
    if isinstance(raised, Escaped):
        return str(raised)
    if not isinstance(raised, HandlerError):
        return AGENT_ERROR_MESSAGE
    owner, name = assignment.task.owner, assignment.agent.name
    if owner is not None and owner.is_operator:
        return f"{name} cannot work at the moment. {assignment.redaction(str(raised))}"
    return f"{name} cannot work at the moment: its code cannot be loaded. Ask an operator, who sees why on its page."


async def _finish_turn(
    assignment: Assignment,
    recorder: Recorder,
    outcome: Outcome | Ongoing | None,
    task: TaskContext,
    error: JSON | None,
    calls: Delegation,
) -> None:
    """Record the turn's end, or a failure if its result cannot be recorded. Raises LeaseLost."""
    agent, child = assignment.agent, calls.asking if outcome else None
    if recorder.guard is not None and outcome is not None and not isinstance(outcome, Ongoing):
        outcome = await _checked(assignment, recorder, task, outcome, child)
        child = child if isinstance(outcome, InputRequired | AuthRequired) else None
    ending = Ending(
        assignment.lease,
        outcome,
        turn=assignment.turn,
        is_first_attempt=assignment.turn == 1 and assignment.lease.fence == 1,
        error=error,
        child=child,
        input_hash="" if agent.kind == Agent.Kind.REMOTE else assignment.input_hash,
        read_until=assignment.read_until,
        fallback_id=assignment.fallback_id,
        span=assignment.span,
        also=assignment.at_end,
        author=await _author(calls, outcome, child) if calls.is_used or child is not None else None,
    )
    try:
        ending.tokens = await recorder.close()  # first, so that this run writes nothing else
        ending.streamed, ending.is_written, ending.events = recorder.streamed, recorder.is_written, recorder.unwritten
        _complete(ending, assignment, recorder, task)
        if child is not None:
            await db.persist(delegation.watch_child, child.pk)
        following = await db.persist(finish.finish, assignment.task, assignment.message, ending)
    except (LeaseLost, RecordLost, OperationalError, InterfaceError):
        raise
    except Exception as raised:
        if isinstance(raised, MemoryTooLarge | TooLarge):
            failed: Outcome = Failed(str(raised), raised.code)
            error = None
        else:
            failed, error = _agent_error(assignment, raised, INVALID_RESPONSE)
        ending = Ending(
            assignment.lease,
            failed,
            turn=assignment.turn,
            memory=assignment.memory,
            error=error,
            streamed=recorder.streamed,
            is_written=recorder.is_written,
            events=recorder.unwritten,
            usage=recorder.usage.as_json,
            read_until=assignment.read_until,
            fallback_id=assignment.fallback_id,
            span=assignment.span,
            also=assignment.at_end,
        )
        following = await _record_failure(assignment, ending)
    outcome = ending.outcome
    has_answer = not isinstance(outcome, Completed) or ending.streamed or outcome.artifacts or outcome.parts
    if not has_answer and agent.kind == Agent.Kind.HOSTED:
        log.warning("agent %s returned no answer", agent.slug)
        await db.run(runs.add_note, assignment.lease.run_id, NO_ANSWER_NOTE)
    if (span := get_current_span()).is_recording():
        _mark_span(span, ending)
    _count_end(assignment, ending)
    if calls.is_used and agent.kind != Agent.Kind.PLAN:  # a plan's children live until its task ends
        await calls.made()
        await db.run(_release_children, assignment.task.pk, ending)
    if following is not None:  # last, so that the next turn's children are not canceled
        await db.run(publish, following)


async def _checked(
    assignment: Assignment, recorder: Recorder, task: TaskContext, outcome: Outcome, child: Task | None
) -> Outcome:
    """The outcome as guards let it pass. The question of a `child` was checked there. Raises LeaseLost, RecordLost."""
    try:
        checked = await guarding.after_agent(assignment, recorder, task, Completed() if child else outcome)
    except (LeaseLost, RecordLost, OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("what run %s said could not be checked", assignment.lease.run_id)
        return guarding.not_checked()
    return outcome if child is not None and isinstance(checked, Completed) else checked


async def _record_failure(assignment: Assignment, ending: Ending) -> uuid.UUID | None:
    """Record it without those of its events that cannot be recorded. Returns the next turn's run. Raises LeaseLost."""
    task, message = assignment.task, assignment.message
    try:
        ending.events = await db.persist(those_with_room, ending.events, task.workspace_id)
        return await db.persist(finish.finish, task, message, ending)
    except (LeaseLost, RecordLost, OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("the last events of run %s cannot be recorded", assignment.lease.run_id)
        ending.events = ()
        return await db.persist(finish.finish, task, message, ending)


async def _author(calls: Delegation, outcome: Outcome | Ongoing | None, child: Task | None) -> Author | None:
    """Who wrote the outcome's message, if another agent did."""
    return calls.author_of(outcome) if child is None else await db.run(delegation.author_of_answer, child)


NO_ANSWER_NOTE = "The agent's code returned nothing and said nothing. Does it lack a return?"


def _mark_span(span: Span, ending: Ending) -> None:
    """Tell the run's span how the turn ended."""
    outcome = ending.outcome
    kind = type(outcome).__name__.lower() if outcome else "interrupted"
    span.set_attribute("parley.outcome", kind)
    for name, counted in (("input_tokens", "inputTokens"), ("output_tokens", "outputTokens"), ("cost", "cost")):
        if counted in ending.usage:
            span.set_attribute(f"parley.usage.{name}", ending.usage[counted])
    if "cost" in ending.usage:
        span.set_attribute("parley.usage.currency", settings.CURRENCY)
    if isinstance(outcome, Failed):
        tracing.fail(span, outcome.code)


def _count_end(assignment: Assignment, ending: Ending) -> None:
    slug, outcome = assignment.agent.slug, ending.outcome
    reason = str(outcome.code) if isinstance(outcome, Failed) else ""
    ended = (
        "interrupted" if outcome is None else "ongoing" if isinstance(outcome, Ongoing) else STATES[type(outcome)].value
    )
    metrics.RUNS_ENDED[slug, ended, reason].inc()
    metrics.RUN_SECONDS[slug].observe(time.monotonic() - assignment.claimed_at)


def _complete(ending: Ending, assignment: Assignment, recorder: Recorder, task: TaskContext) -> None:
    """Check and clean the result. Raises TooLarge, MemoryTooLarge, and ValueError for what is not JSON."""
    redact, outcome, memory = assignment.redaction, ending.outcome, task.memory
    is_repeated = ending.is_repeated
    if outcome is not None and not isinstance(outcome, Ongoing):
        if ending.child is None:
            recorder.limits.check(outcome, {} if is_repeated else memory)
        outcome = clean_outcome(outcome, assignment.stored_file)
        ending.outcome = redact(recorder.usage.labelled(outcome) if recorder.usage.models else outcome)
    if is_repeated:  # the repeated turn starts with the same memory
        ending.memory = assignment.memory | redact(clean(bookmarks(memory)))
    else:
        ending.memory = redact(clean(memory)) if memory else {}
        before = assignment.task.context.memory
        if task.session.memory != before:
            ending.session = memory_changes(before, redact(task.session.memory))
    ending.usage = recorder.usage.as_json if recorder.usage.models else {}


def _release_children(task: uuid.UUID, ending: Ending) -> None:
    """Cancel an ended turn's children. If it will be repeated, check whether the asking child continued."""
    if ending.child is None:
        cancel.cancel_children(task)
    else:
        delegation.resume_suspended(Q(task=task))
