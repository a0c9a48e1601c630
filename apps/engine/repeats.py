"""Recognizes a message that was sent before, by its id and by the digest of all that it says.

A `messageId` is unique for its sender and agent. Sending the same message again leads to what it led to before; another
message with the same id is refused.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.turns import payments
from apps.record import wire
from apps.record.content import blobs
from apps.record.content.strict_json import digest_of
from apps.record.errors import KeyUsed, TaskNotFound
from apps.record.events import JSON
from apps.record.execution import Accepted
from apps.record.models import Context, Message
from apps.record.reading import lookup


@dataclass(frozen=True, slots=True)
class Sent:
    """A message's result: a task, or an answer (an A2A message). `index` is its place in the log."""

    context: uuid.UUID
    index: int
    task: uuid.UUID | None = None
    answer: JSON | None = None
    repeated: bool = False
    since: float | None = None


def find_accepted(sender: str, agent: Agent, message: JSON) -> Accepted | None:
    """What the same message, addressed in the same way, led to. Raises KeyUsed for another one with its id."""
    accepted = _accepted(sender, agent, message["messageId"])
    if accepted is not None and accepted.body_hash != digest_of(message):
        raise KeyUsed
    return accepted


def was_sent(sender: str, agent: Agent, message_id: str) -> bool:
    """Did the agent get a message with this id?"""
    return Accepted.objects.filter(sender=sender, agent=agent, message_id=message_id).exists()


def sent_before(principal: Principal, place: Context | Agent, message: JSON) -> Sent | None:
    """What the caller's message led to in the session or at the agent, if they sent it before and still see it.

    Only what it says is compared, since a session may have switched its agent, or a task ended, in the meantime.
    Raises KeyUsed for another message with its id.
    """
    row = _recorded(principal, place, message["messageId"])
    if row is None:
        return None
    sender = row.task.agent if row.task else row.context.agent
    stored = {**payments.storable(sender, message), "parts": blobs.store_large(message["parts"])}
    if _digest(stored) != _digest(row.stored(row.context)):
        raise KeyUsed
    if row.task_id is not None:
        return Sent(row.context_id, row.index, task=row.task_id, repeated=True)
    answer = Message.objects.filter(context=row.context_id, index=row.index + 1, role=Message.Role.AGENT).first()
    shown = wire.message(answer, row.context) if answer else None
    return Sent(row.context_id, row.index + 1, answer=shown, repeated=True)


def _accepted(sender: str, agent: Agent, message_id: str) -> Accepted | None:
    if not sender:
        return None
    same = Accepted.objects.select_related("task", "answer").filter(sender=sender, agent=agent, message_id=message_id)
    accepted = same.first()
    if accepted is not None and accepted.task is None and accepted.answer is None and lookup.restore_answer(accepted):
        accepted = same.get()
    return accepted


def _recorded(principal: Principal, place: Context | Agent, message_id: str) -> Message | None:
    said = Message.objects.select_related("context__agent", "task__agent").filter(role=Message.Role.USER)
    if isinstance(place, Context):
        return said.filter(context=place, author=principal.user_id, message_id=message_id).first()
    accepted = _accepted(principal.sender, place, message_id)
    if accepted is None:
        return None
    if (answer := accepted.answer) is not None:
        seen = Context.objects.visible_to(principal).filter(pk=answer.context_id)
        return said.filter(context__in=seen, index=answer.index - 1).first()
    with suppress(TaskNotFound):
        if accepted.task_id:
            return said.filter(task=lookup.find_task(principal, accepted.task_id), message_id=message_id).first()
    return None


def _digest(message: JSON) -> str:
    said = ("parts", "metadata", "extensions", "referenceTaskIds")
    return digest_of({name: message[name] for name in said if message.get(name)})
