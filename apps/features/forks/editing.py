"""Going on differently from a place in a conversation: a fork, to which the message is sent that is to be there.

Fork and message are two transactions under one key of the caller's: sent again with it, what is there already is found,
and what a crash kept from coming is done.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import db
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.accept import Question
from apps.engine.send import Sent, send
from apps.features.forks import branches, forking
from apps.features.forks.forking import Running
from apps.record import blobs, lineage
from apps.record.cold import restored
from apps.record.errors import (
    ContentTypeNotSupported,
    ContextNotFound,
    InvalidParams,
    MessageNotFound,
    UnsupportedOperation,
)
from apps.record.events import JSON
from apps.record.models import Accepted, Context, Message, Run
from apps.record.parts import is_file

NOT_YOURS = "Only what you said yourself can be edited. Edit the message that this one answers, or retry it."
NOTHING_TO_RETRY = "Nothing was said here that could be answered again. Send a message."
USED_KEY = "This key was used for another message. Use a new key."


@dataclass(frozen=True, slots=True)
class _Begun:
    """A fork that was made, and what is to be sent to it."""

    agent: Agent
    message: JSON
    question: Question | None
    skill: str | None


async def edit(
    principal: Principal,
    context: uuid.UUID,
    message: uuid.UUID,
    parts: list[JSON],
    *,
    key: str,
    running: Running = "cancel",
    keep_files: bool = False,
    traceparent: str = "",
) -> Sent:
    """Say something else in the place of a message of the caller's: in a fork that begins just before it.

    `parts` are A2A parts, checked by the edge; with `keep_files` those of the message that are files follow them.
    `running` says what becomes of what agents work at in the conversation itself; it never reaches the fork. The same
    `key` (1 to 200 characters) gives the same fork and the same answer.

    Raises ContextNotFound, MessageNotFound, UnsupportedOperation for a message of an agent's or an agent that the
    caller may not use any more, ContentTypeNotSupported, and InvalidParams for a key that was used for something else;
    then nothing was recorded.
    """
    begun = await db.run(_begin_edit, principal, context, message, parts, key, running, keep_files)
    return await _sent(principal, begun, traceparent)


async def retry(
    principal: Principal,
    context: uuid.UUID,
    *,
    key: str,
    message: uuid.UUID | None = None,
    agent: Agent | None = None,
    running: Running = "cancel",
    traceparent: str = "",
) -> Sent:
    """Have something answered once more: in a fork that begins before it was said, where it is said again.

    It is the newest message of the caller's, or `message`, which may be the answer, too. `agent` answers in the place
    of the one that did; the rest is as with `edit`. Raises what `edit` does.
    """
    begun = await db.run(_begin_retry, principal, context, message, agent, key, running)
    return await _sent(principal, begun, traceparent)


async def _sent(principal: Principal, begun: _Begun, traceparent: str) -> Sent:
    how: dict[str, Any] = {"question": begun.question, "skill": begun.skill, "traceparent": traceparent}
    return await send(principal, begun.agent, begun.message, **how)


def _begin_edit(
    principal: Principal,
    context: uuid.UUID,
    message: uuid.UUID,
    parts: list[JSON],
    key: str,
    running: Running,
    keep_files: bool,
) -> _Begun:
    found = visible(principal, context)
    row = message_of(found, message)
    if row.role != Message.Role.USER:
        raise UnsupportedOperation(NOT_YOURS)
    kept = [part for part in row.parts if is_file(part)] if keep_files else []
    edited: dict[str, Any] = {"reason": "edit", "running": running, "edited": str(row.pk)}
    return _begin(principal, found, row, [*parts, *kept], None, key, edited)


def _begin_retry(
    principal: Principal,
    context: uuid.UUID,
    message: uuid.UUID | None,
    agent: Agent | None,
    key: str,
    running: Running,
) -> _Begun:
    found = visible(principal, context)
    row = _asked(found, message_of(found, message) if message else None, key)
    return _begin(principal, found, row, row.parts, agent, key, {"reason": "retry", "running": running})


def visible(principal: Principal, context: uuid.UUID) -> Context:
    """The caller's own conversation. Raises ContextNotFound."""
    found = Context.objects.visible_to(principal).filter(pk=context).first()
    if found is None:
        raise ContextNotFound
    return restored(found)


def message_of(context: Context, message: uuid.UUID) -> Message:
    """A message of a conversation or of its past. Raises MessageNotFound."""
    found = lineage.messages(context).select_related("task__agent").filter(pk=message).first()
    if found is None:
        raise MessageNotFound
    return found


def _asked(context: Context, message: Message | None, key: str) -> Message:
    """The message of the caller's that led to another one; without one, the newest there was when the key came first.

    Raises UnsupportedOperation.
    """
    if message is not None and message.role == Message.Role.USER:
        return message
    asked = lineage.messages(context).select_related("task__agent").filter(role=Message.Role.USER).order_by("-index")
    if message is not None:
        asked = asked.filter(index__lt=message.index, task=message.task_id)
    elif (child := forking.made_of(context, key)) is not None:
        asked = asked.filter(index__gt=child.forked_at).order_by("index")
    found = asked.first()
    if found is None:
        raise UnsupportedOperation(NOTHING_TO_RETRY)
    return found


def _begin(
    principal: Principal,
    context: Context,
    row: Message,
    parts: list[JSON],
    agent: Agent | None,
    key: str,
    how: dict[str, Any],
) -> _Begun:
    """Fork just before a message, and make the one that is to be there instead."""
    before = _agent_before(context, row)
    taker = agent or before
    if refused := taker.refused_type(parts):
        raise ContentTypeNotSupported(f"{taker.name} does not take {refused}. Send something else.")
    # While the task has not ended: forking may cancel it, and with its end what its agent knew is gone.
    question = _question(row) if taker == before else None
    _check_key(principal, context, key)
    for kept in blobs.kept(parts):
        blobs.touch(kept)  # it stays, though all who named it so far are deleted before the message is there
    child = forking.fork(principal, context, row.index - 1, agent=taker, key=key, **how)
    branches.choose(principal, child)
    skill = row.task.metadata.get("skill") if question and row.task else None
    return _Begun(taker, _message(row, parts, child, key, same_agent=taker == before), question, skill)


def _agent_before(context: Context, row: Message) -> Agent:
    """Whom the message was for."""
    return row.task.agent if row.task else Agent.objects.get(pk=lineage.agent_at(context, row.index - 1)[0])


def _message(row: Message, parts: list[JSON], child: Context, key: str, *, same_agent: bool) -> JSON:
    """What is said in the place of a message; content in files stays there, and is counted once more."""
    references = list(row.references)
    if row.task and row.task.first_event < row.index:  # it went on with a task, which the fork leaves behind
        references = [str(row.task_id), *(one for one in references if one != str(row.task_id))]
    metadata = row.metadata if same_agent else {name: row.metadata[name] for name in row.metadata if name != "skillId"}
    named = {"referenceTaskIds": references, "metadata": metadata, "extensions": row.extensions}
    said = {"messageId": key, "contextId": child.context_id, "role": "ROLE_USER", "parts": parts}
    return said | {name: value for name, value in named.items() if value}


def _question(row: Message) -> Question | None:
    """What the message answered, if its agent could take up an answer to it once more.

    Not once the task has ended, when nothing is left of what its agent had in mind; nor where a child of the task
    had asked, which goes on elsewhere. The answer is then a request, whose reference and history show the question.
    """
    task = row.task
    if task is None or task.is_finished or task.agent.kind == Agent.Kind.REMOTE:
        return None
    answering = Run.objects.filter(task=task, message=row).order_by("turn").first()
    if answering is None or not answering.slot or "child" in answering.slot:
        return None
    asking = Run.objects.filter(task=task, turn=answering.turn - 1).first()
    return Question(answering.slot, asking.memory) if asking else None


def _check_key(principal: Principal, context: Context, key: str) -> None:
    """Raises InvalidParams for a key under which the caller sent a message elsewhere."""
    used = Accepted.objects.filter(sender=principal.sender, message_id=key).exists()
    if used and forking.made_of(context, key) is None:
        raise InvalidParams(USED_KEY, "Idempotency-Key")
