"""An agent's card at its well-known paths (A2A 1.0 §8.2, 0.3 §5.3), for caches to keep and to ask again cheaply."""

from __future__ import annotations

import json
import logging

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import http_date

import bridge
from apps.a2a import versions
from apps.a2a.callers import check_access, find_agent
from apps.a2a.errors import problem
from apps.a2a.old.cards import old_card
from apps.accounts.credentials import principal_of
from apps.agents import cards
from apps.agents.models import Agent

log = logging.getLogger("parley.a2a")

MAX_AGE = 300  # seconds


async def agent_card(request: HttpRequest, slug: str, is_old: bool = False) -> HttpResponseBase:
    """`GET /a2a/<slug>/.well-known/agent-card.json`, or `agent.json` for the old card.

    Who asks for the first in version 0.3 gets the old card too. An agent for named groups shows its card to them alone.
    """
    if request.method not in ("GET", "HEAD"):
        return HttpResponse(status=405, headers={"Allow": "GET, HEAD"})
    try:
        agent = await bridge.run(find_shown, request.headers.get("Authorization", ""), slug)
    except Exception as error:
        return _refusal(error)
    shown = cards.card(agent)
    if is_old or versions.named(request) == versions.OLD:
        shown = old_card(shown)
    response = HttpResponse(json.dumps(shown, ensure_ascii=False).encode(), content_type="application/json")
    changed = int(agent.updated_at.timestamp())
    private = agent.access == Agent.Access.GROUPS
    response["ETag"] = cards.etag(shown)
    response["Last-Modified"] = http_date(changed)
    response["Vary"] = versions.HEADER
    response["Cache-Control"] = f"{'private' if private else 'public'}, max-age={MAX_AGE}"
    return get_conditional_response(request, response["ETag"], changed, response) or response


def find_shown(authorization: str, slug: str) -> Agent:
    """The agent whose card may be seen. Raises BadCredentials, Unauthenticated, AgentNotFound.

    How to sign in stands in the card, so that the card of an agent for known callers is open to all.
    """
    agent = find_agent(slug)
    if agent.access == Agent.Access.GROUPS:
        check_access(principal_of(authorization), agent)
    return agent


def _refusal(error: Exception) -> HttpResponse:
    told = problem(error)
    if told.is_unexpected:
        log.exception("a card could not be shown")
    body = {
        "error": {
            "code": told.row.http,
            "status": told.row.status,
            "message": told.message,
            "details": told.details,
        }
    }
    return HttpResponse(
        json.dumps(body).encode(),
        content_type="application/json",
        status=told.row.http,
        headers=told.http_headers,
    )
