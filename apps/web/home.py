"""The first page after signing in."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.principals import Principal
from apps.features.sessions import marks
from apps.web import beginnings
from apps.web.principals import principal_of
from apps.web.shell import by_day, in_their_zone, page, sessions_of

A_PAGE = 30  # sessions on one page of the list


@require_safe
@login_required
@in_their_zone
def home(request: HttpRequest) -> HttpResponse:
    """All sessions, the newest first, or those that were put away (`?show=archived`); `?part=list`: the list alone."""
    principal, archived = principal_of(request), request.GET.get("show") == "archived"
    listing = _listing(principal, request.GET.get("page"), archived=archived)
    if request.GET.get("part") == "list":
        return render(request, "web/_sessions.html", listing)
    if not archived and listing["sessions"].number == 1:
        listing["agents"] = agents = beginnings.agents(principal)
        listing["tries"] = [] if listing["days"] else beginnings.tries(agents)
    return page(request, "web/home.html", **listing)


def _listing(principal: Principal, number: str | None, *, archived: bool) -> dict[str, Any]:
    """A page of sessions by day; what is pinned stands before the first."""
    found, pinned = sessions_of(principal, archived=archived), marks.pinned(principal)
    if archived:
        sessions = Paginator(found, A_PAGE).get_page(number)
        return {"sessions": sessions, "days": list(by_day(sessions)), "archived": True}
    sessions = Paginator(found.exclude(pinned), A_PAGE).get_page(number)
    top = list(found.filter(pinned)) if sessions.number == 1 else []
    days = [*([("Pinned", top)] if top else []), *by_day(sessions)]
    return {"sessions": sessions, "days": days, "archived": False}


@require_safe
@login_required
def find(request: HttpRequest) -> HttpResponse:
    """The agents that fit what is typed (`?q=`); without that, those that were written to last come first."""
    found = beginnings.agents(principal_of(request), request.GET)
    return render(request, "web/_agent_options.html", {"agents": found})
