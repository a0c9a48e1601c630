"""What stands around every signed-in page: the list of recent sessions."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from apps.accounts.principals import Principal
from apps.conversations.models import Context, Task
from apps.web.principals import principal_of

LISTED = 30  # recent sessions beside a page


def page(request: HttpRequest, template: str, **context: Any) -> HttpResponse:
    """A page of somebody who is signed in, in its shell."""
    zone = zone_of(request)
    with timezone.override(zone):
        recent = list(sessions_of(principal_of(request))[:LISTED])
        return render(request, template, {"days": list(by_day(recent)), "zone": zone, **context})


def zone_of(request: HttpRequest) -> datetime.tzinfo:
    """The reader's time zone, as the browser says in a cookie; otherwise the installation's."""
    try:
        return zoneinfo.ZoneInfo(request.COOKIES.get("zone", ""))
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return timezone.get_default_timezone()


def sessions_of(principal: Principal) -> Any:
    """The caller's sessions, the newest first, each with the `state` of its newest task (None without one)."""
    newest = Task.objects.filter(context=OuterRef("pk")).order_by("-created_at", "-pk")
    return (
        Context.objects.visible_to(principal)
        .listed()
        .select_related("agent")
        .annotate(state=Subquery(newest.values("state")[:1]))
        .order_by("-updated_at", "-pk")
    )


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
