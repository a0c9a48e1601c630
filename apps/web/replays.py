"""A session's replay: its log event by event, so that a page can show it as it was at any of them."""

from __future__ import annotations

import uuid

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from apps.agents.models import Agent
from apps.record import cold, lineage
from apps.record.models import Context
from apps.web.authors import card_of
from apps.web.entries import entries_of
from apps.web.principals import principal_of
from apps.web.shell import page

A_PAGE = 500  # events that the player loads at once


@require_safe
@login_required
def replay(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The player; it loads the events by itself."""
    context = _context(request, session)
    first = lineage.agent_at(context, 0)[0] if context.last_event else context.agent_id
    beginning = {
        "session": str(context.pk),
        "last": context.last_event,
        "entries": reverse("web:replay-entries", args=[context.pk]),
        "agent": card_of(Agent.objects.get(pk=first)),
    }
    return page(request, "web/replay.html", session=context, beginning=beginning)


@require_safe
@login_required
def entries(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """One entry for each event after index `?after=`, a page of them, and the last index of it."""
    context = _context(request, session)
    named = request.GET.get("after", "0")
    if not (named.isascii() and named.isdigit() and len(named) < 19):
        raise Http404
    events = list(lineage.events(context, int(named))[:A_PAGE])
    told = entries_of(context, events, is_merged=False)
    return JsonResponse({"entries": told, "last": events[-1].index if events else int(named)})


def _context(request: HttpRequest, session: uuid.UUID) -> Context:
    visible = Context.objects.visible_to(principal_of(request)).select_related("agent")
    context = cold.restored_or_none(visible.filter(pk=session).first())
    if context is None:
        raise Http404
    return context


urlpatterns = [
    path("sessions/<uuid:session>/replay", replay, name="replay"),
    path("sessions/<uuid:session>/replay/entries", entries, name="replay-entries"),
]
