"""What stands around every signed-in page: the list of recent sessions."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from itertools import groupby
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.principals import Principal
from apps.features.sessions import marks
from apps.plans.waiting import waiting_for
from apps.record import sync_cursors
from apps.record.models import Context, Task
from apps.record.models.record import ContextQuerySet
from apps.web.principals import principal_of

type View = Callable[..., HttpResponse]

LISTED = 30  # recent sessions beside a page; "Show more" lists as many again
MOST = 600


@dataclass(frozen=True, slots=True)
class Recent:
    """The list beside a page: what is pinned, the newest of the rest by day, how many wait for an answer."""

    pinned: list[Context]
    days: list[tuple[str, list[Context]]]
    listed: int
    waiting: int
    has_more: bool

    @property
    def next_number(self) -> int:
        return min(self.listed + LISTED, MOST)


def page(request: HttpRequest, template: str, **context: Any) -> HttpResponse:
    """A page of somebody who is signed in, in its shell."""
    zone = zone_of(request)
    with timezone.override(zone):
        principal = principal_of(request)
        position = sync_cursors.token(
            principal, sync_cursors.here(principal)
        )  # what comes after it comes over a live line
        about = {"position": position, "recent": recent(principal), "zone": zone, "limits": limits()}
        return render(request, template, {**about, **context})


def in_their_zone(view: View) -> View:
    """What the view says of times is said in the reader's time zone."""

    @wraps(view)
    def answered(request: HttpRequest, **address: Any) -> HttpResponse:
        with timezone.override(zone_of(request)):
            return view(request, **address)

    return answered


@require_safe
@login_required
@in_their_zone
def sidebar(request: HttpRequest) -> HttpResponse:
    """The list alone, as it is now; `?listed=` says how many."""
    listed = LISTED
    with suppress(ValueError):
        listed = max(1, min(int(request.GET.get("listed", LISTED)), MOST))
    return render(request, "web/_recent.html", {"recent": recent(principal_of(request), listed)})


def limits() -> dict[str, int]:
    """What a composer may send: bytes at once, bytes of one file that comes in pieces, and how many files."""
    return {
        "at_once": settings.MAX_REQUEST_BYTES,
        "one_file": settings.MAX_UPLOAD_BYTES,
        "files": settings.MAX_PARTS - 1,
    }


def zone_of(request: HttpRequest) -> datetime.tzinfo:
    """The reader's time zone, as the browser says in a cookie; otherwise the installation's."""
    try:
        return zoneinfo.ZoneInfo(request.COOKIES.get("zone", ""))
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return timezone.get_default_timezone()


def recent(principal: Principal, listed: int = LISTED) -> Recent:
    """A few queries, however many sessions there are. In the active time zone."""
    sessions = sessions_of(principal)
    pinned = list(sessions.filter(marks.pinned(principal))[:MOST])
    rest = list(sessions.exclude(pk__in=[one.pk for one in pinned])[: listed + 1])
    has_more = len(rest) > listed and listed < MOST
    return Recent(pinned, list(by_day(rest[:listed])), listed, waiting_for(principal).count(), has_more)


def sessions_of(principal: Principal, *, archived: bool = False) -> ContextQuerySet:
    """The caller's sessions, the newest first, with their marks and the `state` of the newest task, if there is one."""
    newest = Task.objects.filter(context=OuterRef("pk")).order_by("-created_at", "-pk")
    found = _in_use(principal, archived=archived).select_related("agent").defer("memory", "options")
    marked = marks.with_marks(found, principal).annotate(state=Subquery(newest.values("state")[:1]))
    return marked.order_by("-updated_at", "-pk")


def _in_use(principal: Principal, *, archived: bool = False) -> ContextQuerySet:
    return Context.objects.visible_to(principal).listed().filter(archived_at__isnull=not archived)


def by_day(sessions: Iterable[Context]) -> Iterable[tuple[str, list[Context]]]:
    """Sessions under the name of their day, in the active time zone."""
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
            return f"{day.day} {day:%B}" if day.year == today.year else f"{day.day} {day:%B %Y}"
