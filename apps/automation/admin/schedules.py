"""Admin pages of schedules and their runs."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import display
from django.utils.safestring import SafeString

from apps.automation.models import Schedule, ScheduledRun
from apps.automation.schedules import PAUSE, RESUME, RUN_NOW, SCHEDULES
from apps.operators import columns
from apps.operators.actions import ActingAdmin
from parley.faces import cells
from parley.faces.admin import MenuItem, ReadOnlyAdmin, column
from parley.faces.cells import Tone


@admin.register(Schedule)
class ScheduleAdmin(ActingAdmin, ReadOnlyAdmin):
    """Operators pause, resume and run schedules. Their owners edit them."""

    menu = MenuItem("Plans", 3, "schedule")
    resource = SCHEDULES
    acts = (PAUSE, RESUME, RUN_NOW)
    list_display = ("name", "state", "owner", "agent", "kind", "next_at", "created_at")
    list_filter = ("kind", ("paused_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "owner__email", "agent__slug")
    ordering = ("-created_at",)
    interval = column("interval", lambda row: f"{row.every_seconds:,} seconds" if row.every_seconds else cells.NOTHING)
    fields = (
        "name", "state", "owner", "agent", "text", "inputs", "kind", "cron", interval, "at", "time_zone",
        "sessions", "session", "project", "overlap", "catch_up", "catch_up_limit", "next_at", "paused_because",
        "failures", "created_at",
        column("runs", lambda row: cells.link("runs", cells.list_url(ScheduledRun, schedule__id__exact=row.pk))),
    )  # fmt: skip
    select_related = ("owner", "agent")

    @display(description="state")
    def state(self, schedule: Schedule) -> SafeString:
        if schedule.paused_at is not None:
            return cells.state("paused", Tone.STOPPED)
        return cells.state("active", Tone.WORKING) if schedule.next_at else cells.state("ended", Tone.DONE)


@admin.register(ScheduledRun)
class ScheduledRunAdmin(ReadOnlyAdmin):
    menu = MenuItem("Plans", 4, "history")
    tones = {
        ScheduledRun.State.WAITING: Tone.QUEUED,
        ScheduledRun.State.STARTED: Tone.DONE,
        ScheduledRun.State.SKIPPED: Tone.STOPPED,
        ScheduledRun.State.FAILED: Tone.FAILED,
    }
    list_display = ("due_at", "state", "schedule", columns.task, "reason", "started_at")
    list_filter = ("state", "is_manual")
    search_fields = ("schedule__name",)
    ordering = ("-due_at",)
    link_filters = {"schedule__id__exact": ("schedule", Schedule)}
    fields = (
        "due_at", "state", "schedule", columns.task, "reason", "is_manual", "text", "inputs", "created_at",
        "started_at",
    )  # fmt: skip
    select_related = ("schedule", "task")
