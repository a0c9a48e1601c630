"""Who is calling which agent, and may they."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session

from apps.a2a.errors import AgentNotFound, Unauthenticated
from apps.a2a.fields import Fields
from apps.accounts import access_tokens, quotas
from apps.accounts.access_tokens import SIGN_IN, USER, Claims
from apps.accounts.credentials import KEY, BadCredentials, principal_of
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import ANONYMOUS, Principal
from apps.agents.models import Agent
from apps.record.errors import InvalidParams
from db.selections import Selection, one_of_all, one_of_each

AGENT = Selection(lambda slug: Agent.objects.filter(slug=slug), "slug")

Identify = Callable[[], Principal]


def admit(authorization: str, address: str, slug: str) -> tuple[Principal, Agent]:
    """The caller that an `Authorization` header names, by key or by a token for this agent, and the agent. One query.

    Raises what `caller` raises, Unauthenticated (an anonymous caller of an agent that is not public), AgentNotFound.
    """
    return _let_in(authorization, slug, partial(_counted, address=address))


def admit_again(authorization: str, slug: str) -> tuple[Principal, Agent]:
    """The same of a caller who was let in before and still listens, which is counted as nothing. One query."""
    return _let_in(authorization, slug, lambda identify: identify())


def _let_in(authorization: str, slug: str, known: Callable[[Identify], Principal]) -> tuple[Principal, Agent]:
    slug = slug if slug.isprintable() else ""
    agents: list[Agent | None] = []

    def key_and_agent(prefix: str) -> ApiKey | None:
        key, agent = one_of_each(KEY, prefix, AGENT, slug)
        agents.append(agent)
        return key

    def owner_and_agent(claims: Claims) -> tuple[User | None, Session | None]:
        user, sign_in, agent = one_of_all((USER, claims.user_id), (SIGN_IN, claims.session_key), (AGENT, slug))
        agents.append(agent)
        return user, sign_in

    if access_tokens.is_named_by(authorization):
        principal = known(lambda: access_tokens.principal_of(authorization, slug, owner_and_agent))
    else:
        principal = known(lambda: principal_of(authorization, key_and_agent))
    agent = _enabled(agents[0] if agents else AGENT.one(slug))
    check_access(principal, agent)
    return principal, agent


def caller(authorization: str, address: str) -> Principal:
    """The caller that an `Authorization` header names, who comes from an address; that of bad credentials counts it.

    Raises BadCredentials, quotas.TooMuch.
    """
    return _counted(lambda: principal_of(authorization), address)


def _counted(identify: Identify, address: str) -> Principal:
    try:
        principal = identify()
    except BadCredentials:
        quotas.count_request(ANONYMOUS, address)
        raise
    quotas.count_request(principal, address)
    return principal


def agent_for(principal: Principal, params: Any) -> Agent:
    """The agent that the `tenant` of a request at the front door names; without one, the router where there is one.

    Raises InvalidParams, Unauthenticated, AgentNotFound.
    """
    if not isinstance(params, dict):
        raise InvalidParams("params must be an object.", "params")
    fields = Fields(params)
    tenant = fields.text("tenant", single_line=True)
    fields.check()
    if not tenant:
        return _router(principal)
    agent = find_agent(tenant)
    check_access(principal, agent)
    return agent


def _router(principal: Principal) -> Agent:
    agent = AGENT.one(settings.ROUTER_AGENT)
    if agent is None or not agent.is_open_to(principal):
        raise InvalidParams("Name the agent here, by the last part of its address.", "tenant")
    return agent


def find_agent(slug: str) -> Agent:
    """The agent, whoever may use it. Raises AgentNotFound."""
    return _enabled(AGENT.one(slug) if slug.isprintable() else None)


def _enabled(agent: Agent | None) -> Agent:
    if agent is None or not agent.is_enabled:
        raise AgentNotFound
    return agent


def check_access(principal: Principal, agent: Agent) -> None:
    """Raises Unauthenticated where credentials might help, AgentNotFound where these do not."""
    if not agent.is_open_to(principal):
        raise AgentNotFound if principal.is_known else Unauthenticated
