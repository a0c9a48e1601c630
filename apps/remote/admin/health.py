"""Admin pages of remote agents' health."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from apps.agents.admin.agents import health_state, measured_panel
from apps.agents.models import Agent
from apps.operators.actions import ActingAdmin
from apps.operators.dashboard.filters import OF_CHECKUPS
from apps.remote import health_checks
from apps.remote.health_checks import Uptime, percent
from apps.remote.models import Breaker, Check, Checkup
from parley.faces import cells, charts
from parley.faces.admin import ConsoleAdmin, MenuItem, ReadOnlyAdmin, column, time_cell
from parley.faces.cells import Tone

NEWEST_CHECKS = 120  # two hours in the picture
TABLE_ROWS = 30
BREAKER_TONES = {
    Breaker.State.CLOSED: Tone.DONE,
    Breaker.State.OPEN: Tone.FAILED,
    Breaker.State.HALF_OPEN: Tone.WAITING,
}


def health_panel(agent: Agent) -> dict[str, Any]:
    return measured_panel(agent, uptime_facts(health_checks.uptime_of(agent)), **_charts(agent))


def uptime_facts(known: Uptime) -> list[tuple[str, Any]]:
    row = known.breaker
    facts: list[tuple[str, Any]] = [
        ("uptime, last 24 hours", percent(known.day)),
        ("uptime, last 30 days", percent(known.month)),
        ("median check time", _median(known)),
        ("last check", cells.relative_time(known.checked_at)),
        ("circuit breaker", _breaker_state(known)),
    ]
    if row and row.opened_at is not None:
        facts += [
            ("open since", cells.relative_time(row.opened_at)),
            ("next try", cells.relative_time(row.retry_at)),
        ]
    if row and row.failures:
        facts.append(("failed calls in a row", f"{row.failures:,}. {row.error}"))
    if known.last_error:
        facts += [("last error", known.last_error), ("at", cells.relative_time(known.last_error_at))]
    return facts


def _median(known: Uptime) -> str:
    return "–" if known.median_ms is None else cells.duration(known.median_ms / 1000)


def _breaker_state(known: Uptime) -> SafeString:
    return cells.state(known.state_of_calls.label, BREAKER_TONES[known.state_of_calls])


def _charts(agent: Agent) -> dict[str, Any]:
    checks = list(Check.objects.of(agent)[:NEWEST_CHECKS])
    if not checks:
        return {}
    took = [check.milliseconds / 1000 for check in reversed(checks) if check.ok]
    failed = sum(not check.ok for check in checks)
    line = f"The last {len(checks)} checks, oldest first; {failed} failed"
    line += f", the slowest of the others took {cells.duration(max(took))}." if took else "."
    rows = [_check_row(check) for check in checks[:TABLE_ROWS]]
    return {
        "figures": [(charts.sparkline(took, "Duration of checks", line), line)],
        "table": {"headings": ("check", "result", "took", "at"), "rows": rows},
    }


def _check_row(check: Check) -> tuple[str, tuple[Any, ...]]:
    took = cells.duration(check.milliseconds / 1000)
    return f"check-{check.pk}", (check.get_kind_display(), _result(check), took, cells.relative_time(check.at))


def _result(check: Check) -> Any:
    return cells.state("ok", Tone.DONE) if check.ok else check.error


class HealthPanel(ConsoleAdmin):
    """A page that also shows the health of the row's `agent`."""

    change_form_outer_before_template = "admin/agents/measured.html"

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {"measured": health_panel(row.agent)}


@admin.register(Checkup)
class CheckupAdmin(ActingAdmin, HealthPanel):
    """All remote agents; a page edits the probes' message."""

    menu = MenuItem("Remote agents", 4, "monitor_heart", "Health")
    resource = health_checks.CHECKUPS
    acts = health_checks.CHECKUPS.acts
    list_display = (
        "agent",
        column("health", lambda checkup: health_state(checkup.agent), "agent__health"),
        column("circuit breaker", lambda checkup: _breaker_state(checkup.uptime)),
        column("24 hours", lambda checkup: percent(checkup.uptime.day)),
        column("30 days", lambda checkup: percent(checkup.uptime.month)),
        column("median check time", lambda checkup: _median(checkup.uptime)),
        time_cell("checked_at"),
        column("last error", lambda checkup: cells.shortened(checkup.last_error) or "–", "last_error_at"),
    )
    list_filter = ("agent__health", *OF_CHECKUPS)
    select_related = ("agent",)
    search_fields = ("agent__name", "agent__slug", "last_error")
    ordering = ("agent__name",)
    fields = ("probe",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Checkup | None = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Checkup]:
        remote: QuerySet[Checkup] = super().get_queryset(request).filter(agent__remote__isnull=False)
        return remote

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Adds the rows' uptime, in three queries."""
        changelist = super().get_changelist_instance(request)
        known = health_checks.uptimes_of([row.agent for row in changelist.result_list])
        for row in changelist.result_list:
            row.uptime = known[row.agent_id]
        return changelist


@admin.register(Check)
class CheckAdmin(ReadOnlyAdmin):
    menu = MenuItem("Remote agents", 5, "ecg")
    list_display = (
        "agent",
        "at",
        "kind",
        column("result", _result),
        column("took", lambda check: cells.duration(check.milliseconds / 1000)),
    )
    list_filter = ("kind", "ok", "agent")
    select_related = ("agent",)
    search_fields = ("agent__slug", "agent__name", "error")
    search_help_text = "Name of an agent, or words of an error"
    id_lookups = ()
    ordering = ("-pk",)  # by time, along an index
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = list_display
