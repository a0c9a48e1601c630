"""Admin pages of remote agents' health."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from apps.agents.models import Agent
from apps.installation.models import Activity
from apps.operators.registry.agents import HEALTH_TONES
from apps.remote import circuit_breaker, health_checks
from apps.remote.health_checks import Uptime, percent
from apps.remote.models import Breaker, Check, Checkup
from console import cells, charts
from console.admin import ConsoleAdmin, ReadOnlyAdmin, column, time_cell
from console.cells import Tone
from db.sql import database_time

NEWEST_CHECKS = 120  # two hours in the picture
TABLE_ROWS = 30
BREAKER_TONES = {
    Breaker.State.CLOSED: Tone.DONE,
    Breaker.State.OPEN: Tone.FAILED,
    Breaker.State.HALF_OPEN: Tone.WAITING,
}


def health_panel(agent: Agent) -> dict[str, Any]:
    known = health_checks.uptime_of(agent)
    facts = uptime_facts(known)
    if agent.current_activity != Activity.ACTIVE:
        facts.insert(0, ("activity", cells.state(agent.current_activity.label, Tone.WAITING)))
    told = {"facts": facts, "condition": condition(agent), "ailment": agent.ailment}
    is_open = known.state_of_calls != Breaker.State.CLOSED
    return told | {"is_open": is_open} | _charts(agent)


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


def condition(agent: Agent) -> SafeString:
    return cells.state(agent.health, HEALTH_TONES[Agent.Health(agent.health)])


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
        "latency": charts.sparkline(took, "Duration of checks", line),
        "latency_told": line,
        "checks": {"headings": ("check", "result", "took", "at"), "rows": rows},
    }


def _check_row(check: Check) -> tuple[str, tuple[Any, ...]]:
    took = cells.duration(check.milliseconds / 1000)
    return f"check-{check.pk}", (check.get_kind_display(), _result(check), took, cells.relative_time(check.at))


def _result(check: Check) -> Any:
    return cells.state("ok", Tone.DONE) if check.ok else check.error


class HealthPanel(ConsoleAdmin):
    """A page that also shows the health of the row's `agent`."""

    change_form_outer_before_template = "admin/remote/health.html"
    operate_permission = "agents.change_agent"

    def get_urls(self) -> list[Any]:
        acting = self.admin_site.admin_view(require_POST(self.act_on_health))
        return [path("<int:pk>/health/", acting, name=self._health_url_name()), *super().get_urls()]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        address = reverse(f"admin:{self._health_url_name()}", args=[row.pk])
        return {"health": health_panel(row.agent) | {"act": address if self.has_operate_permission(request) else ""}}

    def act_on_health(self, request: HttpRequest, pk: int) -> HttpResponse:
        found = self.get_or_404(request, pk)
        if not self.has_operate_permission(request):
            raise PermissionDenied
        agent: Agent = found.agent
        match request.POST.get("do"):
            case "check":
                now = database_time()  # decides what is due
                Checkup.objects.filter(agent=agent).update(next_check_at=now, next_probe_at=now)
                messages.success(request, f"Checking {agent.name}. The result appears in a few seconds.")
            case "close":
                circuit_breaker.close(agent)
                self.log_change(request, found, "Closed the circuit breaker.")
                messages.success(request, f"Calls to {agent.name} are allowed again.")
        return redirect(cells.page_url(self.model, pk))

    def _health_url_name(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_health"


@admin.register(Checkup)
class CheckupAdmin(HealthPanel):
    """All remote agents; a page edits the probes' message."""

    list_display = (
        "agent",
        column("health", lambda checkup: condition(checkup.agent), "agent__health"),
        column("circuit breaker", lambda checkup: _breaker_state(checkup.uptime)),
        column("24 hours", lambda checkup: percent(checkup.uptime.day)),
        column("30 days", lambda checkup: percent(checkup.uptime.month)),
        column("median check time", lambda checkup: _median(checkup.uptime)),
        time_cell("checked_at"),
        column("last error", lambda checkup: cells.shortened(checkup.last_error) or "–", "last_error_at"),
    )
    list_filter = ("agent__health",)
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
    list_display = (
        "agent",
        time_cell("at"),
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
