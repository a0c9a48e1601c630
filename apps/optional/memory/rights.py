"""What an agent may do with a person's memory: as the person says, or else operators, or else by the agent's kind."""

from __future__ import annotations

from django.conf import settings
from django.db.models import F, Q

from agentkit.content.memories import ENDING
from apps.accounts.principals import WRITE, Principal, check_allowed
from apps.agents.models import TAKES_MEMORY, Agent
from apps.agents.options import declared_extension
from apps.optional.memory.models import AgentMemory

Uses = AgentMemory.Uses


def usual(agent: Agent) -> AgentMemory.Uses:
    """Agents that run no code of others, and the Assistant, read and change memory."""
    is_ours = agent.kind == Agent.Kind.MODEL or agent.slug == settings.DEFAULT_AGENT
    return Uses.WRITE if is_ours else Uses.NONE


def possible(agent: Agent) -> list[AgentMemory.Uses]:
    """What people may choose for the agent. Only agents without code and the Assistant have tools to change memory.

    Others read it if they say that they take it: by their handler, or by their card.
    """
    if usual(agent) == Uses.WRITE:
        return [Uses.NONE, Uses.READ, Uses.WRITE]
    takes = (
        declared_extension(agent, ENDING) if agent.kind == Agent.Kind.REMOTE else agent.capabilities.get(TAKES_MEMORY)
    )
    return [Uses.NONE, Uses.READ] if takes else [Uses.NONE]


def uses_of(agent: Agent, user: int) -> AgentMemory.Uses:
    """What the agent may do with this person's memory. One query at most."""
    allowed = possible(agent)
    if len(allowed) == 1:
        return allowed[0]
    said = AgentMemory.objects.filter(Q(owner=None) | Q(owner=user), agent=agent)
    newest = said.order_by(F("owner").asc(nulls_last=True)).values_list("uses", flat=True).first()
    chosen = Uses(newest) if newest is not None else usual(agent)
    return chosen if chosen in allowed else allowed[-1]


def choose(principal: Principal, agent: Agent, uses: AgentMemory.Uses) -> None:
    """The person's choice for their own memory. Raises MissingScope, MissingRole."""
    check_allowed(principal, WRITE)
    AgentMemory.objects.update_or_create(agent=agent, owner_id=principal.user_id, defaults={"uses": uses})
