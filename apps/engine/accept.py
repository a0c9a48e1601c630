"""What comes into the record from outside: a message that opens or continues a task.

Everything a message leads to (idempotency, context, message, task, run, events) is one transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record import addressing, blobs, cold, leases, ledger, notifications, tracing
from apps.record.digests import digest_of
from apps.record.errors import (
    AlreadyAnswered,
    CredentialWanted,
    InvalidParams,
    TaskBusy,
    TaskFinished,
    UnsupportedOperation,
)
from apps.record.events import JSON, EventType, Opening
from apps.record.ledger import Ledger
from apps.record.lifecycle import TaskState
from apps.record.models import Accepted, Context, Message, Run, Task
from apps.record.titles import title_of

Alongside = Callable[[Ledger, uuid.UUID], None]
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
    alongside: Alongside | None = None,
    *,
    sender: str = "",
    skill: str | None = None,
    parent: uuid.UUID | None = None,
    question: Question | None = None,
    asked: int | None = None,
    traceparent: str = "",
) -> Receipt:
    """Record a user's message (A2A shape, checked by the edge) as a new task or a turn of one that goes on.

    Of a new task, `skill` is the agent's skill that takes it, if one was chosen, `parent` the task that calls for
    it, and `question` what it answers in the place of another. `traceparent` is the caller's span, if it has one (see
    `tracing`). With `asked`, the index of the event in which a task asks, the message answers that question or nothing:
    of several who answer, the first does.

    `sender` is who remembers the message: the principal's own, or for an anonymous caller a name for this one call
    (`sender_of_one_call`), so that a call that is tried again after a commit nobody heard of records it once.
    Raises errors.Refusal; then nothing was stored. Publish `Receipt.run` after this returns.
    """
    sender = sender or principal.sender
    body_hash = hash_of(message)
    known: JSON = {"metadata": {"skill": skill}} if skill is not None else {}
    if parent is not None:
        known["parent"] = str(parent)
    begun: JSON = {"traceparent": traceparent}
    if question is not None:
        begun |= {"slot": question.slot, "memory": question.memory}
    stored = {**message, "parts": blobs.store_large(message["parts"])}
    accepted = sender, body_hash
    about = known, begun, asked
    for _ in range(3):
        try:
            with suppress(ledger.NotAtOnce):
                return _record(ledger.proposing, principal, agent, stored, accepted, alongside, *about)
            return _record(ledger.writing, principal, agent, stored, accepted, alongside, *about)
        except (IntegrityError, UnsupportedOperation, Context.DoesNotExist) as refusal:
            # The message came before, or its context was opened, or cleared, at this very moment.
            if (earlier := _earlier(sender, agent, message["messageId"], body_hash)) is not None:
                return earlier
            if isinstance(refusal, UnsupportedOperation):
                raise
    raise InvalidParams("The same message is being sent twice at the same time. Send it once more.", "messageId")


def sender_of_one_call(principal: Principal) -> str:
    """Who remembers a message that is sent in this call: a known caller for good, anybody else within the call."""
    return principal.sender or f"call:{uuid.uuid4().hex}"


def hash_of(message: JSON) -> str:
    """What tells this message from another of the same id."""
    return digest_of(message)


def _earlier(sender: str, agent: Agent, message_id: str, body_hash: str) -> Receipt | None:
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
    if accepted is not None and leads_nowhere and cold.bring_back_answer(accepted):
        accepted = same.first()
    if accepted is not None and accepted.body_hash != body_hash:
        raise InvalidParams("This messageId was used for another message. Use a new messageId.", "messageId")
    return accepted


def _record(
    door: ledger.Door,
    principal: Principal,
    agent: Agent,
    message: JSON,
    accepted: tuple[str, str],
    alongside: Alongside | None,
    known: JSON,
    begun: JSON,
    asked: int | None,
) -> Receipt:
    sender, body_hash = accepted
    target = addressing.find_target(principal, agent, message)
    if target.task is not None or alongside is not None:  # a run may have to be told; more is to be written
        door = ledger.writing
    run: Run | None
    with door(target.context or ledger.new_context()) as log:
        task_id = target.task or uuid.uuid4()
        if sender:
            log.also_insert(
                Accepted(
                    sender=sender,
                    agent=agent,
                    message_id=message["messageId"],
                    body_hash=body_hash,
                    task_id=task_id,
                )
            )
        if target.task is None:
            message_of = _open_task(log, principal, agent, message, task_id, known, is_new=target.context is None)
            span = tracing.span_below(begun["traceparent"])
            run = Run(task_id=task_id, message=message_of, turn=1, **begun | {"traceparent": span})
        else:
            run = _continue_task(log, agent, message, task_id, begun["traceparent"], asked)
        if run is not None:
            log.also_insert(run)
        if alongside is not None:
            alongside(log, task_id)
        index = log.index_of(EventType.USER_MESSAGE)
    return Receipt(log.context.pk, task_id, index, run.pk if run else None)


def opening(principal: Principal, agent: Agent, message: JSON) -> Opening:
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
    known: JSON,
    *,
    is_new: bool,
) -> Message:
    references = addressing.references_of(principal, message, None if is_new else log.context)
    payload: dict[str, Any] = {"task": {"agent": agent.pk, "references": references, **known}}
    if is_new:
        begun = opening(principal, agent, message)
        if "parent" in known:
            begun["parentTask"] = known["parent"]
        payload["opens"] = log.opening(begun)
    payload |= title_for(log.context, message)
    payload["message"] = addressed(message, log.context, task_id)
    event = log.add(EventType.USER_MESSAGE, payload, task=task_id)
    return log.message_at(event.index)


def title_for(context: Context, message: JSON) -> JSON:
    """The title that a message gives to a session which was begun without one."""
    is_untitled = not context._state.adding and not context.title
    return {"title": title} if is_untitled and (title := title_of(message)) else {}


def addressed(message: JSON, context: Context, task_id: uuid.UUID | None) -> JSON:
    """The message with the ids under which it was recorded."""
    ids = {"contextId": context.context_id} | ({"taskId": str(task_id)} if task_id else {})
    return {**message, **ids}


def _continue_task(
    log: Ledger, agent: Agent, message: JSON, task_id: uuid.UUID, traceparent: str, asked: int | None
) -> Run | None:
    """A further message to a task: the answer it waits for, or what it takes up after the turn it is at."""
    task = log.task(task_id)
    state, slot = TaskState(task.state), task.slot
    if asked is not None and asked != task.status_event:
        raise AlreadyAnswered
    if state.is_terminal:
        raise TaskFinished
    is_free = state == TaskState.WORKING and not leases.is_at_work(task_id)
    if not state.is_interrupted and not is_free and agent.on_busy == Agent.OnBusy.REJECT:
        raise TaskBusy
    if state.is_interrupted and slot and "service" in slot:  # what is said is kept for good, a secret must not be
        raise CredentialWanted(f"{CredentialWanted.__doc__} It is at {_link_of(task)}.")
    event = log.add(EventType.USER_MESSAGE, {"message": addressed(message, log.context, task_id)}, task=task_id)
    if state.is_interrupted:
        log.add(EventType.AGENT_STATUS, {"state": TaskState.WORKING}, task=task_id)
        return next_run(task_id, log.message_at(event.index), slot, traceparent)
    if is_free:  # a task may go on while nobody takes a turn of it
        return next_run(task_id, log.message_at(event.index), None, traceparent)
    if agent.on_busy == Agent.OnBusy.INTERRUPT:
        _interrupt(task_id)
    return None


def _link_of(task: Task) -> str:
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
        traceparent=tracing.span_below(traceparent or last.traceparent),
    )


def _interrupt(task_id: uuid.UUID) -> None:
    running = Run.objects.filter(task_id=task_id, state=Run.State.RUNNING)
    keys = list(running.values_list("pk", flat=True))
    running.update(interrupted=True)
    for key in keys:
        transaction.on_commit(lambda key=key: notifications.stop(key))  # type: ignore[misc]
