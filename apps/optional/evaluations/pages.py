"""What people do with evaluations: evaluate two versions of an agent."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.agents.rollouts.releasing import find_agent
from apps.optional.evaluations.evaluating import EVALUATE_BOTH
from apps.web.resources import do
from apps.web.shell import principal_of


@require_POST
@never_cache
@login_required
def evaluate_versions(request: HttpRequest, slug: str) -> HttpResponse:
    agent = find_agent(principal_of(request), slug)
    if agent.rollout is None:
        messages.error(request, "Nothing was done: no version is being tried any more.")
    else:
        do(request, EVALUATE_BOTH, agent.rollout)
    return redirect("web:agent-versions", slug)


urlpatterns = [path("agents/<slug:slug>/versions/evaluate", evaluate_versions, name="evaluate-versions")]
