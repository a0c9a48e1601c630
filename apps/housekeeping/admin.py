"""The admin page of periodic jobs and live processes, which renews itself every few seconds."""

from __future__ import annotations

import datetime
from importlib.metadata import version
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.accounts.models import User
from apps.housekeeping import periodic, processes
from apps.housekeeping.models import SEEN_WITHIN, Backup, PeriodicJob, ServerProcess
from apps.housekeeping.periodic import Job
from apps.operators.actions import may_view
from parley.db.sql import database_time
from parley.faces import cells
from parley.faces.admin import MenuItem, ReadOnlyAdmin, column, time_cell
from parley.faces.cells import Tone
from parley.program import DISTRIBUTION

PAGE = "admin:housekeeping_periodicjob_changelist"
HEADINGS = ("process", "state", "last heartbeat", "runs", "started", "version")  # of processes


@admin.register(PeriodicJob)
class PeriodicJobAdmin(ReadOnlyAdmin):
    """The list is the page Housekeeping; a row's page has the whole problem of its last failure."""

    menu = MenuItem("Installation", 2, "build", "Housekeeping")
    operate_permission = "housekeeping.change_periodicjob"
    started, failed, asked = time_cell("started_at"), time_cell("failed_at"), time_cell("asked_at")
    fields = (
        "name", started, "seconds", "has_failed", "result", "failures", failed, "problem", asked, "asked_by",
    )  # fmt: skip
    readonly_fields = fields

    def get_urls(self) -> list[Any]:
        site = self.admin_site.admin_view
        return [
            path("panel/", self.panel, name="housekeeping_periodicjob_panel"),
            path("<str:name>/run/", site(self.run), name="housekeeping_periodicjob_run"),
            *super().get_urls(),
        ]

    @method_decorator(never_cache)
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        page = {**self.admin_site.each_context(request), "title": "Housekeeping", "opts": self.opts}
        return TemplateResponse(request, "admin/installation/housekeeping.html", page | self._panel(request))

    @method_decorator(never_cache)
    def panel(self, request: HttpRequest) -> HttpResponse:
        """What the page loads again every few seconds. A reload shows the sign-in page to whoever was signed out."""
        if not (self.admin_site.has_permission(request) and self.has_view_permission(request)):
            return HttpResponse(status=403, headers={"HX-Refresh": "true"})
        return TemplateResponse(request, "admin/installation/_housekeeping.html", self._panel(request))

    @method_decorator(require_POST)
    def run(self, request: HttpRequest, name: str) -> HttpResponse:
        """Queue the job. Its result appears on the page."""
        if not self.has_operate_permission(request):
            raise PermissionDenied
        assert isinstance(request.user, User)
        try:
            row = periodic.run_now(name, request.user)
        except periodic.CannotRun as reason:
            messages.error(request, str(reason))
        else:
            self.log_change(request, row, "Asked for a run.")
            messages.success(request, f"{name} is queued. Its result appears here.")
        return redirect(PAGE)

    def _panel(self, request: HttpRequest) -> dict[str, Any]:
        found: dict[str, Any] = {"jobs": [_job(job) for job in periodic.jobs()]}
        found["version"] = version(DISTRIBUTION)
        found["may_run"] = self.has_operate_permission(request)
        if may_view(request.user, ServerProcess):  # type: ignore[arg-type]
            rows = ServerProcess.objects.order_by("-kind", "host", "pid")
            now = database_time()
            table = {"headings": HEADINGS, "rows": [(f"process-{row.pk}", _process(row, now)) for row in rows]}
            found |= {"missing": processes.missing().values(), "processes": table}
        return found


def _job(job: Job) -> dict[str, Any]:
    row = job.row
    has_run = row is not None and row.started_at is not None
    return {
        "name": job.name,
        "url": cells.page_url(PeriodicJob, job.name) if row else "",
        "does": job.does,
        "every": _interval(job.every),
        "last": cells.relative_time(row.started_at) if row and has_run else cells.NOTHING,
        "took": cells.duration(row.seconds) if row and has_run else cells.NOTHING,
        "result": _result(job),
        "problem": cells.shortened(row.problem, 160) if row and row.has_failed else "",
        "failures": row.failures if row else 0,
        "failed": cells.relative_time(row.failed_at) if row and row.failures else "",
        "next": cells.relative_time(job.next_at),
        "is_asked_for": job.is_asked_for,
    }


def _interval(every: float) -> str:
    return f"{every:g} s" if every < 90 else cells.duration(every)


def _result(job: Job) -> SafeString:
    if job.is_asked_for:
        return cells.state("queued", Tone.QUEUED)
    if job.row is None or job.row.started_at is None:
        return cells.NOTHING
    if job.row.has_failed:
        return cells.state("failed", Tone.FAILED)
    return cells.state(job.row.result.lower(), Tone.DONE)


def _process(row: ServerProcess, now: datetime.datetime) -> tuple[object, ...]:
    is_seen = row.seen_at > now - SEEN_WITHIN
    name = format_html("{} <code>{}:{}</code>", row.get_kind_display(), row.host, row.pid)
    state = cells.state("alive", Tone.DONE) if is_seen else cells.state("not seen", Tone.FAILED)
    return name, state, cells.relative_time(row.seen_at), _load(row), cells.relative_time(row.started_at), row.version


def _load(row: ServerProcess) -> SafeString | str:
    if row.kind != ServerProcess.Kind.WORKER:
        return "–"
    waiting = f", {row.waiting:,} wait" if row.waiting else ""
    meter = '{} of {}{} <meter min="0" max="{}" value="{}" aria-label="runs"></meter>'
    return format_html(meter, f"{row.busy:,}", f"{row.capacity:,}", waiting, row.capacity, row.busy)


@admin.register(Backup)
class BackupAdmin(ReadOnlyAdmin):
    menu = MenuItem("Installation", 6, "backup")
    tones = {
        Backup.State.RUNNING: Tone.WORKING, Backup.State.COMPLETE: Tone.DONE, Backup.State.FAILED: Tone.FAILED,
    }  # fmt: skip
    started, ended = time_cell("started_at"), time_cell("ended_at")
    size = column("size", lambda row: filesizeformat(row.bytes), "bytes", field="bytes")
    list_display = ("name", "state", started, "place", size, "problem")
    list_filter = ("state",)
    fields = ("name", "place", "state", started, ended, size, "is_encrypted", "problem")
    search_fields = ("name", "place")
