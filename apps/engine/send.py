"""Sending a message to an agent, for every edge: A2A, the client API, pages, plans, the command line."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import db
from agentkit import Answer, ResponseType, text_part
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import accept
from apps.engine.accept import Question, Receipt
from apps.engine.answering import answer
from apps.engine.choosing import choose
from apps.engine.queue import publish
from apps.engine.responding import response_type
from apps.record import feed, whole_tasks
from apps.record.errors import TaskNotFound
from apps.record.events import JSON
from apps.record.lifecycle import TaskState
from apps.record.models import Task


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
    alongside: accept.Alongside | None = None,
    question: Question | None = None,
    skill: str | None = None,
    asked: int | None = None,
    traceparent: str = "",
) -> Sent:
    """Send a user's message (A2A shape, checked by the edge) to an agent that `principal` may use.

    A message that continues a task, or for which `require_task` is set, leads to a task; otherwise the agent chooses,
    as it does which of its skills takes a new task. What answers the `question` of another task (see `accept`) is a
    task too, for the `skill` that asked. With `asked` it answers that question of its task or nothing.
    What is to be written `alongside` a task is written once, and not where the agent answers with a message.
    `traceparent` is the caller's span (see `record.tracing`), if it told one.
    Returns as soon as the message is recorded (or answered). Raises errors.Refusal; then nothing was stored.
    """
    if not require_task and not message.get("taskId") and question is None:
        answered = None
        if await response_type(principal, agent, message) is ResponseType.MESSAGE:
            answered = await answer(principal, agent, message)
        else:
            choice = await choose(principal, agent, message)
            skill = choice.skill
            if choice.answer is not None:
                answered = await answer(principal, agent, message, Answer([text_part(choice.answer)]))
        if answered is not None:
            return Sent(answered.context, answered.index, answer=answered.message, repeated=answered.repeated)
    since = feed.listening()
    once = accept.sender_of_one_call(principal)  # chosen before the first try: the bridge may try again
    receipt = await db.run(
        accept_and_publish,
        principal,
        agent,
        message,
        alongside,
        sender=once,
        skill=skill,
        question=question,
        asked=asked,
        traceparent=traceparent,
    )
    return Sent(
        receipt.context,
        receipt.index,
        task=receipt.task,
        repeated=receipt.repeated,
        since=None if receipt.repeated else since,
    )


def accept_and_publish(
    principal: Principal,
    agent: Agent,
    message: JSON,
    alongside: accept.Alongside | None = None,
    *,
    sender: str = "",
    skill: str | None = None,
    parent: uuid.UUID | None = None,
    question: Question | None = None,
    asked: int | None = None,
    traceparent: str = "",
) -> Receipt:
    """Record the message (see `accept.accept`) and name its run to the workers. Raises errors.Refusal."""
    known: dict[str, Any] = {"sender": sender, "skill": skill, "parent": parent, "question": question, "asked": asked}
    receipt = accept.accept(principal, agent, message, alongside, **known, traceparent=traceparent)
    if receipt.run is not None:
        publish(receipt.run)
    return receipt


async def settled[T](
    context_id: uuid.UUID,
    task_id: uuid.UUID,
    after: int,
    show: Callable[[Task], T],
    since: float | None = None,
    find: Callable[[uuid.UUID], Task | None] = whole_tasks.TASK.one,
) -> T:
    """Wait, holding no thread and no connection, until the task has ended or asks for something after event `after`.

    Gives what `show`, called where the database may be asked, makes of the task as `find` then reads it.
    Raises TaskNotFound for a task that is deleted meanwhile.
    """
    async with aclosing(feed.growth(context_id, after, since=since)) as grown:
        async for _ in grown:
            for shown in await db.run(_shown_if_settled, task_id, show, find):
                return shown
    raise AssertionError("a feed does not end")


def _shown_if_settled[T](
    task_id: uuid.UUID, show: Callable[[Task], T], find: Callable[[uuid.UUID], Task | None]
) -> list[T]:
    task = find(task_id)
    if task is None:
        raise TaskNotFound
    return [show(task)] if TaskState(task.state).is_settled else []
