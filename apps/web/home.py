"""The sign-in page, which limits wrong passwords, and the list of sessions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.principals import Principal
from apps.agents import search
from apps.agents.models import Agent
from apps.features.sessions import marks
from apps.record.models import Context
from apps.web.agents import example_messages, query_text
from apps.web.shell import by_day, page, principal_of, reader_view, sessions_of

MOST_FAILURES = 10  # wrong passwords for one address within FAILURE_WINDOW
FAILURE_WINDOW = 10 * 60  # seconds


class SignInForm(AuthenticationForm):
    """E-mail and password. After too many failures a person must wait, whether the address exists or not."""

    error_messages = {
        "invalid_login": "The e-mail address or the password is not right. Capital letters count in passwords.",
        "inactive": "This account is switched off. Ask whoever runs this installation.",
    }
    waiting = "Too many wrong passwords for this address. Wait ten minutes, then try again."

    def clean(self) -> dict[str, Any]:
        key = self._key()
        if int(cache.get(key, 0)) >= MOST_FAILURES:
            raise ValidationError(self.waiting, code="waiting")
        try:
            return super().clean()
        except ValidationError:
            cache.add(key, 0, FAILURE_WINDOW)
            cache.incr(key)
            raise

    def _key(self) -> str:
        address = str(self.data.get("username", "")).strip().lower()
        origin = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        return "sign-in:" + hashlib.sha256(f"{address}\0{origin}".encode()).hexdigest()


class SignIn(LoginView):
    template_name = "web/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args: str, **kwargs: Any) -> HttpResponse:
        """The page. For htmx, which follows redirects, 401 instead."""
        return HttpResponse(status=401) if "HX-Request" in request.headers else super().get(request, *args, **kwargs)


PAGE_SIZE = 30  # sessions on one page of the list


@reader_view
def home(request: HttpRequest) -> HttpResponse:
    """The sessions, newest first; `?show=archived` lists archived ones, `?part=list` gives only the list."""
    principal, archived = principal_of(request), request.GET.get("show") == "archived"
    listing = _listing(principal, request.GET.get("page"), archived=archived)
    if request.GET.get("part") == "list":
        return render(request, "web/_sessions.html", listing)
    if not archived and listing["sessions"].number == 1:
        listing["agents"] = agents = suggested_agents(principal)
        listing["suggestions"] = [] if listing["days"] else suggested_messages(agents)
    return page(request, "web/home.html", **listing)


def _listing(principal: Principal, number: str | None, *, archived: bool) -> dict[str, Any]:
    found, pinned = sessions_of(principal, archived=archived), marks.pinned_filter(principal)
    if archived:
        sessions = Paginator(found, PAGE_SIZE).get_page(number)
        return {"sessions": sessions, "days": list(by_day(sessions)), "archived": True}
    sessions = Paginator(found.exclude(pinned), PAGE_SIZE).get_page(number)
    top = list(found.filter(pinned)) if sessions.number == 1 else []
    days = [*([("Pinned", top)] if top else []), *by_day(sessions)]
    return {"sessions": sessions, "days": days, "archived": False}


@reader_view
def palette(request: HttpRequest) -> HttpResponse:
    """The agents that match `?q=`; without it all agents, the last used first."""
    found = suggested_agents(principal_of(request), request.GET)
    return render(request, "web/_agent_options.html", {"agents": found})


SUGGESTIONS = 3
PREFERRED_SLUGS = ("travel", "writer", "builder")  # of the showcase


@dataclass(frozen=True, slots=True)
class Suggestion:
    agent: Agent
    words: str


def suggested_agents(principal: Principal, asked: Mapping[str, str] | None = None) -> list[Agent]:
    """The agents that the caller may use and that match `q`, the best match first. Two queries at most.

    Without `q` they are sorted by availability and last use.
    """
    text = query_text(asked or {})
    found = search.find_agents(principal, text)
    if text:
        return found
    late = _last_used(principal)
    return sorted(found, key=lambda agent: (not agent.is_available, -late.get(agent.pk, 0.0), agent.name.casefold()))


def _last_used(principal: Principal) -> dict[int, float]:
    own = Context.objects.visible_to(principal).listed().order_by()
    rows = own.values_list("agent").annotate(last=Max("updated_at"))
    return {agent: last.timestamp() for agent, last in rows}


def suggested_messages(agents: list[Agent]) -> list[Suggestion]:
    rank = {slug: place for place, slug in enumerate(PREFERRED_SLUGS)}
    usable = [agent for agent in agents if agent.is_available and any(example_messages(agent)[:1])]
    chosen = sorted(usable, key=lambda agent: rank.get(agent.slug, SUGGESTIONS))[:SUGGESTIONS]
    return [Suggestion(agent, example_messages(agent)[0]) for agent in chosen]
