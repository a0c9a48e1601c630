"""An agent's card at its well-known path (A2A 1.0 §8.2), for caches to keep and to ask again cheaply."""

from __future__ import annotations

import json

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import http_date

import bridge
from apps.a2a.answers import refusal
from apps.a2a.callers import check_access, find_agent
from apps.accounts.credentials import principal_of
from apps.agents import cards
from apps.agents.models import Agent

MAX_AGE = 300  # seconds


async def agent_card(request: HttpRequest, slug: str) -> HttpResponseBase:
    """`GET /a2a/<slug>/.well-known/agent-card.json`. An agent for named groups shows its card to them alone."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponse(status=405, headers={"Allow": "GET, HEAD"})
    try:
        agent = await bridge.run(find_shown, request.headers.get("Authorization", ""), slug)
    except Exception as error:
        return refusal(error)
    shown = cards.card(agent)
    response = HttpResponse(json.dumps(shown, ensure_ascii=False).encode(), content_type="application/json")
    changed = int(agent.updated_at.timestamp())
    private = agent.access == Agent.Access.GROUPS
    response["ETag"] = cards.etag(shown)
    response["Last-Modified"] = http_date(changed)
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
