"""Sending a message to a session's agent, and telling what it led to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import db
from apps.accounts import quotas
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.api import shapes
from apps.api.idempotency import HEADER
from apps.api.problems import Conflict
from apps.api.shapes.naming import JSON
from apps.engine import accept
from apps.engine import send as sending
from apps.engine.send import Sent
from apps.features.sessions import switching
from apps.record import lineage
from apps.record.cold import restored
from apps.record.errors import ContentTypeNotSupported, ContextNotFound, InvalidParams, TaskNotFound
from apps.record.events import EventType
from apps.record.models import Context, Event, Message, Task
from apps.record.models.record import TURNINGS
from apps.record.versions import versions_in


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message on its way to an agent, within the session that it continues; `earlier` is what it led to already."""

    agent: Agent
    message: JSON
    earlier: Sent | None = None
    asked: int | None = None  # the question that it answers, or nothing


def session_of(principal: Principal, session: uuid.UUID) -> Context:
    """The caller's session, with its agent. Raises ContextNotFound for anybody else's, and for a deleted one."""
    found = Context.objects.visible_to(principal).select_related("agent").filter(pk=session).first()
    if found is None or not principal.is_known:
        raise ContextNotFound
    return restored(found)


def addressed(principal: Principal, session: uuid.UUID, message: JSON, task: uuid.UUID | None = None) -> Outgoing:
    """A message (parts, messageId) for the session's agent, or for its task that waits or works.

    Raises ContextNotFound, TaskNotFound, Conflict, UnsupportedOperation, ContentTypeNotSupported.
    """
    context = session_of(principal, session)
    said: JSON = {"role": "ROLE_USER", **message, "contextId": context.context_id}
    agent = context.agent
    if task is not None:
        found = _task_of(context, task)
        agent, said["taskId"] = found.agent, str(found.pk)
    if earlier := _earlier(principal, context, said):
        return Outgoing(agent, said, earlier)
    switching.check_open(principal, agent)
    check_taken(agent, said["parts"])
    return Outgoing(agent, said)


def _task_of(context: Context, task: uuid.UUID) -> Task:
    found = lineage.tasks(context).select_related("agent").filter(pk=task).first()
    if found is None:
        raise TaskNotFound
    if found.context_id != context.pk:  # it ended there, or was left
        raise Conflict("The task belongs to what the session was forked from. Send the message without it.")
    return found


def _earlier(principal: Principal, context: Context, message: JSON) -> Sent | None:
    """What the message led to, if it was sent before the session was switched; otherwise its agent knows it.

    Raises InvalidParams where its key was used for another message.
    """
    switched = Event.objects.filter(context=context, type__in=TURNINGS).filter(type=EventType.AGENT_SWITCHED)
    if not switched.exists():
        return None
    said = Message.objects.filter(context=context, message_id=message["messageId"], role=Message.Role.USER)
    row = said.select_related("task__agent").first()
    if row is None:
        return None
    agent = row.task.agent if row.task else Agent.objects.get(pk=lineage.agent_at(context, row.index)[0])
    with called_by_its_key():
        accept.find_accepted(principal.sender, agent, row.message_id, accept.hash_of(message))
    return Sent(context.pk, row.index if row.task_id else row.index + 1, row.task_id, repeated=True)


def check_taken(agent: Agent, parts: list[JSON]) -> None:
    """Raises ContentTypeNotSupported for a part of a media type that the agent does not take."""
    if refused := agent.refused_type(parts):
        taken = ", ".join(agent.input_modes)
        raise ContentTypeNotSupported(f"{agent.name} does not take {refused}. It takes {taken}.")


async def send(principal: Principal, outgoing: Outgoing, *, wait: bool, address: str = "", span: str = "") -> JSON:
    """Send the message; what it led to, as `declared.SentShape`. With `wait`, once its task has settled.

    Waiting holds no thread and no connection. Raises errors.Refusal, TooMuch; then nothing was stored.
    """
    with ExitStack() as meanwhile:
        if wait:
            meanwhile.callback(quotas.open_stream(principal, address))
        sent = outgoing.earlier or await _sent(principal, outgoing, span)
        if wait and sent.task is not None:
            settled = await sending.settled(sent.context, sent.task, sent.index, lambda task: task.pk, sent.since)
            return await db.run(told, principal, sent, settled)
        return await db.run(told, principal, sent)


async def _sent(principal: Principal, outgoing: Outgoing, span: str) -> Sent:
    with called_by_its_key():
        about: JSON = {"asked": outgoing.asked, "traceparent": span}
        return await sending.send(principal, outgoing.agent, outgoing.message, **about)


@contextmanager
def called_by_its_key() -> Iterator[None]:
    """What is said of a messageId is said of the Idempotency-Key, which became it."""
    try:
        yield
    except InvalidParams as refusal:
        if refusal.field not in ("messageId", "key"):
            raise
        raise InvalidParams(str(refusal).replace("messageId", HEADER), HEADER) from None


def told(principal: Principal, sent: Sent, settled: uuid.UUID | None = None) -> JSON:
    """What a message led to; where its task has `settled`, with what that brought."""
    context = session_of(principal, sent.context)
    rows = _said(sent, with_outcome=settled is not None)
    shown = dict(zip((row.role for row in rows), shapes.messages_json(context, rows), strict=True))
    task, artifacts = None, []
    if sent.task is not None:
        artifacts = list(lineage.artifacts(context).filter(task=sent.task))
        task = shapes.tasks_json(context.pk, list(Task.objects.filter(pk=sent.task)), artifacts)[0]
    return {
        "session": shapes.session_json(context),
        "message": shown.get(Message.Role.USER),
        "answer": shown.get(Message.Role.AGENT),
        "task": task,
        "artifacts": shapes.artifacts_json(context.pk, artifacts, versions_in(context)) if settled else [],
        "repeated": sent.repeated,
    }


def _said(sent: Sent, *, with_outcome: bool) -> list[Message]:
    """The message, and the answer where there is one: an answer at once follows its question in the log."""
    said = Message.objects.filter(context=sent.context).order_by("index")
    if sent.task is None:
        return list(said.filter(index__in=(sent.index - 1, sent.index)))
    rows = list(said.filter(index=sent.index))
    if with_outcome:
        rows += said.filter(task=sent.task, role=Message.Role.AGENT, index__gt=sent.index).order_by("-index")[:1]
    return rows
