"""Executes a turn of a remote agent: sends its snapshot once, then follows the remote task to its end.

The run stores the remote task's id before it records anything else of the task. A restarted worker therefore finds the
task and does not send the message again. A message that may have arrived is sent again only to an agent that recognizes
duplicates.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import stamina
from django.conf import settings
from opentelemetry.trace import Span, SpanKind

from agentkit import AuthRequired, Completed, Failed, InputRequired, Outcome, TaskContext
from apps.engine.turns.assignment import Assignment, ReleaseSlot
from apps.engine.turns.recorder import RecordLost
from apps.engine.turns.turn import AgentUnavailable
from apps.record.events import JSON
from apps.record.runs import LeaseLost
from apps.remote import a2a_client, circuit_breaker
from apps.remote.a2a_client import Peer
from apps.remote.authentication import credentials
from apps.remote.errors import CutOff, Overloaded, Refused, RemoteError, Unauthorized, Unreachable
from apps.remote.execution import cancellation, runs, snapshots, translation
from apps.remote.execution.runs import RemoteRun
from apps.remote.execution.state import StateKeeper
from apps.remote.execution.steering import Steering
from apps.remote.execution.task_follower import AgentGone, AgentMoved, AnsweredWithMessage, TaskFollower
from parley import db
from parley.registry import added
from parley.telemetry import tracing

REFUSED_WAIT = 0.3  # seconds between connections to an agent that refuses them
STEADY_SECONDS = 5.0  # that a process works before it counts as started
MESSAGE_IDS_EXTENSION = "/ext/message-ids/v1"  # end of its URI: the agent recognizes duplicates by messageId
LINKS_WANTED = frozenset({"CONTENT_TYPE_NOT_SUPPORTED", "HTTP_413", "HTTP_415"})
TASK_NOT_FOUND = "TASK_NOT_FOUND"
TASK_ENDED = frozenset({"UNSUPPORTED_OPERATION", TASK_NOT_FOUND, "INVALID_PARAMS"})
MOVED = (
    "The worker on the machine {} ended in the turn, and the agent's process there cannot be called from another. The "
    "turn is not taken again here, for the agent might do the work twice. Send the message again if you want that."
)
OUTCOME_UNKNOWN = (
    "The connection to {} was lost after the message was sent, and before the agent said what becomes of it. It is not "
    "sent a second time, for the agent might do the work twice. Send the message again if you want that."
)


async def execute(assignment: Assignment, task: TaskContext, release_slot: ReleaseSlot) -> Outcome:
    """Have the remote agent take one turn. Raises AgentUnavailable if nothing was sent."""
    left = math.inf if assignment.agent.time_limit is None else assignment.agent.time_limit - assignment.seconds
    deadline = asyncio.get_running_loop().time() + left
    remote_run: RemoteRun | None = None
    try:
        with _slot_released(release_slot):
            remote_run = await db.run(_admit_and_start, assignment)
            with tracing.span(
                f"{tracing.INVOKE_AGENT} {assignment.agent.slug}",
                kind=SpanKind.CLIENT,
                attributes={tracing.OPERATION: tracing.INVOKE_AGENT, "gen_ai.provider.name": "a2a"},
            ) as span:
                return await _take_turn(remote_run, task, span)
    except RemoteError as error:
        db.later(circuit_breaker.record_failure, assignment.agent, error)
        return await _failed_outcome(assignment, remote_run, error)
    except AgentGone as gone:
        return await _give_up(remote_run, Failed(str(gone), gone.code))
    except (asyncio.CancelledError, LeaseLost, RecordLost):  # the turn may continue in another worker
        if remote_run is not None:
            cancellation.cancel_if_unwanted(remote_run, is_late=asyncio.get_running_loop().time() >= deadline)
        raise
    except Exception:
        await _give_up(remote_run, None)
        raise


async def _take_turn(remote_run: RemoteRun, task: TaskContext, span: Span) -> Outcome:
    """The turn, in as many processes of the agent as it takes."""
    ended_at: float | None = None
    while True:
        began_at = time.monotonic()
        try:
            return await _take_turn_at_process(remote_run, task, span)
        except (_ProcessEnded, Unreachable) as error:  # one that ended soon does not start again at once
            if isinstance(error, _ProcessEnded) and (ended_at is None or error.ended_at - began_at > STEADY_SECONDS):
                ended_at = error.ended_at
            cause = error.cause if isinstance(error, _ProcessEnded) else error
            is_late = ended_at is None or time.monotonic() - ended_at > settings.REMOTE_RETRY_SECONDS
            if is_late or not cause.is_transient:
                raise cause from None
            await asyncio.sleep(REFUSED_WAIT)


async def _take_turn_at_process(remote_run: RemoteRun, task: TaskContext, span: Span) -> Outcome:
    assignment = remote_run.assignment
    async with a2a_client.connect_for(
        assignment.agent,
        assignment.task.owner_id,
        traceparent=assignment.traceparent,
        skill=task.skill or "",
        redact=assignment.redaction.keep_out,
    ) as peer:
        there = urlsplit(peer.interface.origin)
        span.set_attribute("server.address", there.hostname or "")
        span.set_attribute("server.port", there.port or (443 if there.scheme == "https" else 80))
        return await _Turn(remote_run, task, peer).outcome()


def _admit_and_start(assignment: Assignment) -> RemoteRun:
    """Raises errors.CircuitOpen, LeaseLost."""
    if not runs.is_started(assignment):  # started work is followed even if the circuit is open
        circuit_breaker.admit(assignment.agent)
    return runs.start_or_resume(assignment)


class _ProcessEnded(Exception):
    """The agent's process ended in the turn. The next connection starts it again."""

    def __init__(self, cause: RemoteError) -> None:
        super().__init__()
        self.cause, self.ended_at = cause, time.monotonic()


class _Turn:
    """One turn at a reachable agent."""

    def __init__(self, remote_run: RemoteRun, task: TaskContext, peer: Peer) -> None:
        self._remote_run, self._peer = remote_run, peer
        self._assignment = remote_run.assignment
        self._emit = task.emit
        has_begun = remote_run.is_resumed or bool(remote_run.task_id)
        self._state = StateKeeper(remote_run.assignment, peer, has_begun=has_begun)
        self._steering = Steering(remote_run, peer, task)
        self._follower = self._make_follower()
        self._began = time.monotonic()
        self._is_repeated = False  # the agent's process that had the task ended

    def _make_follower(self) -> TaskFollower:
        streams_whole = self._state.streams_whole
        return TaskFollower(self._peer, self._remote_run, self._emit, self._taken_from, streams_whole=streams_whole)

    async def _taken_from(self, event: JSON) -> JSON:
        """The event without what extensions say in it."""
        if self._remote_run.task_id and not self._follower.ended_at_once:
            self._steering.begin()
        return await self._steering.taken_from(await self._state.taken_from(event))

    async def outcome(self) -> Outcome:
        try:
            async with self._steering.alongside():
                task = await self._settled()
        except AnsweredWithMessage as answer:
            if context_id := answer.message.get("contextId") or self._remote_run.remote_ids.get("contextId"):
                runs.note_remote_context(self._remote_run, context_id)
            return translation.outcome_of_message(answer.message)
        translator = self._follower.translator
        messages = list(translator.messages.values())
        outcome = translation.outcome_of(task, self._follower.hints, translator.answer, messages)
        is_open = isinstance(outcome, InputRequired | AuthRequired)
        if self._follower.ended_at_once:
            self._assignment.at_end.run["remote"] = self._remote_run.remote_ids
            self._assignment.at_end.rows += runs.note_remote_task(self._remote_run, task, is_open=is_open)
        if not is_open and (self._remote_run.answers_task or not self._follower.ended_at_once):
            db.later(runs.close_open_work, self._remote_run)  # without waiting for it
        if not isinstance(outcome, Failed):
            await self._follower.finish()
        if isinstance(outcome, Completed):
            for note in added["remote_completion_listeners"]:
                await note(self._remote_run, task, translator.artifact_id)
        return outcome

    async def _settled(self) -> JSON:
        """The settled remote task. Raises AnsweredWithMessage, AgentGone, RemoteError, _ProcessEnded."""
        if self._remote_run.is_moved:
            await self._begin_here()
        while True:
            try:
                return await self._follow_to_end()
            except RemoteError as error:
                if not await self._begins_again(error):
                    raise
                self._is_repeated = self._remote_run.is_resumed = True
                self._follower = self._make_follower()

    async def _begin_here(self) -> None:
        """Take the turn again on this machine, with what is kept of it. Raises AgentMoved, LeaseLost."""
        remote_run, machine = self._remote_run, self._remote_run.machine
        is_over = await self._state.has_ended() if self._state.uri else False
        if is_over or not self._may_send_again or not await db.persist(runs.save_repeat, remote_run):
            raise AgentMoved(MOVED.format(machine))
        self._is_repeated = bool(remote_run.task_id)

    async def _begins_again(self, error: RemoteError) -> bool:
        """Does the agent take the turn again, from its state and with the steps that it has finished?

        It does if a process with the task ended, and turns may be repeated. Raises _ProcessEnded, LeaseLost.
        """
        remote_run = self._remote_run
        is_unsent = isinstance(error, Unreachable) and not (remote_run.task_id or remote_run.may_have_arrived)
        if self._peer.runs_here and is_unsent:
            raise _ProcessEnded(error) from error
        began = remote_run.task_id or remote_run.answers_task
        is_forgotten = isinstance(error, Refused) and error.reason == TASK_NOT_FOUND and bool(began)
        is_cut = self._peer.runs_here and isinstance(error, Unreachable | CutOff)
        is_cut = is_cut and bool(began or remote_run.may_have_arrived)
        if not (is_forgotten or is_cut) or not self._state.uri or not self._may_send_again:
            return False
        if await self._state.has_ended():
            return False
        is_repeat = error.was_sent is not False
        if is_repeat and not await db.persist(runs.save_repeat, remote_run):
            return False
        self._steering.begin_again()
        if is_cut:
            raise _ProcessEnded(error) from error
        return True

    async def _follow_to_end(self) -> JSON:
        """As `_settled`, without beginning again."""
        remote_run = self._remote_run
        if remote_run.task_id and not self._is_repeated:
            return await self._follower.settled()
        if remote_run.is_resumed and not self._may_send_again:
            if remote_run.answers_task:
                return await self._resume_answered_task()
            raise CutOff("The worker ended after it had sent the message.", is_transient=False)
        try:
            return await self._send_with_retries()
        except Refused as refusal:
            if remote_run.answers_task and not remote_run.task_id and refusal.reason in TASK_ENDED:
                return await self._resume_answered_task()
            raise

    @property
    def _may_send_again(self) -> bool:
        """Is a second send harmless? Agents recognize duplicates of authenticated callers only."""
        declared = (one.uri for one in self._peer.card.capabilities.extensions)
        remembers = self._peer.is_authenticated and any(uri.endswith(MESSAGE_IDS_EXTENSION) for uri in declared)
        return remembers or self._state.is_repeatable or self._assignment.agent.retry_safe

    async def _resume_answered_task(self) -> JSON:
        """Follow the remote task whose question is answered; the answer may have arrived."""
        await db.persist(runs.save_remote_task, self._remote_run, {"id": self._remote_run.answers_task}, is_open=False)
        return await self._follower.settled()

    async def _send_with_retries(self) -> JSON:
        as_links = False
        attempts = stamina.retry_context(
            on=self._retry_delay,
            attempts=None,
            timeout=settings.REMOTE_RETRY_SECONDS,
            wait_initial=0.2,
            wait_max=5.0,
        )
        async for attempt in attempts:
            with attempt:
                try:
                    return await self._follower.settled(await self._open_stream(as_links))
                except Refused as refusal:
                    if as_links or not self._wants_links(refusal):
                        raise
                as_links = True
                return await self._follower.settled(await self._open_stream(as_links))
        raise AssertionError("the last attempt ends or raises")

    async def _open_stream(self, as_links: bool) -> AsyncIterator[JSON]:
        run, task = self._assignment.lease.run_id, self._assignment.task.pk
        snapshot = self._remote_run.snapshot
        if snapshots.needs_reading(snapshot):
            message = await db.run(snapshots.render_message, snapshot, run, task, as_links=as_links)
        else:
            message = snapshots.render_message(snapshot, run, task)
        message = await self._state.added_to(message)
        if self._is_repeated:
            message["taskId"] = self._remote_run.task_id or self._remote_run.answers_task
        # An agent that does not stream returns its task at once.
        configuration = {"historyLength": 1, "returnImmediately": not self._peer.streams}
        return self._peer.send(message, configuration, streaming=self._peer.streams)

    def _wants_links(self, refusal: Refused) -> bool:
        return (
            refusal.reason in LINKS_WANTED
            and not self._remote_run.task_id
            and snapshots.has_files(self._remote_run.snapshot)
        )

    def _retry_delay(self, error: Exception) -> bool | float:
        """False: do not retry; True: retry after the usual wait; or the seconds that the agent asks to wait."""
        if not isinstance(error, RemoteError) or not error.is_transient or self._remote_run.task_id:
            return False
        self._remote_run.may_have_arrived |= error.was_sent is not False
        if error.was_sent is not False and not self._may_send_again:
            return False
        if isinstance(error, Unreachable) and self._peer.runs_here:
            return False  # only another connection starts its process again
        if isinstance(error, Unreachable) and not self._may_send_again:
            is_soon = time.monotonic() - self._began < settings.REMOTE_REFUSED_SECONDS
            return REFUSED_WAIT if is_soon else False  # its caller, or a fallback, learns of it
        if not isinstance(error, Overloaded) or error.retry_after is None:
            return True
        return error.retry_after <= settings.REMOTE_RETRY_SECONDS and error.retry_after


async def _failed_outcome(assignment: Assignment, remote_run: RemoteRun | None, error: RemoteError) -> Outcome:
    """The outcome of a turn that failed. Raises AgentUnavailable."""
    began = remote_run is not None and bool(remote_run.task_id)
    if isinstance(error, Unauthorized) and not began:
        question = await credentials.question_for(assignment.agent, assignment.task.owner_id, error)
        if question is not None:
            return question
    may_have_arrived = remote_run is not None and remote_run.may_have_arrived
    if error.was_sent is False and not began:
        if assignment.slot is not None and not assignment.resumed:  # the agent still waits for the answer
            return _repeat_question(assignment, error)
        if not may_have_arrived:
            unavailable = AgentUnavailable(str(error))
            unavailable.code = error.code
            raise unavailable from error
    is_unknown = not began and (isinstance(error, CutOff) or may_have_arrived)
    said = OUTCOME_UNKNOWN.format(assignment.agent.name) if is_unknown else str(error)
    return await _give_up(remote_run, Failed(said, error.code, detail=str(error)))


async def _give_up[T: Outcome | None](remote_run: RemoteRun | None, outcome: T) -> T:
    """Let the sweep cancel the remote task; returns the outcome unchanged."""
    if remote_run is not None:
        await db.run(runs.mark_unwanted, remote_run)
    return outcome


def _repeat_question(assignment: Assignment, error: RemoteError) -> Outcome:
    slot = assignment.slot or {}
    said = f"{error} Your answer did not reach it: send it again later."
    return InputRequired(said, slot.get("name", "input"), slot.get("schema"))


_waiting_turns = 0


@contextmanager
def _slot_released(release_slot: ReleaseSlot) -> Iterator[None]:
    """Release the run's slot while it waits, for at most REMOTE_RUNS_PER_PROCESS runs."""
    global _waiting_turns
    if _waiting_turns >= settings.REMOTE_RUNS_PER_PROCESS:
        yield
        return
    _waiting_turns += 1
    try:
        with release_slot():
            yield
    finally:
        _waiting_turns -= 1
