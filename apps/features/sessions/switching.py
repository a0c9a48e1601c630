"""Switching a conversation to another agent, or setting its agent up: what is said from then on is for that one.

What runs goes on as it was.
"""

from __future__ import annotations

import uuid

from django.core.exceptions import ValidationError

from apps.accounts.principals import Principal
from apps.agents import options as agent_options
from apps.agents.models import Agent
from apps.record import ledger
from apps.record.errors import ContextNotFound, InvalidParams, UnsupportedOperation
from apps.record.events import JSON, AgentSwitched, EventType
from apps.record.models import Context


def switch(principal: Principal, context: uuid.UUID | Context, agent: Agent, options: JSON | None = None) -> bool:
    """Let the caller's conversation go on with `agent`, set up by these options; False where it is so already.

    Without `options` an agent that the conversation is with keeps what it has, and another has none.
    Its tasks stay with whom they were given to, and so do the answers to what those ask.
    Raises ContextNotFound, also for a cleared one, InvalidParams for options that the agent does not take, and
    UnsupportedOperation for an agent that the caller may not use, or a conversation in which agents work for other
    agents; then nothing was recorded.
    """
    key = context if isinstance(context, uuid.UUID) else context.pk
    found = Context.objects.visible_to(principal).filter(pk=key).first()
    if found is None:
        raise ContextNotFound
    check_open(principal, agent)
    if found.parent_task is not None:
        raise UnsupportedOperation("Agents work here for another agent. Only it can call for somebody else.")
    read = read_options(agent, options) if options is not None else None
    try:
        with ledger.writing(key) as log:
            kept = log.context.options if log.context.agent_id == agent.pk else {}
            wanted = kept if read is None else read
            if log.context.agent_id == agent.pk and wanted == kept:
                return False
            log.add(EventType.AGENT_SWITCHED, switched(agent, wanted))
    except Context.DoesNotExist:  # it was cleared just now
        raise ContextNotFound from None
    return True


def check_open(principal: Principal, agent: Agent) -> None:
    """Raises UnsupportedOperation for an agent that the caller may not use."""
    if not agent.is_open_to(principal):
        raise UnsupportedOperation("There is no such agent, or you may not use it. Choose another.")


def read_options(agent: Agent, options: JSON) -> JSON:
    """How the agent is set up by these options. Raises InvalidParams, which names what the agent does not take."""
    try:
        return agent_options.read(agent, options)
    except ValidationError as error:
        field, (sentence, *_) = next(iter(error.message_dict.items()))
        raise InvalidParams(f"{field}: {sentence}", "options") from None


def switched(agent: Agent, options: JSON) -> AgentSwitched:
    """The payload of the event."""
    payload: AgentSwitched = {"agent": agent.pk, "slug": agent.slug}
    if options:
        payload["options"] = options
    return payload
