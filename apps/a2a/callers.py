"""Who is calling which agent, and may they."""

from __future__ import annotations

from apps.a2a.errors import AgentNotFound, Unauthenticated
from apps.accounts.credentials import principal_of
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from bridge.statements import Selection

AGENT = Selection(lambda slug: Agent.objects.filter(slug=slug), "slug")


def admit(authorization: str, slug: str) -> tuple[Principal, Agent]:
    """The caller that an `Authorization` header names, and the agent, which they may use. Two queries.

    Raises BadCredentials, Unauthenticated (an anonymous caller of an agent that is not public), AgentNotFound.
    """
    principal = principal_of(authorization)
    agent = find_agent(slug)
    check_access(principal, agent)
    return principal, agent


def find_agent(slug: str) -> Agent:
    """The agent, whoever may use it. Raises AgentNotFound."""
    agent = AGENT.one(slug) if slug.isprintable() else None
    if agent is None or not agent.is_enabled:
        raise AgentNotFound
    return agent


def check_access(principal: Principal, agent: Agent) -> None:
    """Raises Unauthenticated where credentials might help, AgentNotFound where these do not."""
    if not agent.is_open_to(principal):
        raise AgentNotFound if principal.is_known else Unauthenticated
