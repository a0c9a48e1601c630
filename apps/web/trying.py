"""The console in which a person tries an agent over A2A, and the short-lived token that it calls with."""

from __future__ import annotations

from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts import access_tokens
from apps.accounts.models import User
from apps.agents import cards
from apps.agents.models import Agent
from apps.web.principals import principal_of
from apps.web.shell import page

JSON = dict[str, Any]


@require_safe
@login_required
def try_agent(request: HttpRequest, slug: str) -> HttpResponse:
    """The console. An agent that the person may not use is not found."""
    agent = _agent(request, slug)
    return page(request, "web/try_agent.html", agent=agent, trying=beginning(agent))


@require_POST
@login_required
@never_cache
def token(request: HttpRequest, slug: str) -> JsonResponse:
    """A token for this agent alone, which ends with the person's sign-in."""
    agent = _agent(request, slug)
    text, expires = access_tokens.issue(cast("User", request.user), request.session.session_key or "", agent.slug)
    return JsonResponse({"token": text, "expiresAt": expires.isoformat()})


def beginning(agent: Agent) -> JSON:
    """What the console's script starts with."""
    return {
        "name": agent.name,
        "path": f"/a2a/{agent.slug}",
        "endpoint": cards.endpoint(agent),
        "token": reverse("web:try-token", args=[agent.slug]),
        "streams": agent.streams,
        "words": next((one for skill in agent.skills for one in skill.get("examples", [])), "Hello"),
    }


def _agent(request: HttpRequest, slug: str) -> Agent:
    agent = Agent.objects.visible_to(principal_of(request)).filter(slug=slug).first()
    if agent is None:
        raise Http404
    return agent
