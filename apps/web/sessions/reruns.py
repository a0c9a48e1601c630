"""Running a session again, and what came of it beside what came before."""

from __future__ import annotations

import uuid

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from apps.accounts import quotas
from apps.agents.models import Agent
from apps.automation import reruns
from apps.record.error_table import codes_of
from apps.record.errors import ContextNotFound, Refusal
from apps.web.agents import suggested_agents
from apps.web.shell import as_reader, page, principal_of, session_or_404


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def rerun(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The form; a POST begins, and leads to the same page of the new session, which compares."""
    context, principal, problem, status = session_or_404(request, session), principal_of(request), "", 200
    if request.method == "POST":
        try:
            quotas.count_act(principal)
            agent = Agent.objects.find(principal, request.POST.get("agent") or context.agent.slug)
            made, _ = reruns.start(principal, session, agent, key=request.POST.get("key", ""))
            return redirect("web:rerun", made.pk)
        except (Refusal, quotas.QuotaExceeded) as refusal:
            problem, status = str(refusal), codes_of(type(refusal)).http
    with as_reader(request):
        try:
            comparison = reruns.compare(principal, session)
        except ContextNotFound:
            comparison = None
        listed = suggested_agents(principal)
        agents = listed if context.agent in listed else [context.agent, *listed]
        known = {
            "session": context,
            "comparison": comparison,
            "agents": agents,
            "problem": problem,
            "key": uuid.uuid4(),
        }
        response = page(request, "web/rerun.html", **known)
    response.status_code = status
    return response


@login_required
def comparison(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The comparison alone, while the agent works."""
    principal = principal_of(request)
    context = session_or_404(request, session)
    found = reruns.compare(principal, session)
    with as_reader(request):
        return page(request, "web/_comparison.html", session=context, comparison=found)
