"""Sending a message to an agent, for every edge: A2A, the client API, pages, plans, the command line."""

from __future__ import annotations

import uuid
from contextlib import aclosing
from dataclasses import dataclass

import bridge
from agentkit import HandlerError, ResponseType
from agentkit import Message as Said
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations import blobs, feed, intake
from apps.conversations.events import JSON, EventType
from apps.conversations.intake import Receipt
from apps.conversations.lifecycle import TaskState
from apps.conversations.models import Event
from apps.runtime.answering import answer
from apps.runtime.hosting import handler_at
from apps.runtime.publishing import publish


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
    alongside: intake.Alongside | None = None,
) -> Sent:
    """Send a user's message (A2A shape, checked by the edge) to an agent that `principal` may use.

    A message that continues a task, or for which `require_task` is set, leads to a task; otherwise the agent chooses.
    What is to be written `alongside` a task is written once, and not where the agent answers with a message.
    Returns as soon as the message is recorded (or answered). Raises errors.Refusal; then nothing was stored.
    """
    if not require_task and not message.get("taskId") and response_type(agent, message) is ResponseType.MESSAGE:
        answered = await answer(principal, agent, message)
        return Sent(answered.context, answered.index, answer=answered.message)
    since = feed.listening()
    receipt = await bridge.run(accept_and_publish, principal, agent, message, alongside)
    return Sent(
        receipt.context,
        receipt.index,
        task=receipt.task,
        repeated=receipt.repeated,
        since=None if receipt.repeated else since,
    )


def response_type(agent: Agent, message: JSON) -> ResponseType:
    """How a hosted agent wants to answer this message. An agent that cannot be loaded gets a task, which says why."""
    if agent.kind != Agent.Kind.HOSTED:
        return ResponseType.TASK
    try:
        return handler_at(agent.handler).select_response_type(Said.from_wire(message, load=blobs.content_of))
    except HandlerError:
        return ResponseType.TASK


def accept_and_publish(
    principal: Principal, agent: Agent, message: JSON, alongside: intake.Alongside | None = None
) -> Receipt:
    """Record the message and name its run to the workers. Raises errors.Refusal."""
    receipt = intake.accept(principal, agent, message, alongside)
    if receipt.run is not None:
        publish(receipt.run)
    return receipt


async def settled(context_id: uuid.UUID, task_id: uuid.UUID, after: int, since: float | None = None) -> Event:
    """Wait, holding no thread and no connection, until the task ends or asks for something after event `after`.

    Gives the event of that change of state.
    """
    async with aclosing(feed.follow(context_id, after, since=since)) as batches:
        async for events in batches:
            for event in events:
                if event.task_id == task_id and settles(event):
                    return event
    raise AssertionError("a feed does not end")


def settles(event: Event) -> bool:
    """Is this the change of state that a waiting caller waits for?"""
    if event.type != EventType.AGENT_STATUS:
        return False
    state = TaskState(event.payload["state"])
    return state.is_terminal or state.is_interrupted
