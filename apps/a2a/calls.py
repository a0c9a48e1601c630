"""A call on its way through either binding: who calls, which agent, with what, and what the operation answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.http import HttpRequest

import db
from apps.a2a import extensions, versions
from apps.a2a.callers import admit, admit_again, agent_for, caller
from apps.a2a.errors import NotJson, ParseError
from apps.a2a.operations import OPERATIONS, OWN_METHODS, STREAMING, Call, check_scope
from apps.accounts import quotas
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record import strict_json

LARGE_BODY = 64 * 1024  # bytes; a larger one is not read on the event loop
JSON_TYPE = re.compile(r"application/([a-z0-9.+-]+\+)?json", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request whose caller is known; the agent too, unless it came to the front door, where `tenant` names it."""

    request: HttpRequest
    principal: Principal
    agent: Agent | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operation answers, and the headers that go with it.

    Attributes:
        content: a JSON value, or Updates to be streamed.
        ended: is to be called when all of it was said.
        recheck: raises BadCredentials or Refusal where the call would not be let in any more. Synchronous.
    """

    content: Any
    headers: dict[str, str]
    ended: Callable[[], None]
    recheck: Callable[[], None]

    @property
    def streams(self) -> bool:
        return isinstance(self.content, AsyncGenerator)


CarryOut = Callable[[Arrival, str, Any], Awaitable[Answer]]
"""Lets an operation, by its name in some version, answer a request. Raises record.errors.Refusal."""


def check_headers(request: HttpRequest) -> None:
    """Raises NotJson for a body that does not say that it is JSON, or that is compressed."""
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip()
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if not JSON_TYPE.fullmatch(media_type) or encoding != "identity":
        raise NotJson


async def arrive(request: HttpRequest, slug: str) -> Arrival:
    """Who is calling the agent `slug`, or the front door where that is empty.

    Raises BadCredentials, TooMuch, Unauthenticated, AgentNotFound.
    """
    authorization = request.headers.get("Authorization", "")
    if slug:
        return Arrival(request, *await db.run(admit, authorization, address_of(request), slug))
    return Arrival(request, await db.run(caller, authorization, address_of(request)), None)


def address_of(request: HttpRequest) -> str:
    """Where the request comes from, as the ASGI server says."""
    return str(request.META.get("REMOTE_ADDR", ""))


async def read_body(body: bytes) -> Any:
    """The JSON value of a request. Raises ParseError."""
    try:
        if len(body) > LARGE_BODY:
            return await asyncio.to_thread(strict_json.read, body)
        return strict_json.read(body)
    except strict_json.NotStrict as error:
        raise ParseError(str(error)) from None


async def carry_out(arrival: Arrival, method: str, params: Any, version: str = versions.CURRENT) -> Answer:
    """Let the operation `method` answer a caller who speaks `version`. Raises record.errors.Refusal, TooMuch."""
    principal, request = arrival.principal, arrival.request
    check_scope(principal, method)
    agent = arrival.agent
    if agent is None:
        agent = await db.run(agent_for, principal, params)
    activated = extensions.negotiate(agent, request)
    headers = {extensions.HEADER: ", ".join(activated)} if activated else {}
    resumes, span = (request.headers.get(name, "") for name in ("Last-Event-ID", "traceparent"))
    call = Call(principal, agent, params, resumes, version, span)
    with ExitStack() as meanwhile:
        if method in STREAMING:
            meanwhile.callback(quotas.open_stream(principal, address_of(request)))
        operation = OPERATIONS.get(method) or OWN_METHODS[method]
        recheck = partial(_recheck, request.headers.get("Authorization", ""), agent.slug, method)
        return Answer(await operation(call), headers, meanwhile.pop_all().close, recheck)


def _recheck(authorization: str, slug: str, method: str) -> None:
    principal, _ = admit_again(authorization, slug)
    check_scope(principal, method)
