"""Accepts messages from outside: each starts a task, continues one, or resumes one that waits.

Everything a message leads to (idempotency, context, message, task, run, events) is one transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.queue import publish
from apps.record import ledger, lookup, notifications, runs
from apps.record.content import blobs
from apps.record.content.parts import title_of
from apps.record.content.strict_json import digest_of
from apps.record.errors import (
    AlreadyAnswered,
    CredentialRequired,
    InvalidParams,
    TaskBusy,
    TaskFinished,
    UnsupportedOperation,
)
from apps.record.events import JSON, EventType, Opening
from apps.record.ledger import Ledger
from apps.record.models import Accepted, Context, Message, Run, Task, TaskState

ExtraWrites = Callable[[Ledger, uuid.UUID], None]
"""What else is to be written in the transaction that accepts a message, of whose task the id is given."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a message: its task, where in the log it is, and the run to be published, if one was made."""

    context: uuid.UUID
    task: uuid.UUID
    index: int
    run: uuid.UUID | None = None
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What a new task's first message answers: the slot of another task, with what its agent then had in memory."""

    slot: JSON
    memory: JSON


def accept(
    principal: Principal,
    agent: Agent,
    message: JSON,
    extra_writes: ExtraWrites | None = None,
    *,
    sender: str = "",
    skill: str | None = None,
    parent: uuid.UUID | None = None,
    question: Question | None = None,
    question_index: int | None = None,
    traceparent: str = "",
) -> Receipt:
    """Record a user's message (A2A shape, checked by the edge) as a new task or a turn of one that goes on.

    Args:
        extra_writes: what else is written in the same transaction.
        sender: the scope in which `messageId` is unique: the principal's own, or for an anonymous caller a name for
            this one call (`idempotency_sender`). A call that is retried after a lost commit is recorded once.
        skill: the agent's skill that takes a new task, if one was chosen.
        parent: the task that calls for a new task.
        question: what a new task answers in the place of another.
        question_index: the event in which the task asked. The message answers that question or nothing: of several
            answers the first one counts.
        traceparent: the caller's span, if it has one (see `record.runs.new_span`).

    Raises errors.Refusal; then nothing was stored. Publish `Receipt.run` after this returns.
    """
    sender = sender or principal.sender
    body_hash = digest_of(message)
    task_fields: JSON = {"metadata": {"skill": skill}} if skill is not None else {}
    if parent is not None:
        task_fields["parent"] = str(parent)
    run_fields: JSON = {"traceparent": traceparent}
    if question is not None:
        run_fields |= {"slot": question.slot, "memory": question.memory}
    stored = {**message, "parts": blobs.store_large(message["parts"])}
    for _ in range(3):
        try:
            return _record_message(
                principal, agent, stored, (sender, body_hash), extra_writes, task_fields, run_fields, question_index
            )
        except (IntegrityError, UnsupportedOperation, Context.DoesNotExist) as refusal:
            # The message came before, or its context was opened, or cleared, at this very moment.
            if (earlier := _earlier_receipt(sender, agent, message["messageId"], body_hash)) is not None:
                return earlier
            if isinstance(refusal, UnsupportedOperation):
                raise
    raise InvalidParams("The same message is being sent twice at the same time. Send it once more.", "messageId")


def idempotency_sender(principal: Principal) -> str:
    """The scope in which a `messageId` is unique: a known caller's own, or for anybody else this one call."""
    return principal.sender or f"call:{uuid.uuid4().hex}"


def _earlier_receipt(sender: str, agent: Agent, message_id: str, body_hash: str) -> Receipt | None:
    if not sender:
        return None
    accepted = find_accepted(sender, agent, message_id, body_hash)
    if accepted is None:
        return None
    if accepted.task is None:
        why = "answered with a message" if accepted.answer else "sent in a conversation that was cleared"
        raise InvalidParams(f"This messageId was {why}. Use a new messageId.", "messageId")
    index = (
        Message.objects.filter(task=accepted.task_id, message_id=message_id, role=Message.Role.USER)
        .values_list("index", flat=True)
        .get()
    )
    return Receipt(accepted.task.context_id, accepted.task.pk, index, repeated=True)


def find_accepted(sender: str, agent: Agent, message_id: str, body_hash: str) -> Accepted | None:
    """What this sender's message led to earlier. Raises InvalidParams where its body was another."""
    same = Accepted.objects.select_related("task", "answer").filter(sender=sender, agent=agent, message_id=message_id)
    accepted = same.first()
    leads_nowhere = accepted is not None and accepted.task is None and accepted.answer is None
    if accepted is not None and leads_nowhere and lookup.restore_answer(accepted):
        accepted = same.first()
    if accepted is not None and accepted.body_hash != body_hash:
        raise InvalidParams("This messageId was used for another message. Use a new messageId.", "messageId")
    return accepted


def _record_message(
    principal: Principal,
    agent: Agent,
    message: JSON,
    accepted: tuple[str, str],
    extra_writes: ExtraWrites | None,
    task_fields: JSON,
    run_fields: JSON,
    question_index: int | None,
) -> Receipt:
    sender, body_hash = accepted
    target = lookup.find_target(principal, agent, message)
    run: Run | None
    with ledger.writing(target.context or ledger.new_context()) as log:
        task_id = target.task or uuid.uuid4()
        if sender:
            log.insert_with_events(
                Accepted(
                    sender=sender,
                    agent=agent,
                    message_id=message["messageId"],
                    body_hash=body_hash,
                    task_id=task_id,
                )
            )
        if target.task is None:
            message_of = _open_task(log, principal, agent, message, task_id, task_fields, is_new=target.context is None)
            span = runs.new_span(run_fields["traceparent"])
            run = Run(task_id=task_id, message=message_of, turn=1, **run_fields | {"traceparent": span})
        else:
            run = _continue_task(log, agent, message, task_id, run_fields["traceparent"], question_index)
        if run is not None:
            log.insert_with_events(run)
        if extra_writes is not None:
            extra_writes(log, task_id)
        index = log.index_of(EventType.USER_MESSAGE)
    return Receipt(log.context.pk, task_id, index, run.pk if run else None)


def context_opening(principal: Principal, agent: Agent, message: JSON) -> Opening:
    """How a message opens a context of the caller's."""
    return {
        "contextId": message.get("contextId") or "",
        "owner": principal.user_id,
        "workspace": principal.workspace_id or agent.workspace_id,
        "agent": agent.pk,
        "title": title_of(message) or (agent.name if agent.kind == Agent.Kind.PLAN else ""),  # its form says no words
    }


def _open_task(
    log: Ledger,
    principal: Principal,
    agent: Agent,
    message: JSON,
    task_id: uuid.UUID,
    task_fields: JSON,
    *,
    is_new: bool,
) -> Message:
    references = lookup.references_of(principal, message, None if is_new else log.context)
    payload: dict[str, Any] = {"task": {"agent": agent.pk, "references": references, **task_fields}}
    if is_new:
        opening = context_opening(principal, agent, message)
        if "parent" in task_fields:
            opening["parentTask"] = task_fields["parent"]
        payload["opens"] = log.opening(opening)
    payload |= title_for(log.context, message)
    payload["message"] = with_ids(message, log.context, task_id)
    event = log.add(EventType.USER_MESSAGE, payload, task=task_id)
    return log.message_at(event.index)


def title_for(context: Context, message: JSON) -> JSON:
    """The title that a message gives to a session that has none."""
    is_untitled = not context._state.adding and not context.title
    return {"title": title} if is_untitled and (title := title_of(message)) else {}


def with_ids(message: JSON, context: Context, task_id: uuid.UUID | None) -> JSON:
    """The message with the ids under which it was recorded."""
    ids = {"contextId": context.context_id} | ({"taskId": str(task_id)} if task_id else {})
    return {**message, **ids}


def _continue_task(
    log: Ledger, agent: Agent, message: JSON, task_id: uuid.UUID, traceparent: str, question_index: int | None
) -> Run | None:
    """A further message to a task: the answer it waits for, or what it takes up after the turn it is at."""
    task = log.task(task_id)
    state, slot = TaskState(task.state), task.slot
    if question_index is not None and question_index != task.status_event:
        raise AlreadyAnswered
    if state.is_terminal:
        raise TaskFinished
    is_free = state == TaskState.WORKING and not runs.has_unfinished_run(task_id)
    if not state.is_interrupted and not is_free and agent.on_busy == Agent.OnBusy.REJECT:
        raise TaskBusy
    if state.is_interrupted and slot and "service" in slot:  # what is said is kept for good, a secret must not be
        raise CredentialRequired(f"{CredentialRequired.__doc__} It is at {_credential_link(task)}.")
    event = log.add(EventType.USER_MESSAGE, {"message": with_ids(message, log.context, task_id)}, task=task_id)
    if state.is_interrupted:
        log.add(EventType.AGENT_STATUS, {"state": TaskState.WORKING}, task=task_id)
        return next_run(task_id, log.message_at(event.index), slot, traceparent)
    if is_free:  # a task may go on while nobody takes a turn of it
        return next_run(task_id, log.message_at(event.index), None, traceparent)
    if agent.on_busy == Agent.OnBusy.INTERRUPT:
        _interrupt_runs(task_id)
    return None


def _credential_link(task: Task) -> str:
    """Where the credential is to be given that the task waits for."""
    return str((task.status_message or {}).get("metadata", {}).get("url", ""))


def next_run(task_id: uuid.UUID, message: Message | None, slot: Any, traceparent: str = "") -> Run:
    """The run of the task's next turn, queued: by the agent that took the one before, with the memory of that.

    Without a message it has that of the turn before.
    """
    last = Run.objects.filter(task_id=task_id).order_by("-turn").first() or Run(turn=0)
    return Run(
        task_id=task_id,
        message_id=message.pk if message else last.message_id,
        agent_id=last.agent_id,
        turn=last.turn + 1,
        slot=slot,
        resumed=message is None,
        memory=last.memory,
        traceparent=runs.new_span(traceparent or last.traceparent),
    )


def _interrupt_runs(task_id: uuid.UUID) -> None:
    running = Run.objects.filter(task_id=task_id, state=Run.State.RUNNING)
    keys = list(running.values_list("pk", flat=True))
    running.update(interrupted=True)
    for key in keys:
        transaction.on_commit(lambda key=key: notifications.stop(key))  # type: ignore[misc]


def resume(task_id: uuid.UUID, *, because: str) -> bool:
    """Let a task in input-required or auth-required go on; False where it does not wait, or no longer.

    However many do so at once, there is one turn. `because`, a few words without secrets, goes into the log.
    Call it outside a transaction: it names the run to the workers when it is committed.
    """
    context_id = Task.objects.filter(pk=task_id).values_list("context_id", flat=True).first()
    if context_id is None:
        return False
    try:
        with ledger.writing(context_id) as log:
            run = record_resume(log, task_id, because=because)
    except (Context.DoesNotExist, Task.DoesNotExist):  # it was cleared or deleted just now
        return False
    if run is None:
        return False
    publish(run)
    return True


def record_resume(log: Ledger, task_id: uuid.UUID, *, because: str) -> uuid.UUID | None:
    """The same within a transaction; gives the run, to be published after the commit, or None.

    The turn has the message of the one before, whose question it answers. Raises Task.DoesNotExist.
    """
    task = log.task(task_id)
    if not TaskState(task.state).is_interrupted:
        return None
    slot = task.slot
    log.add(EventType.AGENT_STATUS, {"state": TaskState.WORKING, "because": because}, task=task_id)
    run = next_run(task_id, None, slot)
    log.insert_with_events(run)
    return run.pk
