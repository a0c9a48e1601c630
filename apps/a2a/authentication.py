"""Who is calling which agent, by key or by token, and may they."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session

from apps.a2a.errors import AgentNotFound, Unauthenticated
from apps.a2a.protojson import Line, ProtoMessage
from apps.accounts import authentication, quotas
from apps.accounts.authentication import (
    BadCredentials,
    Claims,
    api_key_principal,
)
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import ANONYMOUS, Principal
from apps.agents.models import Agent
from apps.agents.sql import AGENT_BY_SLUG, KEY_AND_AGENT, USER_SESSION_AND_AGENT
from apps.record.errors import InvalidParams


def authenticate_for_agent(authorization: str, slug: str, address: str | None) -> tuple[Principal, Agent]:
    """The caller that an `Authorization` header names, by key or by a token for this agent, and the agent. One query.

    A request is counted, one with bad credentials by the address it comes from; with an address of None it is of
    somebody who was let in before and still listens, which counts as nothing.
    Raises what `authenticate` raises, Unauthenticated (anonymous, and the agent is not public), AgentNotFound.
    """
    slug = slug if slug.isprintable() else ""
    agents: list[Agent | None] = []

    def key_and_agent(prefix: str) -> ApiKey | None:
        key, agent = KEY_AND_AGENT.one(prefix, slug) or (None, None)
        agents.append(agent)
        return key

    def owner_and_agent(claims: Claims) -> tuple[User | None, Session | None]:
        found = USER_SESSION_AND_AGENT.one(claims.user_id, claims.session_key, slug)
        user, sign_in, agent = found or (None, None, None)
        agents.append(agent)
        return user, sign_in

    def identify() -> Principal:
        if authentication.is_access_token(authorization):
            return authentication.access_token_principal(authorization, slug, owner_and_agent)
        return api_key_principal(authorization, key_and_agent)

    principal = identify() if address is None else _identify_and_count(identify, address)
    agent = _require_enabled(agents[0] if agents else AGENT_BY_SLUG.one(slug))
    check_access(principal, agent)
    return principal, agent


def authenticate(authorization: str, address: str) -> Principal:
    """The caller that an `Authorization` header names, who comes from an address; that of bad credentials counts it.

    Raises BadCredentials, quotas.QuotaExceeded.
    """
    return _identify_and_count(partial(api_key_principal, authorization), address)


def _identify_and_count(identify: Callable[[], Principal], address: str) -> Principal:
    try:
        principal = identify()
    except BadCredentials:
        quotas.count_request(ANONYMOUS, address)
        raise
    quotas.count_request(principal, address)
    return principal


class FrontDoorRequest(ProtoMessage):
    """What the front door reads of a request."""

    tenant: Line = ""


def agent_of_tenant(principal: Principal, params: Any) -> Agent:
    """The agent that the `tenant` of a request at the front door names; without one, the router where there is one.

    Raises InvalidParams, Unauthenticated, AgentNotFound.
    """
    tenant = FrontDoorRequest.read(params).tenant
    if not tenant:
        return _router(principal)
    agent = find_agent(tenant)
    check_access(principal, agent)
    return agent


def _router(principal: Principal) -> Agent:
    agent = AGENT_BY_SLUG.one(settings.ROUTER_AGENT)
    if agent is None or not agent.is_open_to(principal):
        raise InvalidParams("Name the agent here, by the last part of its address.", "tenant")
    return agent


def find_agent(slug: str, *, or_disabled: bool = False) -> Agent:
    """The agent, whoever may use it. Raises AgentNotFound."""
    return _require_enabled(AGENT_BY_SLUG.one(slug) if slug.isprintable() else None, or_disabled=or_disabled)


def _require_enabled(agent: Agent | None, *, or_disabled: bool = False) -> Agent:
    if agent is None or not (agent.is_enabled or or_disabled):
        raise AgentNotFound
    return agent


def check_access(principal: Principal, agent: Agent) -> None:
    """Raises Unauthenticated where credentials might help, AgentNotFound where these do not."""
    if not agent.is_open_to(principal):
        raise AgentNotFound if principal.is_known else Unauthenticated
