"""A conversation's page: what it begins with; the live line brings the rest."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.agents.models import Agent
from apps.record import lineage
from apps.record.cold import restored
from apps.record.models import Context, Message
from apps.web.authors import card_of, choices
from apps.web.deliveries import artifacts_before
from apps.web.entries import FORMAT, entries_of, settled_events
from apps.web.listed import by_name
from apps.web.principals import principal_of
from apps.web.queue import queue_of
from apps.web.shell import page
from apps.web.standing import standing_of
from apps.web.trees import branches_json

JSON = dict[str, Any]

TURNS = 30  # messages of the person's own that a page begins with, and that "earlier" adds
MOST_TURNS = 300  # that "earlier" adds where it is asked for more


@require_safe
@login_required
def session(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The page. Somebody else's session is not found."""
    context = _context(request, session)
    agents = list(Agent.objects.visible_to(principal_of(request)))
    usable = any(agent.pk == context.agent_id for agent in agents)
    offered = choices(agents) if context.parent_task is None else []
    about = {"session": context, "agent": context.agent, "agent_is_usable": usable, "offered": offered}
    begun = beginning(context)
    files = artifacts_before(context, begun["last"] + 1)
    listed = {"files": by_name(files), "file_count": len(files)}
    stands = {"standing": standing_of(context), "queue": queue_of(context)}
    return page(request, "web/session.html", beginning=begun, **stands, **listed, **about)


@require_safe
@login_required
def earlier(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The entries of the turns before `?before=<index>`, as many as `turns` says."""
    context = _context(request, session)
    try:
        before, turns = int(request.GET.get("before", "")), int(request.GET.get("turns", TURNS))
    except ValueError:
        raise Http404 from None
    first = _first_of_turns(context, before, max(1, min(turns, MOST_TURNS)))
    return JsonResponse({"first": first, "entries": entries_of(context, settled_events(context, first - 1, before))})


def beginning(context: Context) -> JSON:
    """What the page's script starts with: the newest turns, and where everything else is to be had."""
    last = context.last_event
    first = _first_of_turns(context, last + 1)
    return {
        "session": str(context.pk),
        "agent": card_of(context.agent),
        "format": FORMAT,
        "first": first,
        "last": last,
        "entries": entries_of(context, settled_events(context, first - 1, last + 1)),
        "branches": branches_json(context),
        "line": f"/ws/sessions/{context.pk}",
        "say": reverse("web:say", args=[context.pk]),
        "again": reverse("web:again", args=[context.pk]),
        "rate": reverse("web:rate", args=[context.pk]),
        "switch": reverse("web:switch", args=[context.pk]),
        "stop": reverse("web:stop", args=[context.pk]),
        "earlier": reverse("web:earlier", args=[context.pk]),
        "queue": reverse("web:queue", args=[context.pk]),
    }


def _first_of_turns(context: Context, before: int, turns: int = TURNS) -> int:
    """The index at which so many last turns before index `before` begin."""
    said = lineage.messages(context).filter(role=Message.Role.USER, index__lt=before).order_by("-index")
    begins = list(said.values_list("index", flat=True)[:turns])
    return begins[-1] if len(begins) == turns else 1


def _context(request: HttpRequest, session: uuid.UUID) -> Context:
    context = Context.objects.visible_to(principal_of(request)).select_related("agent").filter(pk=session).first()
    if context is None:
        raise Http404
    return restored(context)
