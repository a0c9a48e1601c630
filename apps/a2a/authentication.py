"""Authenticates callers and checks their access to agents."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

from django.http import HttpRequest

from apps.a2a.protojson import Line, ProtoMessage
from apps.accounts.clients import oauth
from apps.accounts.models import ApiKey
from apps.accounts.principals import ANONYMOUS, Principal
from apps.accounts.requests import authentication, quotas
from apps.accounts.requests.authentication import BadCredentials, OpenStream
from apps.agents.models import Agent, AgentNotFound
from apps.agents.search import default_agent
from apps.agents.sql import AGENT_BY_SLUG, KEY_AND_AGENT, TOKEN_AND_AGENT, USER_SESSION_AND_AGENT
from apps.limits import current as limits
from apps.record.errors import InvalidParams, Unauthenticated
from apps.record.reading import lookup, task_json
from apps.remote.federation import tokens
from apps.remote.federation.calls import federated_caller
from parley.db.sql import Query

FindKey = Callable[[str, str], tuple[ApiKey | None, Agent | None] | None]
"""By the key's prefix and the agent's slug."""


def authenticate(
    authorization: str, slug: str, request: HttpRequest, find_key: FindKey = KEY_AND_AGENT.one
) -> tuple[Principal, Agent | None]:
    """The caller of an `Authorization` header, and the agent if they may use it. One query.

    The front door has no slug, and no agent yet. Requests are counted; those with bad credentials by address. Where an
    open stream is checked again, nothing is counted.
    Raises BadCredentials, QuotaExceeded, Unauthenticated, AgentNotFound.
    """
    address = None if isinstance(request, OpenStream) else str(request.META.get("REMOTE_ADDR", ""))
    try:
        principal, agent = _find_caller_and_agent(authorization, slug if slug.isprintable() else "", request, find_key)
    except BadCredentials:
        if address is not None:
            quotas.count_request(ANONYMOUS, address)
        raise
    if address is not None:
        limits.count_request(principal, address)
    if slug and (agent is None or not agent.is_open_to(principal)):
        _refuse(principal, agent)
    return principal, agent if slug else None


def _find_caller_and_agent(
    authorization: str, slug: str, request: HttpRequest, find_key: FindKey
) -> tuple[Principal, Agent | None]:
    """Raises BadCredentials, also for a token of one agent or a peer at the front door or another door than A2A."""
    if not authorization:
        return ANONYMOUS, AGENT_BY_SLUG.one(slug) if slug else None
    if found := authentication.API_KEY_HEADER.fullmatch(authorization):
        prefix, secret = found.groups()
        key, agent = find_key(prefix, slug) or (None, None)
        return authentication.check_key(key, secret, request).principal, agent
    is_a2a = isinstance(request, OpenStream) or request.path_info.startswith("/a2a/")
    if slug and is_a2a and authentication.ACCESS_TOKEN_HEADER.match(authorization):
        claims = authentication.read_access_token(authorization, slug)
        nobody = None, None, None
        user, session, agent = USER_SESSION_AND_AGENT.one(claims.user_id, claims.session_key, slug) or nobody
        return authentication.token_principal(user, session), agent
    if slug and is_a2a and (token := tokens.token_in(authorization)):
        return federated_caller(token, slug, is_open=isinstance(request, OpenStream))
    if access_token := authentication.access_token_in(authorization):
        granted, client, user, agent = TOKEN_AND_AGENT.one(oauth.hash_of(access_token), slug) or (
            None,
            None,
            None,
            None,
        )
        return authentication.check_access_token(request, granted, client, user), agent
    raise BadCredentials


class TaskReading:
    """A task that a request asks for, read by the query that finds its caller, if they have an API key.

    `json` is None unless it was found, and is this caller's to see; then only a look for it alone can say more.
    """

    def __init__(self, task_id: str, history_length: int | None) -> None:
        """Raises ValueError."""
        self.asked = task_id, history_length
        self.json: str | None = None
        self._key = uuid.UUID(task_id)
        self._found: task_json.TaskText | None = None

    @classmethod
    def of(cls, params: Any) -> TaskReading | None:
        """The reading for a GetTask with these parameters; None if they say more, or something odd."""
        if not isinstance(params, dict) or not params.keys() <= {"id", "historyLength"}:
            return None
        task_id, length = params.get("id"), params.get("historyLength")
        is_length = length is None or (type(length) is int and 0 <= length < 2**31)
        try:
            return cls(task_id, length) if isinstance(task_id, str) and is_length else None
        except ValueError:
            return None

    def authenticate(self, authorization: str, slug: str, request: HttpRequest) -> tuple[Principal, Agent | None]:
        """`authenticate`, and read the task. Raises as that."""
        principal, agent = authenticate(authorization, slug, request, self._find)
        if agent is not None and self._found is not None and lookup.may_read(principal, agent, self._found):
            self.json = self._found.json
        return principal, agent

    def _find(self, prefix: str, slug: str) -> tuple[ApiKey | None, Agent | None] | None:
        lengths = task_json.shown_lengths(self.asked[1])
        row = _key_agent_and_task(bool(lengths)).one(*lengths, prefix, slug, self._key)
        if row is None:
            return None
        key, agent, *task = row
        self._found = task_json.TaskText.of(task) if task[0] is not None else None
        return key, agent


@cache
def _key_agent_and_task(with_history: bool) -> Query[Any]:
    """`KEY_AND_AGENT`, and the agent's task of a key."""
    tables = (
        f"LEFT JOIN {task_json.TASK_TABLE} ON task.id = %s AND task.agent_id = agent.id AND api_key.id IS NOT NULL "
        f"LEFT JOIN {task_json.CONTEXT_TABLE}"
    )
    return KEY_AND_AGENT.joined(task_json.columns_sql(with_history), tables)


class FrontDoorRequest(ProtoMessage):
    """The field that names the agent."""

    tenant: Line = ""


def names_no_agent(params: Any) -> bool:
    """Whether a request to the front door leaves out the tenant. Raises InvalidParams."""
    return not FrontDoorRequest.read(params).tenant


def agent_of_tenant(principal: Principal, params: Any) -> Agent:
    """The agent that `tenant` names at the front door; by default the one that answers messages without an agent.

    Raises InvalidParams, Unauthenticated, AgentNotFound.
    """
    tenant = FrontDoorRequest.read(params).tenant
    if not tenant:
        return _default_agent(principal)
    return check_access(principal, find_agent(tenant))


def _default_agent(principal: Principal) -> Agent:
    if (agent := default_agent(principal)) is None:
        raise InvalidParams("Name the agent here, by the last part of its address.", "tenant")
    return agent


def find_agent(slug: str) -> Agent | None:
    """Does not check access."""
    return AGENT_BY_SLUG.one(slug) if slug.isprintable() else None


def check_access(principal: Principal, agent: Agent | None) -> Agent:
    """The agent, if the caller may use it. Raises as `_refuse`."""
    if agent is None or not agent.is_open_to(principal):
        _refuse(principal, agent)
    return agent


def _refuse(principal: Principal, agent: Agent | None) -> NoReturn:
    """An agent that is hidden from the caller is answered, in the same time, as none.

    Raises Unauthenticated where credentials would help and everybody may see the card, otherwise AgentNotFound.
    """
    if agent is not None and agent.is_enabled and agent.has_open_card and not principal.is_known:
        raise Unauthenticated
    if agent is None or agent.access != Agent.Access.GROUPS or not principal.may_use(agent.slug):
        Agent.objects.visible_to(principal).filter(pk=0).exists()  # the query that a hidden agent of groups takes
    raise AgentNotFound
