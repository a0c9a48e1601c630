"""Who is calling a door, and which agent they may use."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from django.http import HttpRequest

from apps.a2a import http
from apps.a2a.authentication import authenticate, check_access, find_agent
from apps.accounts.principals import READ, WRITE, Principal
from apps.accounts.requests.authentication import OpenStream
from apps.agents.models import Agent, AgentNotFound
from apps.record.errors import Unauthenticated, check_allowed
from parley import db


async def authenticate_caller(request: HttpRequest, resource: str, scope: str = WRITE) -> http.AuthenticatedRequest:
    """A caller with credentials. `resource`: the door's path. The body, which names an agent, has not been received.

    Raises BadCredentials, QuotaExceeded, Unauthenticated, MissingScope, MissingRole.
    """
    incoming = await http.authenticate_request(request, "", resource)
    if not incoming.principal.is_known:
        raise Unauthenticated
    check_allowed(incoming.principal, scope)
    return incoming


async def with_agent(incoming: http.AuthenticatedRequest, slug: str) -> http.AuthenticatedRequest:
    """The request with the agent that its body names, if any. Raises AgentNotFound."""
    return replace(incoming, agent=await db.run(open_agent, incoming.principal, slug)) if slug else incoming


def called_agent(incoming: http.AuthenticatedRequest) -> Agent:
    """Raises AgentNotFound if the request named none."""
    if incoming.agent is None:
        raise AgentNotFound
    return incoming.agent


def open_agent(principal: Principal, slug: str) -> Agent:
    """The agent that this slug names, if the caller may use it. Raises AgentNotFound."""
    return check_access(principal, find_agent(slug))


def recheck(request: HttpRequest, slug: str, scope: str = READ) -> partial[None]:
    """What raises BadCredentials or Refusal once the caller of an open stream has lost access to the agent."""
    return partial(_check_again, request.META.get("HTTP_AUTHORIZATION", ""), slug, scope)


def _check_again(authorization: str, slug: str, scope: str) -> None:
    principal, _ = authenticate(authorization, slug, OpenStream())
    check_allowed(principal, scope)
