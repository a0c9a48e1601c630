"""Comparisons in the browser: the list, the sides beside each other, and the form that begins one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from apps.accounts.principals import WRITE, Principal, check_allowed
from apps.accounts.requests import quotas
from apps.agents import options
from apps.agents.models import DRAFT_PREFIX, Agent
from apps.agents.pages.agents import choices_of_versions, suggested_agents
from apps.optional.comparing import comparing
from apps.optional.comparing.models import Comparison
from apps.record.errors import Refusal
from apps.web.resources import MOST_SHOWN, do
from apps.web.shell import agent_or_404, page, principal_of, reader_view

MOST_AGENTS = 100  # of a list to choose from
STOP_POLLING = 286  # htmx's own status
ONE = Comparison.Choice.ONE


@reader_view
def comparisons(request: HttpRequest) -> HttpResponse:
    rows = comparing.COMPARISONS.visible_to(principal_of(request))[:MOST_SHOWN]
    return page(request, "comparing/comparisons.html", rows=rows)


@reader_view
def comparison(request: HttpRequest, comparison: uuid.UUID) -> HttpResponse:
    """For htmx only what changes while agents work."""
    row = comparing.COMPARISONS.find(principal_of(request), comparison)
    sides = comparing.shown_sides(row)
    about = {"row": row, "sides": sides, "may_choose": comparing.may_choose(row)}
    about["is_open"] = any(one.may_change for one in sides)
    if "HX-Request" in request.headers:
        return render(request, "comparing/_states.html", about, status=None if about["is_open"] else STOP_POLLING)
    return page(request, "comparing/comparison.html", **about)


@require_POST
@login_required
def choose(request: HttpRequest, comparison: uuid.UUID) -> HttpResponse:
    """`choice`: the position of a side, whose branch one goes on with; or "both" or "neither"."""
    principal = principal_of(request)
    row, asked = comparing.COMPARISONS.find(principal, comparison), request.POST.get("choice", "")
    try:
        check_allowed(principal, WRITE)
        quotas.count_act(principal)
        if asked in (Comparison.Choice.BOTH, Comparison.Choice.NEITHER):
            comparing.choose(principal, row, asked)
        else:
            side = comparing.side_at(row, int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 3 else 0)
            comparing.choose(principal, row, ONE, side)
            return redirect("web:session", side.session_id)
    except (Refusal, quotas.QuotaExceeded) as refusal:
        messages.error(request, str(refusal))
    return redirect("web:answer-comparison", row.pk)


@require_POST
@login_required
def delete(request: HttpRequest, comparison: uuid.UUID) -> HttpResponse:
    do(request, comparing.DELETE, comparing.COMPARISONS.find(principal_of(request), comparison))
    return redirect("web:comparisons")


@reader_view
def answerers(request: HttpRequest) -> HttpResponse:
    """The fields that choose who answers: `agent` is the first choice, `answer` an answer that is one side already."""
    principal = principal_of(request)
    current = agent_or_404(request, request.GET.get("agent", ""))
    has_answer = "answer" in request.GET
    listed = [one for one in suggested_agents(principal) if not one.slug.startswith(DRAFT_PREFIX)][:MOST_AGENTS]
    agents = [current, *(one for one in listed if one != current)]
    least = comparing.LEAST - has_answer
    places = [(number, number <= least) for number in range(1, comparing.MOST + 1 - has_answer)]
    about = {"places": places, "groups": [*_groups(principal, agents)], "current": current}
    return render(request, "comparing/_answerers.html", {**about, "has_answer": has_answer})


def _groups(principal: Principal, agents: list[Agent]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Agents, then the models and the versions of the first one: values as `choosing.js` reads them, with labels."""
    first = agents[0]
    yield "Agents", [(one.slug, one.name) for one in agents]
    models = [(f"{first.slug} model {one.name}", one.label) for one in options.offered_models(first)]
    versions = [
        (f"{first.slug} version {one.number}", f"{first.name}, version {one.number}")
        for one in choices_of_versions(principal, first)
    ]
    for label, found in (("Models", models), ("Versions", versions)):
        if found:
            yield label, found


urlpatterns = [
    path("comparisons", comparisons, name="comparisons"),
    path("comparisons/answerers", answerers, name="comparison-answerers"),
    path("comparisons/<uuid:comparison>", comparison, name="answer-comparison"),
    path("comparisons/<uuid:comparison>/choose", choose, name="comparison-choose"),
    path("comparisons/<uuid:comparison>/delete", delete, name="comparison-delete"),
]
