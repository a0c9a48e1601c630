"""Which skill of its agent a new message is for, asked before a task is opened."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from django.conf import settings

import db
from agentkit import Clarify, HandlerError, Message, Start, chooses
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import accept, hosting
from apps.record import blobs
from apps.record.events import JSON

log = logging.getLogger("parley.engine")


@dataclass(frozen=True, slots=True)
class Choice:
    """A task with this skill, if one was chosen; or no task but an answer: a question, or why not."""

    skill: str | None = None
    answer: str | None = None


TURN = Choice()
"""A task, in whose first turn the handler is asked."""


async def choose(principal: Principal, agent: Agent, message: JSON) -> Choice:
    """What the agent's handler says to a message that begins a task.

    A message that led somewhere before leads there again. A handler that fails here is asked again by the task's first
    turn, which tells of the error. Raises errors.Refusal for a messageId that was used for another message.
    """
    if agent.kind != Agent.Kind.HOSTED:
        return TURN
    said = Message.from_wire(message, load=blobs.content_of)
    try:
        if not chooses(await hosting.handler_of(agent), said) or not hosting.can_take(agent):
            return TURN
    except HandlerError:
        return TURN
    if (earlier := await db.run(_earlier, principal, agent, message)) is not None:
        return earlier
    try:
        async with asyncio.timeout(settings.ANSWER_SECONDS):
            decision = await hosting.decide(agent, said)
    except Exception:
        log.exception("agent %s chose no skill", agent.slug)
        return TURN
    if isinstance(decision, Start):
        return Choice(skill=decision.skill)
    return Choice(answer=decision.question if isinstance(decision, Clarify) else decision.reason)


def _earlier(principal: Principal, agent: Agent, message: JSON) -> Choice | None:
    """Where the same message led before; what was answered then is in the record."""
    if not principal.is_known:
        return None
    accepted = accept.find_accepted(principal.sender, agent, message["messageId"], accept.hash_of(message))
    if accepted is None or (accepted.task_id is None and accepted.answer_id is None):
        return None
    return TURN if accepted.task_id is not None else Choice(answer="")
