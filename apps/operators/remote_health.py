"""Admin pages of how remote agents do: checks, uptime, and the circuit breaker."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from unfold.admin import ModelAdmin

from apps.agents.models import Agent
from apps.operators.agents import HEALTH_TONES
from apps.remote import circuit_breaker, health_checks
from apps.remote.health_checks import Uptime, percent
from apps.remote.models import Breaker, Check, Checkup
from console import cells, charts
from console.admin import ReadOnlyAdmin, time_cell
from console.cells import Tone
from db.sql import database_time

NEWEST_CHECKS = 120  # checks in the picture, two hours of them
TABLE_ROWS = 30
BREAKER_TONES = {
    Breaker.State.CLOSED: Tone.DONE,
    Breaker.State.OPEN: Tone.FAILED,
    Breaker.State.HALF_OPEN: Tone.WAITING,
}


def health_panel(agent: Agent) -> dict[str, Any]:
    """How a remote agent does: status, uptime, latency with its picture, the last error, and whether it is called."""
    known = health_checks.uptime_of(agent)
    told = {"facts": uptime_facts(known), "condition": condition(agent), "ailment": agent.ailment}
    is_open = known.state_of_calls != Breaker.State.CLOSED
    return told | {"is_open": is_open} | _charts(agent)


def uptime_facts(known: Uptime) -> list[tuple[str, Any]]:
    """Each with its name."""
    row = known.breaker
    facts: list[tuple[str, Any]] = [
        ("up, last 24 hours", percent(known.day)),
        ("up, last 30 days", percent(known.month)),
        ("a check takes", "–" if known.median_ms is None else cells.duration(known.median_ms / 1000)),
        ("checked", cells.relative_time(known.checked_at)),
        ("circuit breaker", _breaker_state(known)),
    ]
    if row and row.opened_at is not None:
        facts += [
            ("open since", cells.relative_time(row.opened_at)),
            ("tried again", cells.relative_time(row.retry_at)),
        ]
    if row and row.failures:
        facts.append(("calls that failed in a row", f"{row.failures:,}. {row.error}"))
    if known.last_error:
        facts += [("last error", known.last_error), ("at", cells.relative_time(known.last_error_at))]
    return facts


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
    line = f"The newest {len(checks)} checks from left to right; {failed} failed"
    line += f", the longest of the others took {cells.duration(max(took))}." if took else "."
    rows = [_check_row(check) for check in checks[:TABLE_ROWS]]
    return {
        "latency": charts.sparkline(took, "How long checks took", line),
        "latency_told": line,
        "checks": {"headings": ("check", "result", "took", "at"), "rows": rows},
    }


def _check_row(check: Check) -> tuple[str, tuple[Any, ...]]:
    took = cells.duration(check.milliseconds / 1000)
    return f"check-{check.pk}", (check.get_kind_display(), _result(check), took, cells.relative_time(check.at))


def _result(check: Check) -> Any:
    return cells.state("ok", Tone.DONE) if check.ok else check.error


class HealthPanel(ModelAdmin):
    """The page of something that has an `agent`, with how that does, and what operators can do about it."""

    change_form_outer_before_template = "admin/remote/health.html"

    def get_urls(self) -> list[Any]:
        acting = self.admin_site.admin_view(require_POST(self.look_after))
        return [path("<int:pk>/health/", acting, name=self._name_of_looking_after()), *super().get_urls()]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Any = None, **kwargs: Any
    ) -> HttpResponse:
        if obj is not None:
            address = reverse(f"admin:{self._name_of_looking_after()}", args=[obj.pk])
            context["health"] = health_panel(obj.agent) | {"act": address if _may_operate(request) else ""}
        shown: HttpResponse = super().render_change_form(request, context, *args, obj=obj, **kwargs)
        return shown

    def look_after(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Have it checked, or close its breaker, as the button says that was pressed."""
        found = self.get_object(request, str(pk))
        if found is None:
            raise Http404
        if not _may_operate(request):
            raise PermissionDenied
        agent: Agent = found.agent
        match request.POST.get("do"):
            case "check":
                now = database_time()  # which says what is due
                Checkup.objects.filter(agent=agent).update(next_check_at=now, next_probe_at=now)
                messages.success(request, f"{agent.name} is checked within a few seconds.")
            case "close":
                circuit_breaker.close(agent)
                self.log_change(request, found, "Closed the circuit breaker.")
                messages.success(request, f"Calls to {agent.name} go through again.")
        return redirect(cells.page_url(self.model, pk))

    def _name_of_looking_after(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_health"


def _may_operate(request: HttpRequest) -> bool:
    return request.user.has_perm("agents.change_agent")


@admin.register(Checkup)
class CheckupAdmin(HealthPanel):
    """All remote agents by how they do; on the page of one, the message by which it is probed."""

    list_display = ("agent", "health", "calls", "up_day", "up_month", "latency", time_cell("checked_at"), "error")
    list_filter = ("agent__health",)
    list_select_related = ("agent",)
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
        """The page's rows with the uptime of each, by three statements for all of them."""
        changelist = super().get_changelist_instance(request)
        known = health_checks.uptimes_of([row.agent for row in changelist.result_list])
        for row in changelist.result_list:
            row.uptime = known[row.agent_id]
        return changelist

    @display(description="health", ordering="agent__health")
    def health(self, checkup: Checkup) -> SafeString:
        return condition(checkup.agent)

    @display(description="circuit breaker")
    def calls(self, checkup: Checkup) -> SafeString:
        return _breaker_state(_uptime(checkup))

    @display(description="24 hours")
    def up_day(self, checkup: Checkup) -> str:
        return percent(_uptime(checkup).day)

    @display(description="30 days")
    def up_month(self, checkup: Checkup) -> str:
        return percent(_uptime(checkup).month)

    @display(description="a check takes")
    def latency(self, checkup: Checkup) -> str:
        took = _uptime(checkup).median_ms
        return "–" if took is None else cells.duration(took / 1000)

    @display(description="last error", ordering="last_error_at")
    def error(self, checkup: Checkup) -> str:
        return cells.shortened(checkup.last_error) or "–"


def _uptime(checkup: Any) -> Uptime:
    known: Uptime = checkup.uptime
    return known


@admin.register(Check)
class CheckAdmin(ReadOnlyAdmin):
    list_display = ("agent", time_cell("at"), "kind", "result", "took")
    list_filter = ("kind", "ok", "agent")
    list_select_related = ("agent",)
    search_fields = ("agent__slug", "agent__name", "error")
    search_help_text = "Name of an agent, or words of an error"
    id_lookups = ()
    ordering = ("-at",)
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = ("agent", time_cell("at"), "kind", "result", "took")

    @display(description="result")
    def result(self, check: Check) -> Any:
        return _result(check)

    @display(description="took")
    def took(self, check: Check) -> str:
        return cells.duration(check.milliseconds / 1000)
