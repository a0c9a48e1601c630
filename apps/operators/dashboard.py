"""The admin's first page: numbers, each with a link to its rows."""

from __future__ import annotations

import datetime
from typing import Any

from django.db.models import Count
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from apps.accounts.models import User
from apps.operators import columns
from apps.operators.panels import may_view
from apps.record.content.rendering import summarize_parts
from apps.record.models import Run, Task, TaskState
from console import cells

DAY = datetime.timedelta(days=1)
FAILURES = 8


def dashboard_numbers(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Unfold's `DASHBOARD_CALLBACK`: adds what the operator may see."""
    context["title"] = "Dashboard"
    viewer = request.user
    assert isinstance(viewer, User)
    if may_view(viewer, Task):
        since = timezone.now() - DAY
        context |= {"task_states": _task_states(since), "failures": _failures(since)}
    if may_view(viewer, Run):
        context |= {"run_states": _run_states(), "oldest": _oldest_queued()}
    return context


def _task_states(since: datetime.datetime) -> list[tuple[SafeString, SafeString]]:
    """Tasks that entered each state."""
    counts = dict(Task.objects.filter(status_at__gte=since).values_list("state").annotate(Count("pk")))
    return [
        (
            cells.state(state, columns.TASK_TONES[state]),
            cells.count_link(
                counts.get(state, 0), Task, state__exact=state, status_at__gte=since.isoformat(timespec="seconds")
            ),
        )
        for state in TaskState
    ]


def _run_states() -> list[tuple[SafeString, SafeString]]:
    counts = dict(Run.objects.unfinished().values_list("state").annotate(Count("pk")))
    return [
        (cells.state(state, columns.RUN_TONES[state]), cells.count_link(counts.get(state, 0), Run, state__exact=state))
        for state in (Run.State.QUEUED, Run.State.RUNNING)
    ]


def _oldest_queued() -> tuple[SafeString, SafeString] | None:
    """The longest-queued run: since when, and a link."""
    oldest = Run.objects.filter(state=Run.State.QUEUED).order_by("queued_at").only("pk", "queued_at").first()
    return (cells.relative_time(oldest.queued_at), cells.row_link(Run, oldest.pk)) if oldest else None


def _failures(since: datetime.datetime) -> list[dict[str, Any]]:
    failed = Task.objects.filter(state__in=(TaskState.FAILED, TaskState.REJECTED), status_at__gte=since)
    newest = failed.select_related("agent").order_by("-status_at")[:FAILURES]
    return [
        {
            "id": columns.id_(task),
            "state": columns.task_state(task),
            "agent": columns.agent(task),
            "says": cells.shortened(summarize_parts((task.status_message or {}).get("parts", []))) or "–",
            "since": columns.since(task),
        }
        for task in newest
    ]
