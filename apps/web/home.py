"""The first page after signing in, and the agents to choose from."""

from __future__ import annotations

from typing import Any, cast

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.gateway import uptime
from apps.gateway.models import RemoteAgent
from apps.web import remote_credentials
from apps.web.finding import search
from apps.web.principals import principal_of
from apps.web.shell import page, sessions_of

A_PAGE = 30  # sessions on one page of the list


@require_safe
@login_required
def home(request: HttpRequest) -> HttpResponse:
    """All sessions, the newest first, and the agents to begin one with."""
    sessions = Paginator(sessions_of(principal_of(request)), A_PAGE).get_page(request.GET.get("page"))
    agents = Agent.objects.visible_to(principal_of(request))
    return page(request, "web/home.html", sessions=sessions, agents=agents)


@require_safe
@login_required
def agents(request: HttpRequest) -> HttpResponse:
    """Those that fit what is searched for, with how they are."""
    found = search(principal_of(request), request.GET)
    return page(request, "web/agents.html", found=found, agents=found.agents, uptimes=found.uptimes)


@require_safe
@login_required
def agent(request: HttpRequest, slug: str) -> HttpResponse:
    """What an agent can do, and where a session with it begins."""
    visible = Agent.objects.visible_to(principal_of(request)).select_related("current_version")
    found = visible.filter(slug=slug).first()
    if found is None:
        raise Http404
    about: dict[str, Any] = {"agent": found, "uptime": None, "remote": None, "most_bytes": settings.MAX_REQUEST_BYTES}
    if found.kind == Agent.Kind.REMOTE:
        remote = RemoteAgent.objects.select_related("agent__current_version", "proposed").filter(agent=found).first()
        brings = remote_credentials.concern(found, cast("User", request.user))
        about |= {"uptime": uptime.of(found), "remote": remote, "brings": brings}
    return page(request, "web/agent.html", **about)
