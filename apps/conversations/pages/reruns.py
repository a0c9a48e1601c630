"""Running a session again, and what came of it beside what came before."""

from __future__ import annotations

import uuid

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from apps.accounts.principals import Principal
from apps.accounts.requests import quotas
from apps.agents.models import Agent
from apps.agents.pages.agents import choices_of_versions, suggested_agents
from apps.automation import reruns
from apps.engine.send import chosen_version
from apps.record.error_table import codes_of
from apps.record.errors import ContextNotFound, Refusal
from apps.web.shell import page, parse_index, principal_of, reader_view, session_or_404


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def rerun(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The form; a POST begins, and leads to the same page of the new session, which compares."""
    context, principal, problem, status = session_or_404(request, session), principal_of(request), "", 200
    if request.method == "POST":
        try:
            quotas.count_act(principal)
            slug, _, number = request.POST.get("agent", "").partition(":")
            agent = Agent.objects.find(principal, slug or context.agent.slug)
            version = chosen_version(principal, agent, parse_index(number))
            made, _ = reruns.start(principal, session, agent, key=request.POST.get("key", ""), version=version)
            return redirect("web:rerun", made.pk)
        except (Refusal, quotas.QuotaExceeded) as refusal:
            problem, status = str(refusal), codes_of(type(refusal)).http
    listed = suggested_agents(principal)
    response = page(
        request,
        "conversations/rerun.html",
        session=context,
        comparison=_comparison_of(principal, session),
        agents=listed if context.agent in listed else [context.agent, *listed],
        versions=choices_of_versions(principal, context.agent),
        problem=problem,
        key=uuid.uuid4(),
    )
    response.status_code = status
    return response


def _comparison_of(principal: Principal, session: uuid.UUID) -> reruns.Comparison | None:
    """None: it is no rerun."""
    try:
        return reruns.compare(principal, session)
    except ContextNotFound:
        return None


@reader_view
def comparison(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The comparison alone, while the agent works."""
    found = reruns.compare(principal_of(request), session)
    return render(request, "conversations/_comparison.html", {"session": found.session, "comparison": found})
