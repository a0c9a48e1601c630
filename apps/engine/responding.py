"""Whether a message is answered by a task or at once by a message: the agent's handler chooses, within a deadline."""

from __future__ import annotations

import asyncio
import logging

from django.conf import settings

import db
from agentkit import ExistingTask, HandlerError, Message, ResponseType
from agentkit.responding import asks_for_task, constant
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import accept, hosting
from apps.record import addressing, blobs, lineage
from apps.record.events import JSON

log = logging.getLogger("parley.engine")


async def response_type(principal: Principal, agent: Agent, message: JSON) -> ResponseType:
    """How the agent answers a message that continues no task.

    A message that was sent before is answered as it was then. Where the handler fails, takes too long or cannot be
    loaded there is a task, which can tell of it. Raises errors.Refusal.
    """
    if agent.kind != Agent.Kind.HOSTED:
        return ResponseType.TASK
    try:
        handler = await hosting.handler_of(agent)
        if (always := constant(handler)) is not None:
            return always
    except HandlerError:
        return ResponseType.TASK
    earlier = await db.run(_earlier, principal, agent, message)
    if earlier is not None or not hosting.can_take(agent):
        return earlier or ResponseType.TASK
    try:
        async with asyncio.timeout(settings.SELECT_SECONDS):
            task = await db.run(_newest_task, principal, agent, message) if asks_for_task(handler) else None
            return await hosting.select(agent, Message.from_wire(message, load=blobs.content_of), task)
    except Exception as error:
        log.warning("agent %s chose no response type, so there is a task: %r", agent.slug, error)
        return ResponseType.TASK


def _earlier(principal: Principal, agent: Agent, message: JSON) -> ResponseType | None:
    """How the same message is, or is being, answered already."""
    if not principal.is_known:
        return None
    accepted = accept.find_accepted(principal.sender, agent, message["messageId"], accept.hash_of(message))
    if accepted is None:
        return None
    return ResponseType.TASK if accepted.task_id is not None else ResponseType.MESSAGE


def _newest_task(principal: Principal, agent: Agent, message: JSON) -> ExistingTask | None:
    """The newest task of the caller's conversation that the message goes on with."""
    context = addressing.find_target(principal, agent, message).context
    if context is None:
        return None
    newest = lineage.newest_task(context, agent=agent)
    return ExistingTask(str(newest.pk), newest.state) if newest else None
