"""Editing and retrying a message: a fork begins before it, and the new message is sent to the fork.

Fork and message are two transactions with the same caller's key. A repeated request finds what exists, and completes it
after a crash.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations.forks import branches, forking
from apps.conversations.forks.forking import RunningPolicy
from apps.engine.accept import Question, message_payload
from apps.engine.repeats import Sent
from apps.engine.send import send
from apps.record import ledger, lineage
from apps.record.content import blobs
from apps.record.content.composing import check_taken, compose
from apps.record.content.parts import is_file
from apps.record.content.rendering import title_of
from apps.record.errors import (
    KeyUsed,
    MessageNotFound,
    UnsupportedOperation,
)
from apps.record.events import JSON, Edited, EventType, MessageVersion
from apps.record.execution import Accepted, Run
from apps.record.models import Context, Event, Message
from apps.record.reading.lookup import find_session
from parley import db

NOT_YOURS = "You can edit only your own messages. Edit the message before this answer, or try again."
NOTHING_TO_RETRY = "There is no message to try again. Send a message first."
MOST_VERSIONS = 100  # in a message's history


@dataclass(frozen=True, slots=True)
class _NewFork:
    session: Context
    agent: Agent
    message: JSON
    question: Question | None
    skill: str | None


@dataclass(frozen=True, slots=True)
class SavedMessage:
    message: Message
    repeated: bool


async def edit(
    principal: Principal,
    context: uuid.UUID,
    message: uuid.UUID,
    parts: list[JSON],
    *,
    key: str,
    running: RunningPolicy = "cancel",
    keep_files: bool = False,
    traceparent: str = "",
) -> Sent:
    """Replace a message of the caller in a fork that begins just before it.

    `parts` are checked A2A parts; with `keep_files` the message's files follow them. `running` says whether running
    work in the session itself is canceled. The same `key` (1 to 200 characters) gives the same fork and answer.

    Raises ContextNotFound, MessageNotFound, UnsupportedOperation for an agent's message or an agent that the caller may
    not use, ContentTypeNotSupported, and KeyUsed for a key that was used otherwise; then nothing was recorded.
    """

    def make_fork() -> _NewFork:
        made = _edited_fork(principal, context, message, parts, key, running, keep_files=keep_files)
        if _saved_message(made.session, key) is not None:
            raise KeyUsed
        return made

    return await _send(principal, await db.run(make_fork), traceparent)


def save(
    principal: Principal,
    context: uuid.UUID,
    message: uuid.UUID,
    parts: list[JSON],
    *,
    key: str,
    running: RunningPolicy = "finish",
    keep_files: bool = False,
) -> SavedMessage:
    """Replace a message of the caller in a fork, like `edit`, but send it to no agent."""
    made = _edited_fork(principal, context, message, parts, key, running, keep_files=keep_files)
    with ledger.writing(made.session.pk) as log:
        earlier = Message.objects.filter(context=made.session, message_id=key).first()
        if earlier is None:
            log.add(EventType.USER_MESSAGE, message_payload(log, principal, made.agent, made.message) | {"saved": True})
    if earlier is not None and _saved_message(made.session, key) is None:
        raise KeyUsed
    saved = earlier or Message.objects.get(context=made.session, message_id=key)
    return SavedMessage(saved, repeated=earlier is not None)


def _saved_message(session: Context, key: str) -> Message | None:
    """A message with this key that no agent got."""
    said = Message.objects.filter(context=session, message_id=key, task=None).first()
    events = Event.objects.filter(context=session, index=said.index, payload__saved=True) if said else None
    return said if events is not None and events.exists() else None


def _edited_fork(
    principal: Principal,
    context: uuid.UUID,
    message: uuid.UUID,
    parts: list[JSON],
    key: str,
    running: RunningPolicy,
    *,
    keep_files: bool,
) -> _NewFork:
    found = find_session(principal, context)
    row = find_message(found, message)
    if row.role != Message.Role.USER or row.author_id != principal.user_id:
        raise UnsupportedOperation(NOT_YOURS)
    kept = [part for part in row.parts if is_file(part)] if keep_files else []
    how: dict[str, Any] = {"reason": "edit", "running": running, "edited_message": str(row.pk)}
    how |= {"edited": _history(found, row, key, itself=True), "title": _edit_title(found, row, parts)}
    return _fork_before(principal, found, row, [*parts, *kept], None, key, how)


def _history(context: Context, row: Message, key: str, *, itself: bool) -> Edited | None:
    """What the message with this key replaces: the versions of `row`, and `itself`. None if that is nothing."""
    edited = (fork.payload.get("edited") for fork in lineage.fork_events(context))
    versions: list[MessageVersion] = next(
        (one["versions"] for one in edited if one and one["messageId"] == row.message_id), []
    )
    if itself:
        replaced: MessageVersion = {"message": str(row.pk), "session": str(row.context_id)}
        versions = [*versions, replaced][-MOST_VERSIONS:]
    return {"messageId": key, "versions": versions} if versions else None


async def retry(
    principal: Principal,
    context: uuid.UUID,
    *,
    key: str,
    message: uuid.UUID | None = None,
    agent: Agent | None = None,
    options: JSON | None = None,
    running: RunningPolicy = "cancel",
    traceparent: str = "",
) -> Sent:
    """Send a message again in a fork that begins just before it.

    By default this is the caller's newest message. `message` may be the caller's message or an answer to it. `agent`
    replaces the agent that answered, with its checked `options`. The other arguments and errors are as in `edit`.
    """

    def make_fork() -> _NewFork:
        found = find_session(principal, context)
        row = message_to_retry(principal, found, find_message(found, message) if message else None, key)
        how: dict[str, Any] = {"reason": "retry", "running": running, "title": _retry_title(found, row, agent)}
        how |= {"edited": _history(found, row, key, itself=False), "options": options}
        return _fork_before(principal, found, row, row.parts, agent, key, how)

    return await _send(principal, await db.run(make_fork), traceparent)


def _edit_title(context: Context, row: Message, parts: list[JSON]) -> str:
    """The new words; marked if they begin like the old ones."""
    title = title_of({"parts": parts})
    if not title or title != title_of({"parts": row.parts}):
        return title
    return forking.numbered_title(forking.fork_point(context, row.index - 1), "Edit", title)


def _retry_title(context: Context, row: Message, agent: Agent | None) -> str:
    if agent is not None:
        prefix = agent.name
    else:
        prefix = "Retry" if _saved_message(row.context, row.message_id) is None else "Run"
    return forking.numbered_title(forking.fork_point(context, row.index - 1), prefix, title_of({"parts": row.parts}))


async def _send(principal: Principal, fork: _NewFork, traceparent: str) -> Sent:
    how: dict[str, Any] = {"question": fork.question, "skill": fork.skill, "traceparent": traceparent}
    return await send(principal, fork.agent, fork.message, **how)


def find_message(context: Context, message: uuid.UUID) -> Message:
    """A message of a session or of its past. Raises MessageNotFound."""
    found = lineage.messages(context).select_related("task__agent").filter(pk=message).first()
    if found is None:
        raise MessageNotFound
    return found


def message_to_retry(principal: Principal, context: Context, message: Message | None, key: str = "") -> Message:
    """The caller's message that led to this one; by default the newest at the time when the key was first used.

    Raises UnsupportedOperation.
    """
    if message is not None and message.role == Message.Role.USER:
        return message
    asked = lineage.messages(context).select_related("task__agent").filter(role=Message.Role.USER).order_by("-index")
    if message is not None:
        asked = asked.filter(index__lt=message.index, task=message.task_id)
    elif (child := forking.find_fork(principal, context, key)) is not None:
        asked = asked.filter(index__gt=child.forked_at).order_by("index")
    found = asked.first()
    if found is None:
        raise UnsupportedOperation(NOTHING_TO_RETRY)
    return found


def _fork_before(
    principal: Principal,
    context: Context,
    row: Message,
    parts: list[JSON],
    agent: Agent | None,
    key: str,
    how: dict[str, Any],
) -> _NewFork:
    before = _addressed_agent(context, row)
    receiver = agent or before
    check_taken(receiver, parts)
    # Read this before forking, which may cancel the task and erase its memory.
    question = _question(row) if receiver == before else None
    _check_key(principal, context, key)
    for kept in blobs.stored_files(parts):
        blobs.touch(kept)  # keeps the content until the message is sent
    child = forking.fork(principal, context, row.index - 1, agent=receiver, key=key, **how)
    branches.save_chosen_leaf(principal, child)
    skill = row.task.metadata.get("skill") if question and row.task else None
    return _NewFork(child, receiver, _message(row, parts, child, key, same_agent=receiver == before), question, skill)


def _addressed_agent(context: Context, row: Message) -> Agent:
    return row.task.agent if row.task else Agent.objects.get(pk=lineage.agent_at(context, row.index - 1)[0])


def _message(row: Message, parts: list[JSON], child: Context, key: str, *, same_agent: bool) -> JSON:
    references = list(row.references)
    if row.task and row.task.first_event < row.index:  # the fork does not include the task
        references = [str(row.task_id), *(one for one in references if one != str(row.task_id))]
    metadata = row.metadata if same_agent else {name: row.metadata[name] for name in row.metadata if name != "skillId"}
    kept: JSON = {"references": references, "metadata": metadata, "extensions": row.extensions}
    return compose(parts, key=key, context=child.context_id, **kept)


def _question(row: Message) -> Question | None:
    """The question that the message answered, if its agent can be given another answer.

    None if the task has ended, because its memory is gone; if a child task asked, because the child continues
    elsewhere; and for a tool call, because an approval holds for one call only. The answer is then a request, whose
    reference and history show the question.
    """
    task = row.task
    if task is None or task.is_finished or task.agent.kind == Agent.Kind.REMOTE:
        return None
    answering = Run.objects.filter(task=task, message=row).order_by("turn").first()
    if answering is None or not answering.slot or not answering.slot.keys().isdisjoint(("child", "approvers")):
        return None
    asking = Run.objects.filter(task=task, turn=answering.turn - 1).first()
    return Question(answering.slot, asking.memory) if asking else None


def _check_key(principal: Principal, context: Context, key: str) -> None:
    """Raises KeyUsed for a key under which the caller sent a message in another place."""
    used = Accepted.objects.filter(sender=principal.sender, message_id=key).exists()
    if used and forking.find_fork(principal, context, key) is None:
        raise KeyUsed
