"""The admin page that pauses, drains and resumes all agents."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from apps.engine.activity import OPERATION
from apps.installation.models import Activity, Operation
from apps.operators.actions import ActingAdmin
from apps.record.execution import Run
from parley.faces import cells
from parley.faces.admin import MenuItem, ReadOnlyAdmin, column, related_cell
from parley.faces.cells import Tone

MOST_COUNTED = 10_000  # runs
SENTENCES = {
    Activity.ACTIVE: "Agents accept messages and work, unless they are paused or drained themselves.",
    Activity.PAUSED: "Agents accept messages, but nothing starts until you resume them.",
    Activity.DRAINING: "Agents refuse new tasks and work off what they have.",
}


def _state(row: Operation) -> Any:
    tone = Tone.DONE if row.activity == Activity.ACTIVE else Tone.WAITING
    return cells.state(Activity(row.activity).label, tone)


def _runs(state: Run.State) -> Any:
    count = Run.objects.unfinished().filter(state=state)[:MOST_COUNTED].count()
    return cells.count_link(count, Run, state__exact=state.value)


@admin.register(Operation)
class OperationAdmin(ActingAdmin, ReadOnlyAdmin):
    """A single row, so its list is its page."""

    menu = MenuItem("Installation", 1, "toggle_on", "All agents")
    resource = OPERATION
    acts = OPERATION.acts
    fields = (
        column("state", _state),
        column("meaning", lambda row: SENTENCES[Activity(row.activity)]),
        column("runs that wait", lambda _: _runs(Run.State.QUEUED)),
        column("runs that work", lambda _: _runs(Run.State.RUNNING)),
        related_cell("changed_by", empty="nobody"),
        column("changed", lambda row: cells.relative_time(row.changed_at if row.changed_by_id else None)),
    )

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if self.has_view_permission(request):
            row, _ = Operation.objects.get_or_create(pk=Operation.ONLY)
            return redirect(cells.page_url(Operation, row.pk))
        return super().changelist_view(request, extra_context)
