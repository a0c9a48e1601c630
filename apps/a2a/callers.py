"""Who is calling which agent, and may they."""

from __future__ import annotations

from apps.a2a.errors import AgentNotFound, Unauthenticated
from apps.accounts.credentials import principal_of
from apps.accounts.principals import Principal
from apps.agents.models import Agent


def admit(authorization: str, slug: str) -> tuple[Principal, Agent]:
    """The caller that an `Authorization` header names, and the agent, which they may use. Two queries.

    Raises BadCredentials, Unauthenticated (an anonymous caller of an agent that is not public), AgentNotFound.
    """
    principal = principal_of(authorization)
    agent = Agent.objects.visible_to(principal).filter(slug=slug).first() if slug.isprintable() else None
    if agent is None:
        refuse(principal, slug)
        raise AgentNotFound
    return principal, agent


def refuse(principal: Principal, slug: str) -> None:
    """Raises Unauthenticated if credentials might help."""
    if not principal.is_known and slug.isprintable() and Agent.objects.enabled().filter(slug=slug).exists():
        raise Unauthenticated
