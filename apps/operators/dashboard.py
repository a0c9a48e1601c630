"""The admin's first page: what goes on, what waits, and what failed. Each number leads to its rows."""

from __future__ import annotations

import datetime
from typing import Any

from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from apps.a2a.models import Delivery
from apps.accounts.models import User
from apps.operators import columns
from apps.operators.panels import may_view
from apps.operators.webhooks import DELIVERY_TONES
from apps.record.content.rendering import summarize_parts
from apps.record.models import INTERRUPTED_STATES, TERMINAL_STATES, UNFINISHED_STATES, Run, Task, TaskState
from console import cells

DAY = datetime.timedelta(days=1)
FAILURES = 8
Tile = tuple[SafeString, SafeString]


def dashboard_numbers(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Unfold's `DASHBOARD_CALLBACK`: adds what the operator may see."""
    context["title"] = "Dashboard"
    viewer = request.user
    assert isinstance(viewer, User)
    now: list[tuple[str, list[Tile]]] = []
    waits: list[tuple[str, Tile | None]] = []
    if may_view(viewer, Task):
        since = timezone.now() - DAY
        now.append(("Tasks, now", _unfinished_tasks()))
        now.append(("Tasks, last 24 hours", _ended_tasks(since)))
        waits.append(("Oldest task waiting for a person", _oldest(_waiting_tasks(), "status_at")))
        context |= {"shows_failures": True, "failures": _failures(since)}
    if may_view(viewer, Run):
        now.append(("Runs, now", _unfinished_runs()))
        waits.append(("Oldest queued run", _oldest(Run.objects.filter(state=Run.State.QUEUED), "queued_at")))
    if may_view(viewer, Delivery):
        now.append(("Webhook deliveries", _undelivered()))
    return context | {"numbers": now, "waits": waits}


def _unfinished_tasks() -> list[Tile]:
    counts = _by_state(Task.objects.unfinished())
    return [
        (
            cells.state(state, columns.TASK_TONES[state]),
            cells.count_link(counts.get(state, 0), Task, state__exact=state),
        )
        for state in UNFINISHED_STATES
    ]


def _ended_tasks(since: datetime.datetime) -> list[Tile]:
    """Tasks that ended since then."""
    counts = _by_state(Task.objects.filter(status_at__gte=since))
    moment = since.isoformat()
    return [
        (
            cells.state(state, columns.TASK_TONES[state]),
            cells.count_link(counts.get(state, 0), Task, state__exact=state, status_at__gte=moment),
        )
        for state in TaskState
        if state in TERMINAL_STATES
    ]


def _unfinished_runs() -> list[Tile]:
    counts = _by_state(Run.objects.unfinished())
    return [
        (cells.state(state, columns.RUN_TONES[state]), cells.count_link(counts.get(state, 0), Run, state__exact=state))
        for state in (Run.State.QUEUED, Run.State.RUNNING)
    ]


def _undelivered() -> list[Tile]:
    """Each state has an index of its own."""
    return [
        (
            cells.state(state.label.lower(), DELIVERY_TONES[state]),
            cells.count_link(Delivery.objects.filter(state=state).count(), Delivery, state__exact=state),
        )
        for state in (Delivery.State.WAITING, Delivery.State.DEAD)
    ]


def _by_state(rows: QuerySet[Any]) -> dict[str, int]:
    """`COUNT(*)`, which reads the index alone."""
    return dict(rows.order_by().values_list("state").annotate(number=Count("*")))


def _waiting_tasks() -> QuerySet[Task]:
    return Task.objects.unfinished().filter(state__in=INTERRUPTED_STATES)


def _oldest(rows: QuerySet[Any], since: str) -> Tile | None:
    """Since when the row has waited, and a link to it."""
    oldest = rows.order_by(since).only("pk", since).first()
    return oldest and (cells.relative_time(getattr(oldest, since)), cells.row_link(rows.model, oldest.pk))


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
