"""The agents that a person may use: all of them, and a page for each."""

from __future__ import annotations

from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.agents import options
from apps.agents.models import Agent, AgentVersion
from apps.remote import uptime
from apps.remote.models import RemoteAgent
from apps.web import paces, remote_credentials, samples
from apps.web.finding import search
from apps.web.principals import principal_of
from apps.web.shell import page, sessions_of

RECENT = 5  # sessions with an agent, and versions of it, on its page

JSON = dict[str, Any]


@require_safe
@login_required
def agents(request: HttpRequest) -> HttpResponse:
    """Those that fit what is searched for, with how they are; while somebody types, the list alone."""
    found = search(principal_of(request), request.GET)
    if request.headers.get("HX-Request") == "true":
        response = render(request, "web/_found.html", {"found": found})
        address = reverse("web:agents")
        response["HX-Replace-Url"] = f"{address}?{found.query}" if found.query else address
    else:
        response = page(request, "web/agents.html", found=found)
    patch_vary_headers(response, ["HX-Request"])
    return response


@require_safe
@login_required
def agent(request: HttpRequest, slug: str) -> HttpResponse:
    """What an agent can do, how it does, how programs call it, and where a session with it begins."""
    visible = Agent.objects.visible_to(principal_of(request)).select_related("current_version", "stats")
    found = visible.filter(slug=slug).first()
    if found is None:
        raise Http404
    about = _behind(request, found)
    about |= {
        "agent": found,
        "pace": paces.of_all([found], {found.pk: about["uptime"]} if about["uptime"] else {})[found.pk],
        "models": options.models_of(found)[:1] if found.kind == Agent.Kind.MODEL else [],
        "lately": list(sessions_of(principal_of(request)).filter(agent=found)[:RECENT]),
        "addresses": samples.addresses(found),
        "samples": [("curl", samples.curl(found)), ("Python", samples.python(found))],
        "versions": _versions(request, found),
        "words": _chosen_example(request, found),
    }
    return page(request, "web/agent.html", **about)


def _behind(request: HttpRequest, agent: Agent) -> JSON:
    """What stands behind a remote agent."""
    if agent.kind != Agent.Kind.REMOTE:
        return {"uptime": None, "remote": None}
    remote = RemoteAgent.objects.select_related("agent__current_version", "proposed").filter(agent=agent).first()
    brings = remote_credentials.concern(agent, cast("User", request.user))
    return {"uptime": uptime.of(agent), "remote": remote, "brings": brings}


def _versions(request: HttpRequest, agent: Agent) -> list[AgentVersion]:
    """The newest, for who may look at versions."""
    if not cast("User", request.user).has_perm("agents.view_agentversion"):
        return []
    return list(AgentVersion.objects.filter(agent=agent).order_by("-number")[:RECENT])


def _chosen_example(request: HttpRequest, agent: Agent) -> str:
    """The words of the example that the address names by its number; an address cannot put in others."""
    examples, chosen = samples.examples(agent), request.GET.get("example", "")
    is_one = chosen.isascii() and chosen.isdecimal() and int(chosen[:6]) < len(examples)
    return examples[int(chosen[:6])] if is_one else ""
