"""Sending a message to an agent, for every edge: A2A, the client API, pages, plans, the command line.

The agent answers with a message at once or by a task. A message that leads to a task is accepted (`accept`), and its
run is published (`queue`). An answer is recorded together with what it answers, without a task or a run.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime
import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from django.conf import settings
from django.db import IntegrityError
from django.db.models import Q

import agentkit
import db
from agentkit import (
    Answer,
    Clarify,
    ExistingTask,
    HandlerError,
    ReferencedTask,
    ResponseType,
    Session,
    Start,
    chooses,
    text_part,
)
from agentkit.runner import constant_response_type, selector_takes_task
from apps.accounts.principals import ANONYMOUS, Principal
from apps.agents import versions
from apps.agents.models import Agent
from apps.engine import accept, assignment, handlers, output
from apps.engine.accept import Question, Receipt
from apps.engine.output import AGENT_ERROR_MESSAGE, INVALID_RESPONSE, clean, clean_parts, error_code
from apps.engine.queue import publish
from apps.record import feed, ledger, lineage, lookup, projection, wire
from apps.record.content import blobs
from apps.record.content.strict_json import digest_of
from apps.record.errors import InvalidParams, Refusal, TaskNotFound, UnsupportedOperation
from apps.record.events import JSON, EventType
from apps.record.models import Accepted, Context, Message, Task, TaskState
from apps.record.sql import TASK
from db import sql
from db.sql import write_transaction

log = logging.getLogger("parley.engine")


@dataclass(frozen=True, slots=True)
class Sent:
    """What a message led to: a task, or an answer (an A2A message) at once. `index` is where in its log it stands."""

    context: uuid.UUID
    index: int
    task: uuid.UUID | None = None
    answer: JSON | None = None
    repeated: bool = False
    since: float | None = None  # nothing followed `index` at some time after this (see `feed.follow`)


async def send(
    principal: Principal,
    agent: Agent,
    message: JSON,
    *,
    require_task: bool = False,
    extra_writes: accept.ExtraWrites | None = None,
    question: Question | None = None,
    skill: str | None = None,
    question_index: int | None = None,
    traceparent: str = "",
) -> Sent:
    """Send a user's message (A2A shape, checked by the edge) to an agent that `principal` may use.

    A message that continues a task, or for which `require_task` is set, leads to a task; otherwise the agent chooses,
    as it does which of its skills takes a new task. What answers the `question` of another task (see `accept`) is a
    task too, for the `skill` that asked. With `question_index` it answers that question of its task or nothing.
    What is to be written `extra_writes` a task is written once, and not where the agent answers with a message.
    `traceparent` is the caller's span (see `record.runs.new_span`), if it told one.
    Returns as soon as the message is recorded (or answered). Raises errors.Refusal; then nothing was stored.
    """
    if not require_task and not message.get("taskId") and question is None:
        answered = None
        if await response_type(principal, agent, message) is ResponseType.MESSAGE:
            answered = await answer_with_message(principal, agent, message)
        else:
            choice = await choose_skill(principal, agent, message)
            skill = choice.skill
            if choice.answer is not None:
                answered = await answer_with_message(principal, agent, message, Answer([text_part(choice.answer)]))
        if answered is not None:
            return Sent(answered.context, answered.index, answer=answered.message, repeated=answered.repeated)
    since = feed.start_listening()
    once = accept.idempotency_sender(principal)  # chosen before the first try: the bridge may try again
    receipt = await db.run(
        accept_and_publish,
        principal,
        agent,
        message,
        extra_writes,
        sender=once,
        skill=skill,
        question=question,
        question_index=question_index,
        traceparent=traceparent,
    )
    return Sent(
        receipt.context,
        receipt.index,
        task=receipt.task,
        repeated=receipt.repeated,
        since=None if receipt.repeated else since,
    )


async def response_type(principal: Principal, agent: Agent, message: JSON) -> ResponseType:
    """How the agent answers a message that continues no task.

    A message that was sent before is answered as it was then. Where the handler fails, takes too long or cannot be
    loaded there is a task, which can tell of it. Raises errors.Refusal.
    """
    if agent.kind != Agent.Kind.HOSTED:
        return ResponseType.TASK
    try:
        handler = await handlers.handler_of(agent)
        if (always := constant_response_type(handler)) is not None:
            return always
    except HandlerError:
        return ResponseType.TASK
    earlier = await db.run(_earlier_response_type, principal, agent, message)
    if earlier is not None or not handlers.can_run(agent):
        return earlier or ResponseType.TASK
    try:
        async with asyncio.timeout(settings.SELECT_SECONDS):
            task = await db.run(_newest_task, principal, agent, message) if selector_takes_task(handler) else None
            return await handlers.select_response_type(
                agent, agentkit.Message.from_wire(message, load=blobs.content_of), task
            )
    except Exception as error:
        log.warning("agent %s chose no response type, so there is a task: %r", agent.slug, error)
        return ResponseType.TASK


def _earlier_response_type(principal: Principal, agent: Agent, message: JSON) -> ResponseType | None:
    """How the same message is, or is being, answered already."""
    if not principal.is_known:
        return None
    accepted = accept.find_accepted(principal.sender, agent, message["messageId"], digest_of(message))
    if accepted is None:
        return None
    return ResponseType.TASK if accepted.task_id is not None else ResponseType.MESSAGE


def _newest_task(principal: Principal, agent: Agent, message: JSON) -> ExistingTask | None:
    """The newest task of the caller's conversation that the message goes on with."""
    context = lookup.find_target(principal, agent, message).context
    if context is None:
        return None
    newest = lineage.newest_task(context, agent=agent)
    return ExistingTask(str(newest.pk), newest.state) if newest else None


@dataclass(frozen=True, slots=True)
class SkillChoice:
    """A task with this skill, if one was chosen; or no task but an answer: a question, or why not."""

    skill: str | None = None
    answer: str | None = None


UNDECIDED = SkillChoice()
"""A task, in whose first turn the handler is asked."""


async def choose_skill(principal: Principal, agent: Agent, message: JSON) -> SkillChoice:
    """What the agent's handler says to a message that begins a task.

    A message that led somewhere before leads there again. A handler that fails here is asked again by the task's first
    turn, which tells of the error. Raises errors.Refusal for a messageId that was used for another message.
    """
    if agent.kind != Agent.Kind.HOSTED:
        return UNDECIDED
    said = agentkit.Message.from_wire(message, load=blobs.content_of)
    try:
        if not chooses(await handlers.handler_of(agent), said) or not handlers.can_run(agent):
            return UNDECIDED
    except HandlerError:
        return UNDECIDED
    if (earlier := await db.run(_earlier_choice, principal, agent, message)) is not None:
        return earlier
    try:
        async with asyncio.timeout(settings.ANSWER_SECONDS):
            decision = await handlers.decide_skill(agent, said)
    except Exception:
        log.exception("agent %s chose no skill", agent.slug)
        return UNDECIDED
    if isinstance(decision, Start):
        return SkillChoice(skill=decision.skill)
    return SkillChoice(answer=decision.question if isinstance(decision, Clarify) else decision.reason)


def _earlier_choice(principal: Principal, agent: Agent, message: JSON) -> SkillChoice | None:
    """Where the same message led before; what was answered then is in the record."""
    if not principal.is_known:
        return None
    accepted = accept.find_accepted(principal.sender, agent, message["messageId"], digest_of(message))
    if accepted is None or (accepted.task_id is None and accepted.answer_id is None):
        return None
    return UNDECIDED if accepted.task_id is not None else SkillChoice(answer="")


class NoAnswer(Refusal):
    """The agent could not be asked. Try again, or tell its operators."""


@dataclass(frozen=True, slots=True)
class Answered:
    context: uuid.UUID
    index: int
    message: JSON
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """What an agent is given of the conversation, beside the message."""

    history: Sequence[agentkit.Message] = ()
    references: Sequence[ReferencedTask] = ()
    memory: JSON = field(default_factory=dict)
    options: JSON = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """An answer, and what the agent keeps in the conversation's memory."""

    answer: Answer
    kept: output.MemoryChanges | None = None


class AnsweredMeanwhile(Exception):
    """The answer is in the record already: of an earlier try, or of somebody who took the message over."""


async def answer_with_message(
    principal: Principal, agent: Agent, message: JSON, given: Answer | None = None
) -> Answered:
    """The agent's answer, recorded together with the message: `given`, where it has answered already.

    Where the agent fails, its answer is an error: a sentence, and a code for programs in `metadata.error`.
    Raises errors.Refusal where the agent is not asked; then nothing was stored.
    """
    body_hash = digest_of(message)
    while (earlier := await db.run(_claim_message, principal, agent, message, body_hash)) is not None:
        if earlier.message:
            return earlier
        await asyncio.sleep(0.1)  # the same message is being answered for another request of this sender
    try:
        said = AgentAnswer(given) if given else await _ask_agent(principal, agent, message)
        said = dataclasses.replace(said, answer=_cleaned_answer(agent, said.answer))
    except BaseException:
        await db.run(_release_claim, principal, agent, message)
        raise
    # A caller that goes away now leaves the answer in the record, for when it asks again.
    return await asyncio.shield(db.run(_record_answer_or_release, principal, agent, message, said))


async def _ask_agent(principal: Principal, agent: Agent, message: JSON) -> AgentAnswer:
    """What the agent says, or what is to be said in its place, and what it keeps. Raises NoAnswer."""
    if not handlers.can_run(agent):
        raise NoAnswer("The agent is too busy to answer. Try again in a while.")
    known = Conversation()
    if message.get("contextId") or message.get("referenceTaskIds"):
        known = await db.run(_conversation, principal, agent, message)
    session = Session(copy.deepcopy(known.memory), options=known.options)
    answer = await _ask_within_deadline(agent, message, known, session)
    try:
        return AgentAnswer(answer, output.memory_changes(known.memory, session.memory))
    except output.MemoryTooLarge as much:
        return AgentAnswer(Answer.error(str(much), much.code))
    except ValueError:
        log.exception("agent %s keeps what cannot be kept", agent.slug)
        return AgentAnswer(Answer.error(AGENT_ERROR_MESSAGE, INVALID_RESPONSE))


async def _ask_within_deadline(agent: Agent, message: JSON, known: Conversation, session: Session) -> Answer:
    said = agentkit.Message.from_wire(message, load=blobs.content_of)
    try:
        async with asyncio.timeout(settings.ANSWER_SECONDS) as limit:
            return await handlers.answer(
                agent, said, history=known.history, references=known.references, session=session
            )
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():  # a handler may raise one of its own
            late = f"The agent did not answer within {settings.ANSWER_SECONDS:g} seconds. Try again, or ask for less."
            return Answer.error(late, "time_limit")
        log.exception("agent %s failed", agent.slug)
        return Answer.error(AGENT_ERROR_MESSAGE, error_code(error))


def _cleaned_answer(agent: Agent, said: Answer) -> Answer:
    """The answer with its values fit for the record."""
    try:
        return Answer(clean_parts(said.parts), clean(said.metadata))
    except Exception:
        log.exception("agent %s gave an answer that cannot be sent", agent.slug)
        return Answer.error(AGENT_ERROR_MESSAGE, INVALID_RESPONSE)


def _conversation(principal: Principal, agent: Agent, message: JSON) -> Conversation:
    context = lookup.find_target(principal, agent, message).context
    named = lookup.references_of(principal, message, context)
    references = assignment.referenced_tasks(named, principal.user_id, context)
    if context is None:
        return Conversation(references=references)
    history = [assignment.handler_message(row, context) for row in assignment.earlier_messages(context)]
    return Conversation(history, references, context.memory, context.options)


def _claim_message(principal: Principal, agent: Agent, message: JSON, body_hash: str) -> Answered | None:
    """None where the message is this caller's to answer; otherwise the earlier answer, empty while it is being made."""
    lookup.find_target(principal, agent, message)
    if not principal.is_known:
        return None
    accepted = accept.find_accepted(principal.sender, agent, message["messageId"], body_hash)
    if accepted is None:
        return _claim_new_message(principal, agent, message, body_hash)
    if accepted.answer is not None:
        return _earlier_answer(accepted.answer)
    if accepted.task_id is not None:
        raise InvalidParams("This messageId led to a task. Use a new messageId.", "messageId")
    if accepted.claimed_until is None:
        raise InvalidParams(
            "This messageId was sent in a conversation that was cleared. Use a new messageId.", "messageId"
        )
    now = sql.database_time()
    overdue = Accepted.objects.filter(pk=accepted.pk, answer=None, claimed_until__lt=now)
    if overdue.update(claimed_until=_claim_deadline(now)):
        return None
    return Answered(uuid.UUID(int=0), 0, {})


def _earlier_answer(row: Message) -> Answered:
    return Answered(row.context_id, row.index, wire.message(row, row.context), repeated=True)


def _claim_new_message(principal: Principal, agent: Agent, message: JSON, body_hash: str) -> Answered | None:
    try:
        with write_transaction():
            Accepted.objects.create(
                sender=principal.sender,
                agent=agent,
                message_id=message["messageId"],
                body_hash=body_hash,
                claimed_until=_claim_deadline(sql.database_time()),
            )
    except IntegrityError:
        return Answered(uuid.UUID(int=0), 0, {})
    return None


def _claim_deadline(now: datetime.datetime) -> datetime.datetime:
    """Until when others leave an answer to whoever claimed it at `now`."""
    return now + datetime.timedelta(seconds=settings.ANSWER_SECONDS + 5)


def _release_claim(principal: Principal, agent: Agent, message: JSON) -> None:
    """What was not answered may be sent again."""
    Accepted.objects.filter(
        Q(answer=None, task=None), sender=principal.sender, agent=agent, message_id=message["messageId"]
    ).delete()


def _record_answer_or_release(principal: Principal, agent: Agent, message: JSON, said: AgentAnswer) -> Answered:
    try:
        try:
            return _record_answer(principal, agent, message, said)
        except (IntegrityError, Context.DoesNotExist):  # its context was opened, or cleared, at this very moment
            return _record_answer(principal, agent, message, said)
    except AnsweredMeanwhile:
        accepted = accept.find_accepted(principal.sender, agent, message["messageId"], digest_of(message))
        if accepted is None or accepted.answer is None:
            raise NoAnswer from None
        return _earlier_answer(accepted.answer)
    except BaseException:
        _release_claim(principal, agent, message)
        raise


def _record_answer(principal: Principal, agent: Agent, message: JSON, said: AgentAnswer) -> Answered:
    stored = {**message, "parts": blobs.store_large(message["parts"])}
    parts = blobs.store_large([dict(part) for part in said.answer.parts])
    answered: JSON = {"parts": parts, "metadata": projection.with_author(said.answer.metadata, agent)}
    target = lookup.find_target(principal, agent, message)
    version = versions.version_at(agent.current_version_id) if agent.current_version_id else None
    with ledger.writing(target.context.pk if target.context else ledger.new_context()) as log:
        payload: JSON = {"message": stored}
        if target.context is None:
            payload["opens"] = log.opening(accept.context_opening(principal, agent, message))
        payload |= accept.title_for(log.context, message)
        payload["message"] = accept.with_ids(stored, log.context, None)
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


def accept_and_publish(
    principal: Principal,
    agent: Agent,
    message: JSON,
    extra_writes: accept.ExtraWrites | None = None,
    *,
    sender: str = "",
    skill: str | None = None,
    parent: uuid.UUID | None = None,
    question: Question | None = None,
    question_index: int | None = None,
    traceparent: str = "",
) -> Receipt:
    """Record the message (see `accept.accept`) and name its run to the workers. Raises errors.Refusal."""
    receipt = accept.accept(
        principal,
        agent,
        message,
        extra_writes,
        sender=sender,
        skill=skill,
        parent=parent,
        question=question,
        question_index=question_index,
        traceparent=traceparent,
    )
    if receipt.run is not None:
        publish(receipt.run)
    return receipt


async def wait_until_settled[T](
    context_id: uuid.UUID,
    task_id: uuid.UUID,
    after: int,
    show: Callable[[Task], T],
    since: float | None = None,
    find: Callable[[uuid.UUID], Task | None] = TASK.one,
) -> T:
    """Wait, holding no thread and no connection, until the task has ended or asks for something after event `after`.

    Gives what `show`, called where the database may be asked, makes of the task as `find` then reads it.
    Raises TaskNotFound for a task that is deleted meanwhile.
    """
    async with aclosing(feed.growth(context_id, after, since=since)) as grown:
        async for _ in grown:
            for shown in await db.run(_show_if_settled, task_id, show, find):
                return shown
    raise AssertionError("a feed does not end")


def _show_if_settled[T](
    task_id: uuid.UUID, show: Callable[[Task], T], find: Callable[[uuid.UUID], Task | None]
) -> list[T]:
    task = find(task_id)
    if task is None:
        raise TaskNotFound
    return [show(task)] if TaskState(task.state).is_settled else []


def run_again(task: Task) -> Receipt:
    """Send a task's first message once more, as its owner, in a new task that references the old one.

    Raises errors.Refusal where the message cannot be sent again; then nothing was stored.
    """
    first = Message.objects.filter(task=task, role=Message.Role.USER).order_by("index").first()
    if first is None:
        raise UnsupportedOperation("The task has no message to be sent again.")
    message = {
        "messageId": str(uuid.uuid4()),
        "contextId": task.context.context_id,
        "role": "ROLE_USER",
        "parts": first.parts,
        "referenceTaskIds": [str(task.pk)],
        **{name: kept for name in ("metadata", "extensions") if (kept := getattr(first, name))},
    }
    principal = task.owner.principal if task.owner else ANONYMOUS
    return accept_and_publish(principal, task.agent, message)
