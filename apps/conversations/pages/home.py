"""Home, where sessions begin, and the lists of sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.agents.pages.agents import last_used
from apps.agents.search import default_among, find_agents
from apps.conversations.sessions import marks
from apps.installation import current
from apps.record.models import Context
from apps.routing.suggestions import Suggestion, example_messages, suggested_messages
from apps.web.first_steps import first_steps
from apps.web.shell import by_day, page, principal_of, reader_view, sessions_of

PAGE_SIZE = 30  # sessions on one page of a list
RECENT = 8  # sessions on the home page
LISTS = {"all": False, "archived": True}
"""`?show=` of the pages that list sessions, and whether they list archived ones."""


@reader_view
def home(request: HttpRequest) -> HttpResponse:
    """The composer of a new session, and the newest sessions.

    `?agent=SLUG` chooses the agent; `?part=tries` gives only its examples. `?show=all` and `?show=archived` are pages
    that list sessions; `?part=list` gives only the list.
    """
    principal, show = principal_of(request), request.GET.get("show", "")
    listing = _listing(principal, show, request.GET.get("page")) if show in LISTS else _recent(principal)
    if request.GET.get("part") == "list":
        return render(request, "web/_sessions.html", listing)
    if request.GET.get("part") == "tries":
        return render(request, "automation/_tries.html", _beginning(principal, request.GET.get("agent", "")))
    if show in LISTS:
        return page(request, "web/sessions.html", **listing)
    beginning = _beginning(principal, request.GET.get("agent", ""))
    return page(request, "web/home.html", **listing, **beginning, first_steps=first_steps(request))


def _listing(principal: Principal, show: str, number: str | None) -> dict[str, Any]:
    archived = LISTS[show]
    found, pinned = sessions_of(principal, archived=archived), marks.pinned_filter(principal)
    unpinned = found if archived else found.exclude(pinned)
    sessions = Paginator(unpinned, PAGE_SIZE).get_page(number)
    top = list(found.filter(pinned)) if sessions.number == 1 and not archived else []
    return {"sessions": sessions, "days": _days(top, sessions), "archived": archived, "show": show}


def _recent(principal: Principal) -> dict[str, Any]:
    found, pinned = sessions_of(principal), marks.pinned_filter(principal)
    top = list(found.filter(pinned)[: RECENT + 1])
    rest = list(found.exclude(pinned)[: RECENT + 1])
    has_more = max(len(top), len(rest)) > RECENT
    return {"days": _days(top[:RECENT], rest[:RECENT]), "has_more": has_more, "archived": False, "show": ""}


def _days(top: list[Context], rest: Iterable[Context]) -> list[tuple[str, list[Context]]]:
    return [*([("Pinned", top)] if top else []), *by_day(rest)]


def _beginning(principal: Principal, slug: str) -> dict[str, Any]:
    """The agent of the composer, examples, and why the named agent is not chosen."""
    used = last_used(principal)
    agents = find_agents(principal, last_used=used)
    named = Agent.objects.find_or_none(principal, slug) if slug else None
    problem = "" if named or not slug else f"There is no agent “{slug}” that you may use. Choose another."
    return {
        "may_write": principal.can(Permission.SEND),
        "agent": named or chosen_agent(agents, used),
        "suggestions": starters_of(named) if named else suggested_messages(agents),
        "problem": problem,
    }


def chosen_agent(agents: list[Agent], last_used: Mapping[int, float]) -> Agent | None:
    """The available agent that was used last; otherwise the one for messages that name none, or the first agent.

    What a person used before there was a language model was no choice against it. Nor was the router, which was the
    default before.
    """
    since = current.snapshot().connected_at
    used = [one for one in agents if one.is_available and last_used.get(one.pk, 0.0) > since]
    newest = max(used, key=lambda one: last_used[one.pk], default=None)
    if newest is not None and newest.slug != settings.ROUTER_AGENT:
        return newest
    return default_among(agents) or next(iter(agents), None)


MOST_STARTERS = 6  # of a chosen agent


def starters_of(agent: Agent) -> list[Suggestion]:
    return [Suggestion(agent, words) for words in example_messages(agent)[:MOST_STARTERS]]
