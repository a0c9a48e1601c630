"""The turn of a remote agent: its snapshot is sent once, and what becomes of it is followed, by whichever worker.

The run knows the remote task before anything of it is taken in. A worker that is restarted finds the task again
instead of sending the message again; a message of which nobody knows whether it came through is sent again only to an
agent that knows messages by their ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import stamina
from django.conf import settings

import db
from agentkit import AuthRequired, Failed, InputRequired, Outcome, TaskContext
from apps.engine.assignments import Aside, Assignment
from apps.engine.fallbacks import Unavailable
from apps.engine.recording import RecordLost
from apps.record.events import JSON
from apps.record.leases import LeaseLost
from apps.remote import attaching, breaker, calling, canceling, credentials, endings, snapshots
from apps.remote.attaching import Attachment
from apps.remote.connecting import Peer
from apps.remote.errors import CutOff, Overloaded, Refused, RemoteError, Unauthorized
from apps.remote.following import Answered, Following, Gone

REMEMBERS = "/ext/message-ids/v1"  # how the URI ends by which a card says that no message is taken twice
WANTS_LINKS = frozenset({"CONTENT_TYPE_NOT_SUPPORTED", "HTTP_413", "HTTP_415"})
ENDED = frozenset({"UNSUPPORTED_OPERATION", "TASK_NOT_FOUND", "INVALID_PARAMS"})
UNKNOWN = (
    "The connection to {} was lost after the message was sent, and before the agent said what becomes of it. It is not "
    "sent a second time, for the agent might do the work twice. Send the message again if you want that."
)


async def execute(assignment: Assignment, task: TaskContext, aside: Aside) -> Outcome:
    """Have the remote agent take one turn. Raises Unavailable where it cannot be reached and nothing was sent."""
    deadline = asyncio.get_running_loop().time() + assignment.agent.time_limit - assignment.seconds
    attachment: Attachment | None = None
    try:
        with _beside(aside):
            attachment = await db.run(_attached, assignment)
            async with calling.peer_of(
                assignment.agent,
                assignment.task.owner_id,
                traceparent=assignment.traceparent,
                skill=task.skill or "",
                keep_out=assignment.redaction.keep_out,
            ) as peer:
                return await _Turn(attachment, task, peer).outcome()
    except RemoteError as error:
        db.later(breaker.failed, assignment.agent, error)
        return await _failure(assignment, attachment, error)
    except Gone as gone:
        return await _given_up(attachment, Failed(str(gone), gone.code))
    except (asyncio.CancelledError, LeaseLost, RecordLost):  # the turn may go on in another worker
        if attachment is not None:
            canceling.soon(attachment, is_late=asyncio.get_running_loop().time() >= deadline)
        raise
    except Exception:
        await _given_up(attachment, None)
        raise


def _attached(assignment: Assignment) -> Attachment:
    """Raises errors.CircuitOpen, LeaseLost."""
    if not attaching.is_begun(assignment):  # what is there is looked after, however the agent fares
        breaker.admit(assignment.agent)
    return attaching.attach(assignment)


class _Turn:
    """One turn at an agent that can be called."""

    def __init__(self, attachment: Attachment, task: TaskContext, peer: Peer) -> None:
        self._attachment, self._peer = attachment, peer
        self._assignment = attachment.assignment
        self._following = Following(peer, attachment, task.emit)

    async def outcome(self) -> Outcome:
        try:
            task = await self._settled()
        except Answered as answer:
            if context_id := answer.message.get("contextId") or self._attachment.remote.get("contextId"):
                await db.persist(attaching.learn_context, self._attachment, context_id)
            return endings.answered(answer.message)
        outcome = endings.outcome_of(task, self._following.hints, self._following.said.answer)
        if not isinstance(outcome, InputRequired | AuthRequired):
            db.later(attaching.close, self._attachment)  # nobody need wait for it
        if not isinstance(outcome, Failed):
            await self._following.finish()
        return outcome

    async def _settled(self) -> JSON:
        """The remote task when it settles. Raises Answered, Gone, RemoteError."""
        attachment = self._attachment
        if attachment.task_id:
            return await self._following.settled()
        if attachment.is_again and not self._may_send_again:
            if attachment.continues:
                return await self._found_again()
            raise CutOff("The worker ended after it had sent the message.", is_transient=False)
        try:
            return await self._sent()
        except Refused as refusal:
            if attachment.continues and not attachment.task_id and refusal.reason in ENDED:
                return await self._found_again()  # it asks no more
            raise

    @property
    def _may_send_again(self) -> bool:
        """Is it known that the message does no harm when it comes twice? Who is known by name is remembered."""
        declared = (one.uri for one in self._peer.card.capabilities.extensions)
        remembers = self._peer.is_known_there and any(uri.endswith(REMEMBERS) for uri in declared)
        return remembers or self._assignment.agent.retry_safe

    async def _found_again(self) -> JSON:
        """What became of a remote task that was asked to go on, and may have heard of it."""
        await db.persist(attaching.learn, self._attachment, {"id": self._attachment.continues}, is_open=False)
        return await self._following.settled()

    async def _sent(self) -> JSON:
        """Send the snapshot, again and again where nothing came through, and follow what it leads to."""
        as_links = False
        attempts = stamina.retry_context(
            on=self._wait_before_again,
            attempts=None,
            timeout=settings.REMOTE_RETRY_SECONDS,
            wait_initial=0.2,
            wait_max=5.0,
        )
        async for attempt in attempts:
            with attempt:
                try:
                    return await self._following.settled(await self._stream(as_links))
                except Refused as refusal:
                    if as_links or not self._wants_links(refusal):
                        raise
                as_links = True
                return await self._following.settled(await self._stream(as_links))
        raise AssertionError("the last attempt ends or raises")

    async def _stream(self, as_links: bool) -> AsyncIterator[JSON]:
        run = self._assignment.hold.run_id
        snapshot = self._attachment.snapshot
        if snapshots.has_files(snapshot):
            message = await db.run(snapshots.rendered, snapshot, run, as_links=as_links)
        else:
            message = snapshots.rendered(snapshot, run)
        # An agent that does not stream says at once what its task is called.
        configuration = {"historyLength": 1, "returnImmediately": not self._peer.streams}
        return self._peer.send(message, configuration, streaming=self._peer.streams)

    def _wants_links(self, refusal: Refused) -> bool:
        return (
            refusal.reason in WANTS_LINKS
            and not self._attachment.task_id
            and snapshots.has_files(self._attachment.snapshot)
        )

    def _wait_before_again(self, error: Exception) -> bool | float:
        """May it be sent again, and if the agent says so, after how many seconds?"""
        if not isinstance(error, RemoteError) or not error.is_transient or self._attachment.task_id:
            return False
        self._attachment.may_have_come |= error.was_sent is not False
        if error.was_sent is not False and not self._may_send_again:
            return False
        if not isinstance(error, Overloaded) or error.retry_after is None:
            return True
        return error.retry_after <= settings.REMOTE_RETRY_SECONDS and error.retry_after


async def _failure(assignment: Assignment, attachment: Attachment | None, error: RemoteError) -> Outcome:
    """How the turn ends that came to nothing. Raises Unavailable."""
    began = attachment is not None and bool(attachment.task_id)
    if isinstance(error, Unauthorized) and not began:
        question = await credentials.question_for(assignment.agent, assignment.task.owner_id, error)
        if question is not None:
            return question
    may_have_come = attachment is not None and attachment.may_have_come
    if error.was_sent is False and not began:
        if assignment.slot is not None and not assignment.resumed:  # the agent that asked waits still
            return _asked_again(assignment, error)
        if not may_have_come:
            unavailable = Unavailable(str(error))
            unavailable.code = error.code
            raise unavailable from error
    is_unknown = not began and (isinstance(error, CutOff) or may_have_come)
    said = UNKNOWN.format(assignment.agent.name) if is_unknown else str(error)
    return await _given_up(attachment, Failed(said, error.code, detail=str(error)))


async def _given_up[T: Outcome | None](attachment: Attachment | None, outcome: T) -> T:
    """The same outcome; what the agent may still be at is canceled there by the sweep."""
    if attachment is not None:
        await db.run(attaching.give_up, attachment)
    return outcome


def _asked_again(assignment: Assignment, error: RemoteError) -> Outcome:
    """The question that could not be answered now stays one."""
    slot = assignment.slot or {}
    said = f"{error} Your answer did not reach it: send it again later."
    return InputRequired(said, slot.get("name", "input"), slot.get("schema"))


_carried = 0


@contextmanager
def _beside(aside: Aside) -> Iterator[None]:
    """Give the run's place to others, for it does little but wait; of too many, each keeps its own."""
    global _carried
    if _carried >= settings.REMOTE_RUNS_PER_PROCESS:
        yield
        return
    _carried += 1
    try:
        with aside():
            yield
    finally:
        _carried -= 1
