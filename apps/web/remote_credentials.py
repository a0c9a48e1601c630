"""What a person brings so that a remote agent lets them in: given, replaced and removed on one page for each agent."""

from __future__ import annotations

import dataclasses
from http import HTTPStatus

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.csp import csp_override
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.remote import credential_forms, credentials
from apps.remote.credential_forms import Problems, Sheet
from apps.remote.models import RemoteAgent, RemoteCredential
from apps.web.framing import UNFRAMED
from apps.web.principals import principal_of

EVERYBODY = "everybody"


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@xframe_options_deny
@csp_override(UNFRAMED)
@login_required
@sensitive_post_parameters()
@sensitive_variables()
def of_agent(request: HttpRequest, slug: str) -> HttpResponse:
    """The page of an agent. Somebody else's is not found."""
    agent, person = _found(principal_of(request), slug), request.user
    if agent is None or not isinstance(person, User):
        raise Http404
    if request.method != "POST":
        return _shown(request, agent, person)
    whose = None if request.POST.get("whose") == EVERYBODY and _registered(agent, person) else person
    if request.POST.get("do") == "remove":
        credentials.forget(agent, whose, request.POST.get("scheme", ""), person)
    elif problems := credential_forms.give(agent, whose, request.POST, person):
        return _shown(request, agent, person, problems)
    return redirect("web:agent-credentials", slug=slug)


def concern(agent: Agent, person: User) -> bool:
    """Is there anything on the page for this person?"""
    return agent.kind == Agent.Kind.REMOTE and bool(credentials.personal_schemes(agent) or _registered(agent, person))


def _found(principal: Principal, slug: str) -> Agent | None:
    """An agent that the person may use, or may no longer use and still has something of theirs."""
    theirs = RemoteCredential.objects.visible_to(principal).values("agent")
    usable = Agent.objects.visible_to(principal).values("pk")
    found = Agent.objects.filter(Q(pk__in=usable) | Q(pk__in=theirs), kind=Agent.Kind.REMOTE, slug=slug)
    return found.select_related("current_version").first()


def _registered(agent: Agent, person: User) -> bool:
    """Did the person register the agent? Then they also give what is for everybody."""
    return RemoteAgent.objects.filter(agent=agent, registered_by=person).exists()


def _common(agent: Agent, problems: Problems | None) -> Sheet | None:
    """What is for everybody: not that which each person brings."""
    sheet = credential_forms.sheet(agent, None, problems)
    shown = [one for one in sheet.shown if not one.is_personal]
    return dataclasses.replace(sheet, shown=shown) if shown else None


def _shown(request: HttpRequest, agent: Agent, person: User, problems: Problems | None = None) -> HttpResponse:
    about = {
        "agent": agent,
        "sheet": credential_forms.sheet(agent, person, problems),
        "common": _common(agent, problems) if _registered(agent, person) else None,
        "everybody": EVERYBODY,
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if problems else HTTPStatus.OK
    return render(request, "web/agent_credentials.html", about, status=status)
