"""What every signed-in page shares: the reader, their time zone, and the sidebar."""

from __future__ import annotations

import datetime
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from itertools import groupby
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.agents.models import DRAFT_PREFIX, Agent
from apps.conversations.forks.branches import with_chosen_leaf
from apps.conversations.sessions import families, marks
from apps.plans.person import waiting_for
from apps.record.models import Context, ContextQuerySet
from apps.record.reading import sync
from apps.record.reading.lookup import find_session
from parley.faces import clock
from parley.registry import added, sidebar_links

type View = Callable[..., HttpResponseBase]

RECENT_SESSIONS = 30  # "Show more" adds as many
MOST_RECENT_SESSIONS = 600


@dataclass(frozen=True, slots=True)
class SidebarSection:
    """What an app adds to the sidebar.

    Attributes:
        template: draws `section.rows`.
        families: of the sessions that it lists (`as_rows`). The lists below leave them out.
    """

    template: str
    rows: Sequence[Any]
    families: frozenset[uuid.UUID] = frozenset()


@dataclass(frozen=True, slots=True)
class Recent:
    """The sidebar: what apps add, pinned sessions, the newest others by day, those that others share with the
    workspace, and how many tasks wait for the reader.
    """

    sections: list[SidebarSection]
    pinned: list[Context]
    shared: list[Context]
    days: list[tuple[str, list[Context]]]
    limit: int
    waiting: int
    has_more: bool

    @property
    def is_empty(self) -> bool:
        return not (self.pinned or self.shared or self.days or any(one.families for one in self.sections))

    @property
    def next_limit(self) -> int:
        return min(self.limit + RECENT_SESSIONS, MOST_RECENT_SESSIONS)


def page(request: HttpRequest, template: str | Sequence[str], **context: Any) -> HttpResponse:
    """`template`: with several, the first that there is."""
    with as_reader(request):
        principal = principal_of(request)
        position = sync.position_token(principal, sync.current_position(principal))
        shell = {"position": position, "recent": recent_sessions(principal), "limits": upload_limits()}
        shell["app_links"] = [(reverse(name), *about) for name, about in sidebar_links().items()]
        return render(request, template, {**shell, **context})


def page_or_fragment(request: HttpRequest, template: str, fragment: str, **context: Any) -> HttpResponse:
    """The page; for htmx only the fragment."""
    is_fragment = "HX-Request" in request.headers
    response = render(request, fragment, context) if is_fragment else page(request, template, **context)
    patch_vary_headers(response, ["HX-Request"])
    return response


def reader_view(view: View) -> View:
    """A read-only view for signed-in people, with their time zone and clock."""

    @require_safe
    @login_required
    @wraps(view)
    def read(request: HttpRequest, **address: Any) -> HttpResponseBase:
        with as_reader(request):
            return view(request, **address)

    return read


@reader_view
def sidebar(request: HttpRequest) -> HttpResponse:
    limit = RECENT_SESSIONS
    with suppress(ValueError):
        limit = max(1, min(int(request.GET.get("listed", RECENT_SESSIONS)), MOST_RECENT_SESSIONS))
    return render(request, "web/_recent.html", {"recent": recent_sessions(principal_of(request), limit)})


def upload_limits() -> dict[str, int]:
    """What a composer may send: bytes of a request, bytes of a resumable upload, and the number of files."""
    return {
        "at_once": settings.MAX_REQUEST_BYTES,
        "one_file": settings.MAX_UPLOAD_BYTES,
        "files": settings.MAX_PARTS - 1,
    }


@contextmanager
def as_reader(request: HttpRequest) -> Iterator[None]:
    """Times in the reader's time zone (`User.time_zone`, or the browser's), by the clock of the browser's language."""
    zone = getattr(getattr(request, "user", None), "time_zone", "")
    read_by = clock.clock_for(request.headers.get("Accept-Language", ""), zone)
    with timezone.override(zone_of(request, zone)), clock.override(read_by):
        yield


def zone_of(request: HttpRequest, chosen: str = "") -> datetime.tzinfo:
    """The chosen time zone, or that of the browser's cookie; otherwise the installation's."""
    try:
        return zoneinfo.ZoneInfo(chosen or request.COOKIES.get("zone", ""))
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return timezone.get_default_timezone()


def recent_sessions(principal: Principal, limit: int = RECENT_SESSIONS) -> Recent:
    """A few queries, however many sessions: those for rows only if there are any. In the active time zone."""
    sections = [found for section in added["sidebar_sections"] if (found := section(principal))]
    listed = frozenset().union(*(one.families for one in sections))
    sessions, pinned = sessions_of(principal), list[Context]()
    if marks.is_any_pinned(principal):
        pinned = list(sessions.filter(marks.pinned_filter(principal))[:MOST_RECENT_SESSIONS])
    elsewhere = Q(pk__in=[one.pk for one in pinned]) | Q(family__in=listed)
    rest = list(sessions.exclude(elsewhere)[: limit + 1])
    has_more = len(rest) > limit and limit < MOST_RECENT_SESSIONS
    others = Context.objects.shared_with(principal).listed()
    shared = list(as_rows(others, principal).exclude(Q(family__in=listed))[:RECENT_SESSIONS]) if others.exists() else []
    return Recent(
        sections,
        pinned,
        shared,
        list(by_day(rest[:limit])),
        limit,
        waiting_for(principal).count(),
        has_more,
    )


def sessions_of(principal: Principal, *, archived: bool = False) -> ContextQuerySet:
    """The caller's own sessions, as `as_rows`."""
    found = Context.objects.of(principal).listed().exclude(agent__slug__startswith=DRAFT_PREFIX)  # drafts that they try
    return as_rows(found, principal).filter(archived_at__isnull=not archived)


def as_rows(found: ContextQuerySet, principal: Principal) -> ContextQuerySet:
    """A row for each family of sessions, newest first, with the reader's marks and the branch that they chose."""
    rows = families.newest_of_each(found).select_related("agent").defer("memory", "options")
    marked = with_chosen_leaf(marks.with_marks(rows, principal), principal)
    return marked.order_by("-updated_at", "-pk")


def by_day(sessions: Iterable[Context]) -> Iterable[tuple[str, list[Context]]]:
    """Sessions, newest first, grouped by day in the active time zone."""
    today = timezone.localdate()
    for day, group in groupby(sessions, key=lambda one: timezone.localdate(one.updated_at)):
        yield _day_name(day, today), list(group)


def _day_name(day: datetime.date, today: datetime.date) -> str:
    match (today - day).days:
        case 0:
            return "Today"
        case 1:
            return "Yesterday"
        case days if 1 < days < 7:
            return f"{day:%A}"
        case _:
            return clock.current().day(day, year=day.year != today.year, month="F")


def principal_of(request: HttpRequest) -> Principal:
    """The signed-in person of a request."""
    return cast("User", request.user).principal


def session_or_404(request: HttpRequest, key: uuid.UUID) -> Context:
    return find_session(principal_of(request), key)


def agent_or_404(request: HttpRequest, slug: str) -> Agent:
    return Agent.objects.select_related("current_version", "stats").find(principal_of(request), slug)


def parse_index(text: str) -> int | None:
    """A whole number from a URL or a form; None if a database could not store it."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
