"""Cards at their well-known paths (A2A 1.0 §8.2, 0.3 §5.3), for caches to keep and to ask again cheaply.

At `agent-card.json` a card is of 1.0, and of 0.3 for who names that version; at `agent.json` it is of 0.3.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import http_date

import bridge
from apps.a2a import versions
from apps.a2a.answers import refusal
from apps.a2a.callers import check_access, find_agent
from apps.a2a.errors import JSON, AgentNotFound, WrongVerb
from apps.a2a.old.cards import old_card
from apps.accounts.credentials import principal_of
from apps.agents import cards, directory
from apps.agents.models import Agent

MAX_AGE = 300  # seconds


async def agent_card(request: HttpRequest, slug: str, is_old: bool = False) -> HttpResponseBase:
    """`GET /a2a/<slug>/.well-known/agent-card.json`. An agent for named groups shows its card to them alone."""
    try:
        _check_verb(request)
        agent = await bridge.run(find_shown, request.headers.get("Authorization", ""), slug)
        shown = _in_version(request, cards.card(agent), is_old)
    except Exception as error:
        return refusal(error)
    private = agent.access == Agent.Access.GROUPS
    return _response(request, shown, agent.updated_at, "private" if private else "public")


async def platform_card(request: HttpRequest, is_old: bool = False) -> HttpResponseBase:
    """`GET /.well-known/agent-card.json`: a card for all agents that everybody may see."""
    try:
        _check_verb(request)
        card, changed = await bridge.run(find_listed)
        shown = _in_version(request, card, is_old)
    except Exception as error:
        return refusal(error)
    return _response(request, shown, changed, "public")


def find_listed() -> tuple[dict[str, Any], datetime.datetime]:
    """The platform's card, and when any agent was last changed, also one that it no longer shows.

    Raises AgentNotFound where there is none to show.
    """
    agents = list(Agent.objects.listed())
    if not agents:
        raise AgentNotFound("There is no agent here that everybody may see.")
    changed: datetime.datetime = Agent.objects.aggregate(newest=Max("updated_at"))["newest"]
    return directory.card(agents), changed


def find_shown(authorization: str, slug: str) -> Agent:
    """The agent whose card may be seen. Raises BadCredentials, Unauthenticated, AgentNotFound.

    How to sign in stands in the card, so that the card of an agent for known callers is open to all.
    """
    agent = find_agent(slug)
    if agent.access == Agent.Access.GROUPS:
        check_access(principal_of(authorization), agent)
    return agent


def _check_verb(request: HttpRequest) -> None:
    if request.method not in ("GET", "HEAD"):
        raise WrongVerb(("GET", "HEAD"))


def _in_version(request: HttpRequest, card: JSON, is_old: bool) -> JSON:
    """Raises AgentNotFound for an old card where nobody is to be reached by old clients."""
    return old_card(card) if is_old or versions.named(request) == versions.OLD else card


def _response(request: HttpRequest, card: dict[str, Any], changed: datetime.datetime, cache: str) -> HttpResponseBase:
    """The card, or 304 to who has it."""
    response = HttpResponse(json.dumps(card, ensure_ascii=False).encode(), content_type="application/json")
    at = int(changed.timestamp())
    response["ETag"] = cards.etag(card)
    response["Last-Modified"] = http_date(at)
    response["Vary"] = versions.HEADER
    response["Cache-Control"] = f"{cache}, max-age={MAX_AGE}"
    return get_conditional_response(request, response["ETag"], at, response) or response
