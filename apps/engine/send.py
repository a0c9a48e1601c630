"""Sends a message to an agent, for every edge: A2A, client API, pages, plans, command line.

The agent answers with a message or a task. `accept` records a task's message, and the `queue` publishes its run. An
answer is recorded with its message, without task or run.
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
from enum import Enum, auto
from typing import Unpack

from django.conf import settings
from django.db import IntegrityError
from django.db.models import Q

import agentkit
from agentkit import (
    Answer,
    Clarify,
    ExistingTask,
    HandlerError,
    ReferencedTask,
    ResponseType,
    Session,
    SkillHandler,
    Start,
    chooses,
)
from agentkit.content.passages import Search
from agentkit.errors import Escaped
from agentkit.outcomes import CLARIFY, REJECTED
from agentkit.runner import NeedsTask, constant_response_type, selector_takes_task
from agentkit.selecting import SKILL_ID
from apps.accounts.principals import ANONYMOUS, Principal
from apps.agents import registration, versions
from apps.agents.models import Agent, AgentVersion
from apps.engine import accept, activity, dependencies
from apps.engine.accept import REPEATS, Options, Receipt
from apps.engine.queue import publish
from apps.engine.repeats import Sent, find_accepted
from apps.engine.turns import assignment, guarding, handlers, output, payments
from apps.engine.turns.output import AGENT_ERROR_MESSAGE, INVALID_RESPONSE, clean, clean_parts, error_code
from apps.engine.turns.questions import asking_task
from apps.installation.models import Activity
from apps.record import briefings, ledger, lineage, projection, wire
from apps.record.content import blobs
from apps.record.content.composing import compose
from apps.record.content.strict_json import digest_of
from apps.record.errors import InvalidFields, KeyUsed, NoAnswer, TaskNotFound, UnsupportedOperation
from apps.record.events import JSON, EventType
from apps.record.execution import Accepted
from apps.record.models import Context, Message, Task, TaskQuerySet, TaskState
from apps.record.reading import feed, lookup
from apps.record.sql import TASK
from parley import db
from parley.db import sql
from parley.db.sql import write_transaction
from parley.telemetry import logs

log = logging.getLogger("parley.engine")


async def send(
    principal: Principal, agent: Agent, message: JSON, *, require_task: bool = False, **options: Unpack[Options]
) -> Sent:
    """Send a user's message (see `composing`) to an agent that `principal` may use.

    The agent chooses between answer and task, and a new task's skill, unless the message continues a task, or
    `require_task` or `question` is given. `extra_writes` are for tasks only.
    Returns as soon as the message is recorded or answered. Raises errors.Refusal; then nothing is stored.
    """
    is_free = not require_task and not message.get("taskId") and options.get("question") is None
    if is_free and not (message.get("metadata") and accept.named_dependencies(message)):
        choice = await _choose(principal, agent, message, options.get("finds_question", False))
        if choice is not None and choice.is_message:
            try:
                temporary = options.get("temporary", False)
                return await answer_with_message(principal, agent, message, choice, temporary=temporary)
            except NeedsTask:
                choice = BY_TASK
        if choice is not None:
            options["skill"], options["finds_question"] = choice.skill, choice.asked is not None
            options["question_index"] = options.get("question_index") or choice.asked
    may_pay = message.get("taskId") or options.get("finds_question")
    if may_pay and payments.is_on() and not payments.is_rejected(message):
        await _pay(principal, agent, message, options)
    since = feed.start_listening()
    # Chosen here, because `db.run` may try again.
    options["sender"] = options.get("sender") or principal.sender or f"call:{uuid.uuid4().hex}"
    receipt = await db.run(accept_and_publish, principal, agent, message, **options)
    return Sent(
        receipt.context,
        receipt.index,
        task=receipt.task,
        repeated=receipt.repeated,
        since=None if receipt.repeated else since,
    )


async def _pay(principal: Principal, agent: Agent, message: JSON, options: Options) -> None:
    """Settle the payment that a message brings to a task that asks for one, even if the caller goes away."""
    claimed = await db.run(_claim_payment, principal, agent, message, options)
    if claimed is not None:
        await asyncio.shield(_settle(claimed))


async def _settle(claimed: payments.Claim) -> None:
    try:
        result = await payments.bring(claimed)
    except payments.NotPaid:
        await db.run(payments.let_go, claimed)
        raise
    await db.persist(payments.keep, claimed, result)


def _claim_payment(principal: Principal, agent: Agent, message: JSON, options: Options) -> payments.Claim | None:
    """None if there is nothing to pay, or `accept` refuses the message anyway."""
    if find_accepted(principal.sender, agent, message):
        return None
    target = lookup.find_target(principal, agent, message, finds_question=options.get("finds_question", False))
    question_index = options.get("question_index")
    task = Task.objects.select_related("agent").filter(pk=target.task).first() if target.task else None
    if task is None or (question_index is not None and question_index != task.status_event):
        return None
    asking = asking_task(task.slot) or task
    return payments.claim(asking, message) if payments.asks_payment(asking.slot) else None


@dataclass(frozen=True, slots=True)
class Choice:
    """How to answer a message: by a message (`answer`, if already given), or by a task of a skill.

    `asked`: the event of the question that it answers. `admitted`: what guards decided about the message.
    """

    is_message: bool = False
    answer: Answer | None = None
    skill: str | None = None
    asked: int | None = None
    admitted: guarding.Admitted | None = None


BY_TASK = Choice()
BY_MESSAGE = Choice(is_message=True)


async def _choose(principal: Principal, agent: Agent, message: JSON, finds_question: bool) -> Choice | None:
    """How the agent answers a message without a task; None if there is nothing to choose, so that it is by a task.

    A repeated message is answered as before. If the handler fails, is late or cannot be loaded, there is a task, which
    fails with the error.
    Raises errors.Refusal for a messageId of another message.
    """
    if agent.kind != Agent.Kind.HOSTED:
        return None
    try:
        loaded = await handlers.load(agent)
        if loaded.always_task and SKILL_ID not in message.get("metadata", ()):
            return None
        handler = loaded.handler
        response_type = constant_response_type(handler)
    except HandlerError:
        return None
    received = agentkit.Message(message, blobs.content_of)
    always_task = response_type is ResponseType.TASK
    if always_task and not chooses(handler, received):
        return None
    known = await db.run(_known_choice, principal, agent, message, not always_task) if finds_question else None
    if known is not None and not known.is_message:
        return known
    admitted = await guarding.admit(principal, agent, message)
    if admitted is None:
        return known or await _chosen(principal, agent, message, handler, received)
    if admitted.needs_task:
        return BY_MESSAGE if await db.run(_is_answered, principal, agent, message) else BY_TASK
    received = agentkit.Message(admitted.message, blobs.content_of)
    choice = known or await _chosen(principal, agent, message, handler, received)
    return dataclasses.replace(choice, admitted=admitted) if choice is not None else None


async def _chosen(
    principal: Principal, agent: Agent, message: JSON, handler: SkillHandler, received: agentkit.Message
) -> Choice | None:
    """The handler's choice. `received`: the message as the agent is told it."""
    response_type = constant_response_type(handler)
    if response_type is None:
        response_type = await _select_response_type(principal, agent, handler, received, message)
    if response_type is ResponseType.MESSAGE:
        return BY_MESSAGE
    if not chooses(handler, received) or not _can_choose(agent):
        return BY_TASK
    earlier = await db.run(_earlier_choice, principal, agent, message)
    if earlier is not None:
        return earlier
    try:
        async with asyncio.timeout(settings.ANSWER_SECONDS):
            decision = await handlers.decide_skill(agent, received)
    except Exception as error:
        handlers.log_error(agent, error, "chose no skill")
        return BY_TASK
    if isinstance(decision, Start):
        return Choice(skill=decision.skill)
    if isinstance(decision, Clarify):
        return Choice(is_message=True, answer=Answer.error(decision.question, CLARIFY))
    return Choice(is_message=True, answer=Answer.error(decision.reason, REJECTED))


def _can_choose(agent: Agent) -> bool:
    """Does the agent's handler run here now? A paused agent starts nothing, so its messages become tasks that wait."""
    return handlers.can_run(agent) and agent.current_activity == Activity.ACTIVE


async def _select_response_type(
    principal: Principal, agent: Agent, handler: SkillHandler, received: agentkit.Message, message: JSON
) -> ResponseType:
    earlier = await db.run(_earlier_choice, principal, agent, message, True)
    if earlier is not None:
        return ResponseType.MESSAGE if earlier.is_message else ResponseType.TASK
    if not _can_choose(agent):
        return ResponseType.TASK
    try:
        async with asyncio.timeout(settings.SELECT_SECONDS):
            takes_task = selector_takes_task(handler)
            task = await db.run(_newest_task, principal, agent, message) if takes_task else None
            return await handlers.select_response_type(agent, received, task)
    except Exception as error:
        log.warning("agent %s chose no response type, so there is a task: %s", agent.slug, logs.describe(error))
        return ResponseType.TASK


def _earlier_choice(principal: Principal, agent: Agent, message: JSON, or_claimed: bool = False) -> Choice | None:
    """How the same message was answered before, or with `or_claimed` is being answered."""
    accepted = find_accepted(principal.sender, agent, message)
    if accepted is None:
        return None
    if accepted.task_id is not None:
        return BY_TASK
    return BY_MESSAGE if or_claimed or accepted.answer_id is not None else None


def _is_answered(principal: Principal, agent: Agent, message: JSON) -> bool:
    """Was the same message answered with a message before, so that no agent is asked?"""
    accepted = find_accepted(principal.sender, agent, message)
    return accepted is not None and accepted.answer_id is not None


def _known_choice(principal: Principal, agent: Agent, message: JSON, or_claimed: bool) -> Choice | None:
    """How the same message was answered, or the question that it answers."""
    if (earlier := _earlier_choice(principal, agent, message, or_claimed)) is not None:
        return earlier
    asked = lookup.find_target(principal, agent, message, finds_question=True).asked
    return Choice(asked=asked) if asked is not None else None


def _newest_task(principal: Principal, agent: Agent, message: JSON) -> ExistingTask | None:
    context = lookup.find_target(principal, agent, message).context
    if context is None:
        return None
    newest = lineage.newest_task(context, agent=agent)
    return ExistingTask(str(newest.pk), newest.state) if newest else None


class Claim(Enum):
    """Who answers a message that has no answer yet."""

    OURS = auto()
    OF_OTHERS = auto()


@dataclass(frozen=True, slots=True)
class Conversation:
    history: Sequence[agentkit.Message] = ()
    references: Sequence[ReferencedTask] = ()
    memory: JSON = field(default_factory=dict)
    options: JSON = field(default_factory=dict)
    told: assignment.Told = field(default_factory=lambda: assignment.told_to_handler({}))
    context: Context | None = None


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    answer: Answer
    kept: output.MemoryChanges | None = None
    admitted: guarding.Admitted | None = None


class AnsweredMeanwhile(Exception):
    """The answer is recorded already, by an earlier try or another claim."""


async def answer_with_message(
    principal: Principal, agent: Agent, message: JSON, choice: Choice, *, temporary: bool = False
) -> Sent:
    """Record the message with the agent's answer, or with that of the choice. `temporary`: see `accept.Options`.

    If the agent fails, the answer is an error: a sentence, and a code in `metadata.error`.
    Raises errors.Refusal if the agent is not asked, and NeedsTask; then nothing is stored.
    """
    claimed = await db.run(_claim_message, principal, agent, message)
    while claimed is Claim.OF_OTHERS:
        await asyncio.sleep(0.1)
        claimed = await db.run(_claim_message, principal, agent, message)
    if isinstance(claimed, Sent):
        return claimed
    try:
        admitted, given = choice.admitted, choice.answer
        said = AgentAnswer(given) if given else await _ask_agent(principal, agent, message, admitted, temporary)
        said = dataclasses.replace(said, answer=_cleaned_answer(agent, said.answer), admitted=admitted)
        if admitted is not None:
            said = dataclasses.replace(said, answer=await admitted.checked(said.answer))
    except BaseException:
        await db.run(_release_claim, principal, agent, message)
        raise
    # If the caller goes away now, the answer waits in the record.
    return await asyncio.shield(db.run(_record_answer_or_release, principal, agent, message, said, temporary))


async def _ask_agent(
    principal: Principal, agent: Agent, message: JSON, admitted: guarding.Admitted | None, temporary: bool
) -> AgentAnswer:
    activity.check_answers(agent)
    if not handlers.can_run(agent):
        raise NoAnswer("The agent is too busy to answer. Try again in a few minutes.")
    conversation = Conversation()
    if message.get("contextId") or message.get("referenceTaskIds"):
        conversation = await db.run(_conversation, principal, agent, message)
    if admitted is not None:
        conversation = dataclasses.replace(conversation, **await admitted.told(conversation))
        message = admitted.message
    session = Session(copy.deepcopy(conversation.memory), options=conversation.options)
    context = conversation.context or Context(is_temporary=temporary)
    whose = assignment.searcher(principal, temporary=context.is_temporary)
    find = handlers.search_of(agent, context.project, lambda: whose)
    answer = await _ask_within_deadline(agent, message, conversation, session, find)
    try:
        return AgentAnswer(answer, output.memory_changes(conversation.memory, session.memory))
    except output.MemoryTooLarge as too_large:
        return AgentAnswer(Answer.error(str(too_large), too_large.code))
    except ValueError as error:
        handlers.log_error(agent, error, "keeps what cannot be kept")
        return AgentAnswer(Answer.error(AGENT_ERROR_MESSAGE, INVALID_RESPONSE))


async def _ask_within_deadline(
    agent: Agent, message: JSON, conversation: Conversation, session: Session, find: Search
) -> Answer:
    received = agentkit.Message(message, blobs.content_of)
    history, references = conversation.history, conversation.references
    try:
        async with asyncio.timeout(settings.ANSWER_SECONDS) as limit:
            given = {"history": history, "references": references, "session": session, "find": find}
            return await handlers.answer(agent, received, **given, **conversation.told)
    except NeedsTask:
        raise
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():
            late = f"The agent did not answer within {settings.ANSWER_SECONDS:g} seconds. Try again, or ask for less."
            return Answer.error(late, "time_limit")
        handlers.log_error(agent, error)
        said = str(error) if isinstance(error, Escaped) else AGENT_ERROR_MESSAGE
        return Answer.error(said, error_code(error))


def _cleaned_answer(agent: Agent, said: Answer) -> Answer:
    try:
        return Answer(clean_parts(said.parts), clean(said.metadata))
    except Exception as error:
        handlers.log_error(agent, error, "gave an answer that cannot be sent")
        return Answer.error(AGENT_ERROR_MESSAGE, INVALID_RESPONSE)


def _conversation(principal: Principal, agent: Agent, message: JSON) -> Conversation:
    context = lookup.find_target(principal, agent, message).context
    named = lookup.references_of(principal, message, context)
    references = assignment.referenced_tasks(named, principal.user_id, context)
    if context is None:
        return Conversation(references=references)
    history = [assignment.handler_message(row, context) for row in assignment.earlier_messages(context)]
    told = assignment.told_to_handler(_told(principal, agent, context))
    return Conversation(history, references, context.memory, context.options, told, context)


def _told(principal: Principal, agent: Agent, context: Context) -> JSON:
    """What the agent is told beside the message."""
    user, workspace = principal.user_id, principal.workspace_id
    if user is None or workspace is None:
        return {}
    is_limited = principal.agents is not None
    asked = briefings.Asked(user, workspace, context, agent, user, lambda: principal, is_limited)
    return briefings.read(briefings.noted(asked))


def _claim_message(principal: Principal, agent: Agent, message: JSON) -> Sent | Claim:
    """The earlier answer, or who gives it."""
    lookup.find_target(principal, agent, message)
    if not principal.is_known:
        accept.check_obstacles(principal, agent)
        return Claim.OURS
    accepted = find_accepted(principal.sender, agent, message)
    if accepted is None:
        return _claim_new_message(principal, agent, message)
    if accepted.answer is not None:
        return _earlier_answer(accepted.answer)
    if accepted.task_id is not None:
        raise NeedsTask
    if accepted.claimed_until is None:
        raise KeyUsed(accept.CLEARED)
    now = sql.database_time()
    overdue = Accepted.objects.filter(pk=accepted.pk, answer=None, claimed_until__lt=now)
    return Claim.OURS if overdue.update(claimed_until=_claim_deadline(now)) else Claim.OF_OTHERS


def _earlier_answer(row: Message) -> Sent:
    return Sent(row.context_id, row.index, answer=wire.message(row, row.context), repeated=True)


def _claim_new_message(principal: Principal, agent: Agent, message: JSON) -> Claim:
    accept.check_obstacles(principal, agent)
    try:
        with write_transaction():
            Accepted.objects.create(
                sender=principal.sender,
                agent=agent,
                message_id=message["messageId"],
                body_hash=digest_of(message),
                claimed_until=_claim_deadline(sql.database_time()),
            )
    except IntegrityError:
        return Claim.OF_OTHERS
    return Claim.OURS


def _claim_deadline(now: datetime.datetime) -> datetime.datetime:
    return now + datetime.timedelta(seconds=settings.ANSWER_SECONDS + 5)


def _release_claim(principal: Principal, agent: Agent, message: JSON) -> None:
    Accepted.objects.filter(
        Q(answer=None, task=None), sender=principal.sender, agent=agent, message_id=message["messageId"]
    ).delete()


def _record_answer_or_release(
    principal: Principal, agent: Agent, message: JSON, said: AgentAnswer, temporary: bool = False
) -> Sent:
    try:
        try:
            return _record_answer(principal, agent, message, said, temporary)
        except (IntegrityError, Context.DoesNotExist):
            return _record_answer(principal, agent, message, said, temporary)
    except AnsweredMeanwhile:
        accepted = find_accepted(principal.sender, agent, message)
        if accepted is None or accepted.answer is None:
            raise NoAnswer from None
        return _earlier_answer(accepted.answer)
    except BaseException:
        _release_claim(principal, agent, message)
        raise


def _record_answer(principal: Principal, agent: Agent, message: JSON, said: AgentAnswer, temporary: bool) -> Sent:
    stored = accept.storable(agent, message)
    parts = blobs.store_large([dict(part) for part in said.answer.parts])
    answered: JSON = {"parts": parts, "metadata": {**said.answer.metadata, projection.AUTHOR_KEY: agent.slug}}
    target = lookup.find_target(principal, agent, message)
    references = lookup.references_of(principal, message, target.context) if "referenceTaskIds" in message else []
    if hints := accept.hints_for(agent, message, references):
        answered["metadata"][accept.HINTS] = hints
    version = versions.version_at(agent.current_version_id) if agent.current_version_id else None
    with ledger.writing(target.context.pk if target.context else Context()) as log:
        asked = accept.message_payload(log, principal, agent, stored, temporary=temporary)
        log.add(EventType.USER_MESSAGE, asked)
        if said.admitted is not None:
            said.admitted.record(log)
        spoken = {"messageId": str(uuid.uuid4()), "contextId": log.context.context_id, "role": "ROLE_AGENT"}
        by = {"agent": agent.pk} | ({"version": version.number} if version else {})
        event = log.add(EventType.AGENT_MESSAGE, {"message": spoken | answered, **by})
        if said.kept is not None:
            log.remember(said.kept.changed, said.kept.forgotten)
        row = log.messages[event.index]
        claimed = Accepted.objects.filter(
            sender=principal.sender, agent=agent, message_id=message["messageId"], answer=None
        )
        if principal.is_known and not claimed.update(answer=row, claimed_until=None):
            raise AnsweredMeanwhile
    return Sent(log.context.pk, event.index, answer=wire.message(row, log.context))


def accept_and_publish(principal: Principal, agent: Agent, message: JSON, **options: Unpack[Options]) -> Receipt:
    """Record the message (see `accept.accept`) and publish its run. Raises errors.Refusal."""
    receipt = accept.accept(principal, agent, message, **options)
    if receipt.run is not None:
        publish(receipt.run)
    elif receipt.waits:
        dependencies.settle(Q(task=receipt.task))  # what ended meanwhile
    return receipt


async def wait_until_settled[T](
    context_id: uuid.UUID,
    task_id: uuid.UUID,
    after: int,
    show: Callable[[Task], T],
    since: float | None = None,
) -> T:
    """Wait until the task has settled, after event `after`; gives what `show` makes of it on a database thread.

    `since`: see `feed.growth`. Raises TaskNotFound for a deleted task.
    """

    def show_if_settled() -> tuple[T] | None:
        task = TASK.one(task_id)
        if task is None:
            raise TaskNotFound
        return (show(task),) if TaskState(task.state).is_settled else None

    return (await wait_for(context_id, after, show_if_settled, since, settled=True))[0]


async def wait_for[T](
    context_id: uuid.UUID,
    after: int,
    read: Callable[[], T | None],
    since: float | None = None,
    *,
    settled: bool = False,
) -> T:
    """Wait without a thread or connection until `read`, on a database thread, gives something.

    It is called whenever the context has grown beyond event `after`. `since`, `settled`: see `feed.growth`.
    """
    async with aclosing(feed.growth(context_id, after, since=since, settled=settled)) as grown:
        async for _ in grown:
            if (found := await db.run(read)) is not None:
                return found
    raise AssertionError("a feed does not end")


def run_again(
    task: Task,
    key: uuid.UUID | str | None = None,
    *,
    caller: Principal | None = None,
    context: Context | None = None,
    version: AgentVersion | None = None,
) -> Receipt:
    """Send a task's first message again, in a new task that references and `repeats` the old one.

    With the same `key`, a repeated call gives the same task.

    Args:
        caller: who sends it; by default the task's owner.
        context: a session that has the task, whose agent gets it; by default the task's own session and agent.
        version: of the agent that gets it; by default the current one.

    Raises errors.Refusal; then nothing is stored.
    """
    first = Message.objects.filter(task=task, role=Message.Role.USER).order_by("index").first()
    if first is None:
        raise UnsupportedOperation("The task has no message to send again.")
    owner = task.owner.principal_in(task.workspace_id) if task.owner and caller is None else ANONYMOUS
    principal = caller or owner
    agent = context.agent if context else task.agent
    message = compose(
        first.parts,
        key=key,
        context=(context or task.context).name_for(principal),
        references=[task.pk],
        metadata=first.metadata,
        extensions=first.extensions,
    )
    sender = principal.sender or (f"call:{key}" if key else "")
    skill = task.metadata.get("skill") if agent.pk == task.agent_id else None
    return accept_and_publish(principal, agent, message, sender=sender, skill=skill, repeats=task.pk, version=version)


def chosen_version(principal: Principal, agent: Agent, number: int | None) -> AgentVersion | None:
    """Of `choosable_versions`; None for no number. Raises InvalidFields."""
    if number is None:
        return None
    found = registration.choosable_versions(principal, agent).filter(number=number).first()
    if found is None:
        raise InvalidFields([("version", f"{agent.name} has no version {number} that you may choose.")])
    return found


MOST_REPETITIONS = 20


def repetitions(tasks: TaskQuerySet, task: Task) -> tuple[Task | None, list[Task]]:
    """Of `tasks`: the one that the task runs again, and the newest that run it again in its session. Two queries."""
    found = tasks.select_related("agent").defer("status_message", "slot")
    earlier = found.filter(pk=task.metadata[REPEATS]).first() if REPEATS in task.metadata else None
    later = found.filter(context=task.context_id, created_at__gt=task.created_at, metadata__repeats=str(task.pk))
    return earlier, list(later.order_by("-created_at")[:MOST_REPETITIONS])
