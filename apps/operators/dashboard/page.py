"""The admin's first page as a cockpit: what waits, what happened, what it cost. It renews itself every few seconds."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.analytics.reading import Reading, read
from apps.housekeeping.models import ServerProcess
from apps.operators.actions import may_view
from apps.operators.dashboard import numbers
from apps.operators.dashboard.banners import banners_for
from apps.operators.dashboard.figures import Figures, Overview
from apps.operators.dashboard.ranges import CHOICES, MINUTE, TimeRange, range_of, written
from apps.operators.dashboard.tables import Tile
from apps.record.execution import Run
from apps.record.models import Task

LATE = 10 * MINUTE  # without the periodic job, before the page says so


def dashboard_context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Unfold's `DASHBOARD_CALLBACK`: adds what the operator may see."""
    shown, chosen = range_of(request.GET), request.GET.get("failures")
    query = shown.query + (f"&{urlencode({'failures': chosen})}" if chosen else "")
    own = {"title": "Dashboard", "picker": picker_of(shown, request)}
    own["live_url"] = f"{reverse('operators:dashboard-parts')}?{query}"
    return context | parts_of(request, shown) | own


@require_safe
@never_cache
def dashboard_parts(request: HttpRequest) -> HttpResponse:
    """The page's parts anew, for its script."""
    shown = range_of(request.GET)
    return HttpResponse(render_to_string("admin/dashboard/_parts.html", parts_of(request, shown), request))


def picker_of(shown: TimeRange, request: HttpRequest) -> dict[str, Any]:
    """The choices of a range, and what the custom one's fields begin with."""
    return {
        "choices": [(key, title, key == shown.choice) for key, (title, *_) in CHOICES.items()],
        "from": written(shown.period.start),
        "to": written(shown.period.end),
        "is_custom": not shown.choice,
        "title": shown.title,
        "problem": shown.problem,
        "kept": [(name, value) for name, value in request.GET.items() if name in ("version", "failures")],
    }


def parts_of(request: HttpRequest, shown: TimeRange) -> dict[str, Any]:
    viewer = request.user
    assert isinstance(viewer, User)
    ended: list[Tile] = []
    parts: dict[str, Any] = {"waiting": numbers.waiting_groups(viewer), "shown": shown, "ended": ended}
    parts["banners"] = banners_for(viewer)
    if may_view(viewer, Run):
        chosen = request.GET.get("failures", "")
        figures, as_of = read(shown.period, lambda reading: _figures(reading, shown, viewer, chosen))
        ended += figures.tiles
        late = {"late_since": as_of} if shown.period.end - as_of > LATE else {}
        parts |= {"figures": figures, **late}
    if may_view(viewer, ServerProcess):
        parts["workers"] = numbers.workers(viewer)
    if may_view(viewer, Task):
        ended += numbers.faulty_tasks(shown)
        parts["failures"] = numbers.newest_failures(shown)
    if ended or parts["waiting"]:
        parts["storage"] = numbers.storage(viewer)
    return parts


def _figures(reading: Reading, shown: TimeRange, viewer: User, failures: str) -> tuple[Figures, Any]:
    return Overview(reading, shown, viewer, failures).figures(), reading.as_of
