"""Switching a conversation to another agent: what is said from then on is for that one; what runs goes on as it was."""

from __future__ import annotations

import uuid

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations import ledger
from apps.conversations.errors import ContextNotFound, UnsupportedOperation
from apps.conversations.events import EventType
from apps.conversations.models import Context


def switch(principal: Principal, context: uuid.UUID | Context, agent: Agent) -> bool:
    """Let the caller's conversation go on with `agent`; False where it is with that one already.

    Its tasks stay with whom they were given to, and so do the answers to what those ask.
    Raises ContextNotFound, also for a cleared one, and UnsupportedOperation for an agent that the caller may not use,
    or a conversation in which agents work for other agents; then nothing was recorded.
    """
    key = context if isinstance(context, uuid.UUID) else context.pk
    found = Context.objects.visible_to(principal).filter(pk=key).first()
    if found is None:
        raise ContextNotFound
    if not agent.is_open_to(principal):
        raise UnsupportedOperation("There is no such agent, or you may not use it. Choose another.")
    if found.parent_task is not None:
        raise UnsupportedOperation("Agents work here for another agent. Only it can call for somebody else.")
    try:
        with ledger.writing(key) as log:
            if log.context.agent_id == agent.pk:
                return False
            log.add(EventType.AGENT_SWITCHED, {"agent": agent.pk, "slug": agent.slug})
    except Context.DoesNotExist:  # it was cleared just now
        raise ContextNotFound from None
    return True
