"""Answering with a message at once: no task, no run; the question and the answer are recorded together."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.db import IntegrityError
from django.db.models import Q

import agentkit
import db
from agentkit import Answer, ReferencedTask, Session
from apps.accounts.principals import Principal
from apps.agents import versions
from apps.agents.models import Agent
from apps.engine import accept, earlier, hosting, remembering
from apps.engine.breaking import BROKEN, INVALID, code_of
from apps.engine.cleaning import clean, clean_parts
from apps.record import addressing, authors, blobs, ledger, wire
from apps.record.errors import InvalidParams, Refusal
from apps.record.events import JSON, EventType
from apps.record.models import Accepted, Context, Message
from db import statements
from db.transactions import transacting

log = logging.getLogger("parley.engine")


class NoAnswer(Refusal):
    """The agent could not be asked. Try again, or tell its operators."""


@dataclass(frozen=True, slots=True)
class Answered:
    context: uuid.UUID
    index: int
    message: JSON
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What an agent is given of the conversation, beside the message."""

    history: Sequence[agentkit.Message] = ()
    references: Sequence[ReferencedTask] = ()
    memory: JSON = field(default_factory=dict)
    options: JSON = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """An answer, and what the agent keeps in the conversation's memory."""

    answer: Answer
    kept: remembering.Changes | None = None


class AnsweredMeanwhile(Exception):
    """The answer is in the record already: of an earlier try, or of somebody who took the message over."""


async def answer(principal: Principal, agent: Agent, message: JSON, given: Answer | None = None) -> Answered:
    """The agent's answer, recorded together with the message: `given`, where it has answered already.

    Where the agent fails, its answer is an error: a sentence, and a code for programs in `metadata.error`.
    Raises errors.Refusal where the agent is not asked; then nothing was stored.
    """
    body_hash = accept.hash_of(message)
    while (earlier := await db.run(_claim, principal, agent, message, body_hash)) is not None:
        if earlier.message:
            return earlier
        await asyncio.sleep(0.1)  # the same message is being answered for another request of this sender
    try:
        said = Said(given) if given else await _asked(principal, agent, message)
        said = dataclasses.replace(said, answer=_fit(agent, said.answer))
    except BaseException:
        await db.run(_release, principal, agent, message)
        raise
    # A caller that goes away now leaves the answer in the record, for when it asks again.
    return await asyncio.shield(db.run(_record_or_release, principal, agent, message, said))


async def _asked(principal: Principal, agent: Agent, message: JSON) -> Said:
    """What the agent says, or what is to be said in its place, and what it keeps. Raises NoAnswer."""
    if not hosting.can_take(agent):
        raise NoAnswer("The agent is too busy to answer. Try again in a while.")
    known = Known()
    if message.get("contextId") or message.get("referenceTaskIds"):
        known = await db.run(_known, principal, agent, message)
    session = Session(copy.deepcopy(known.memory), options=known.options)
    answer = await _answered_in_time(agent, message, known, session)
    try:
        return Said(answer, remembering.changes(known.memory, session.memory))
    except remembering.TooMuchToRemember as much:
        return Said(Answer.error(str(much), much.code))
    except ValueError:
        log.exception("agent %s keeps what cannot be kept", agent.slug)
        return Said(Answer.error(BROKEN, INVALID))


async def _answered_in_time(agent: Agent, message: JSON, known: Known, session: Session) -> Answer:
    said = agentkit.Message.from_wire(message, load=blobs.content_of)
    try:
        async with asyncio.timeout(settings.ANSWER_SECONDS) as limit:
            return await hosting.answer(
                agent, said, history=known.history, references=known.references, session=session
            )
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():  # a handler may raise one of its own
            late = f"The agent did not answer within {settings.ANSWER_SECONDS:g} seconds. Try again, or ask for less."
            return Answer.error(late, "time_limit")
        log.exception("agent %s failed", agent.slug)
        return Answer.error(BROKEN, code_of(error))


def _fit(agent: Agent, said: Answer) -> Answer:
    """The answer with its values fit for the record."""
    try:
        return Answer(clean_parts(said.parts), clean(said.metadata))
    except Exception:
        log.exception("agent %s gave an answer that cannot be sent", agent.slug)
        return Answer.error(BROKEN, INVALID)


def _known(principal: Principal, agent: Agent, message: JSON) -> Known:
    context = addressing.find_target(principal, agent, message).context
    named = addressing.references_of(principal, message, context)
    references = earlier.tasks(named, principal.user_id, context)
    if context is None:
        return Known(references=references)
    history = [earlier.said(row, context) for row in earlier.messages(context)]
    return Known(history, references, context.memory, context.options)


def _claim(principal: Principal, agent: Agent, message: JSON, body_hash: str) -> Answered | None:
    """None where the message is this caller's to answer; otherwise the earlier answer, empty while it is being made."""
    addressing.find_target(principal, agent, message)
    if not principal.is_known:
        return None
    accepted = accept.find_accepted(principal.sender, agent, message["messageId"], body_hash)
    if accepted is None:
        return _claim_new(principal, agent, message, body_hash)
    if accepted.answer is not None:
        return _answered(accepted.answer)
    if accepted.task_id is not None:
        raise InvalidParams("This messageId led to a task. Use a new messageId.", "messageId")
    if accepted.claimed_until is None:
        raise InvalidParams(
            "This messageId was sent in a conversation that was cleared. Use a new messageId.", "messageId"
        )
    now = statements.database_time()
    overdue = Accepted.objects.filter(pk=accepted.pk, answer=None, claimed_until__lt=now)
    if overdue.update(claimed_until=_deadline(now)):
        return None
    return Answered(uuid.UUID(int=0), 0, {})


def _answered(row: Message) -> Answered:
    return Answered(row.context_id, row.index, wire.message(row, row.context), repeated=True)


def _claim_new(principal: Principal, agent: Agent, message: JSON, body_hash: str) -> Answered | None:
    try:
        with transacting():
            Accepted.objects.create(
                sender=principal.sender,
                agent=agent,
                message_id=message["messageId"],
                body_hash=body_hash,
                claimed_until=_deadline(statements.database_time()),
            )
    except IntegrityError:
        return Answered(uuid.UUID(int=0), 0, {})
    return None


def _deadline(now: datetime.datetime) -> datetime.datetime:
    """Until when others leave an answer to whoever claimed it at `now`."""
    return now + datetime.timedelta(seconds=settings.ANSWER_SECONDS + 5)


def _release(principal: Principal, agent: Agent, message: JSON) -> None:
    """What was not answered may be sent again."""
    Accepted.objects.filter(
        Q(answer=None, task=None), sender=principal.sender, agent=agent, message_id=message["messageId"]
    ).delete()


def _record_or_release(principal: Principal, agent: Agent, message: JSON, said: Said) -> Answered:
    try:
        try:
            return _record(principal, agent, message, said)
        except (IntegrityError, Context.DoesNotExist):  # its context was opened, or cleared, at this very moment
            return _record(principal, agent, message, said)
    except AnsweredMeanwhile:
        accepted = accept.find_accepted(principal.sender, agent, message["messageId"], accept.hash_of(message))
        if accepted is None or accepted.answer is None:
            raise NoAnswer from None
        return _answered(accepted.answer)
    except BaseException:
        _release(principal, agent, message)
        raise


def _record(principal: Principal, agent: Agent, message: JSON, said: Said) -> Answered:
    stored = {**message, "parts": blobs.store_large(message["parts"])}
    parts = blobs.store_large([dict(part) for part in said.answer.parts])
    answered: JSON = {"parts": parts, "metadata": authors.named(said.answer.metadata, agent)}
    target = addressing.find_target(principal, agent, message)
    version = versions.version_at(agent.current_version_id) if agent.current_version_id else None
    with ledger.writing(target.context.pk if target.context else ledger.new_context()) as log:
        payload: JSON = {"message": stored}
        if target.context is None:
            payload["opens"] = log.opening(accept.opening(principal, agent, message))
        payload |= accept.title_for(log.context, message)
        payload["message"] = accept.addressed(stored, log.context, None)
        log.add(EventType.USER_MESSAGE, payload)
        spoken = {"messageId": str(uuid.uuid4()), "contextId": log.context.context_id, "role": "ROLE_AGENT"}
        by = {"agent": agent.pk} | ({"version": version.number} if version else {})
        event = log.add(EventType.AGENT_MESSAGE, {"message": spoken | answered, **by})
        if said.kept is not None:
            said.kept.write(log)
        row = log.message_at(event.index)
        claimed = Accepted.objects.filter(
            sender=principal.sender, agent=agent, message_id=message["messageId"], answer=None
        )
        if principal.is_known and not claimed.update(answer=row, claimed_until=None):
            raise AnsweredMeanwhile
    return Answered(log.context.pk, event.index, wire.message(row, log.context))
