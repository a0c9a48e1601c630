"""Admin pages of schedules and their runs."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import display
from django.utils.safestring import SafeString
from unfold.dataclasses import ActionDialog

from apps.automation import schedules
from apps.automation.models import Schedule, ScheduledRun
from apps.operators import columns
from apps.operators.actions import ActingAdmin, button, list_action
from apps.operators.bulk import Doing, RowAction, Skipped, register
from console import cells
from console.admin import ReadOnlyAdmin, column, json_cell, page_link, related_cell, state_cell, time_cell
from console.cells import Tone

CHANGE = "automation.change_schedule"
RUN_TONES = {
    ScheduledRun.State.WAITING: Tone.QUEUED,
    ScheduledRun.State.STARTED: Tone.DONE,
    ScheduledRun.State.SKIPPED: Tone.STOPPED,
    ScheduledRun.State.FAILED: Tone.FAILED,
}


def _pause(schedule: Schedule, doing: Doing) -> str:
    if not schedules.pause(schedule, "An operator paused it.") and not doing.again:
        raise Skipped("It is paused already.")
    return "Paused."


def _resume(schedule: Schedule, doing: Doing) -> str:
    if not schedules.resume(schedule) and not doing.again:
        raise Skipped("It is not paused.")
    return "Resumed."


def _run_now(schedule: Schedule, doing: Doing) -> str:
    if doing.again:
        raise Skipped("It may have been started already. See its runs.")
    run = schedules.run_now(schedule)
    return f"Started task {run.task_id}." if run.task_id else run.reason or "It waits for an earlier run."


PAUSE = register(RowAction("schedule.pause", "Pause", Schedule, CHANGE, _pause, ("agent",)))
RESUME = register(RowAction("schedule.resume", "Resume", Schedule, CHANGE, _resume, ("agent",)))
RUN_NOW = register(RowAction("schedule.run", "Run now", Schedule, CHANGE, _run_now, ("agent", "owner")))


def dialog(title: str, description: str, button_text: str) -> ActionDialog:
    return {"title": title, "description": description, "form_submit_text": button_text}


@admin.register(Schedule)
class ScheduleAdmin(ActingAdmin, ReadOnlyAdmin):
    """Operators pause, resume and run schedules. Their owners edit them."""

    list_display = (
        page_link("name"),
        "state",
        related_cell("owner", text="email"),
        related_cell("agent", text="slug"),
        "kind",
        time_cell("next_at", "next run"),
        columns.created,
    )
    list_filter = ("kind", ("paused_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "owner__email", "agent__slug")
    ordering = ("-created_at",)
    actions = ("pause_selected", "resume_selected", "run_selected")
    fields = (
        "name", "state", related_cell("owner", text="email"), related_cell("agent", text="slug"), "text",
        json_cell("inputs"), "kind", "cron", "every_seconds", time_cell("at"), "time_zone", "overlap", "catch_up",
        "catch_up_limit", time_cell("next_at", "next run"), "paused_because", "failures", columns.created,
        column("runs", lambda row: cells.link("runs", cells.list_url(ScheduledRun, schedule__id__exact=row.pk))),
    )  # fmt: skip
    select_related = ("owner", "agent")
    operate_permission = CHANGE
    actions_detail = ("pause", "resume", "run")

    pause = button(
        PAUSE,
        icon="pause",
        url_path="pause",
        dialog=dialog("Pause this schedule?", "What it has started goes on; what waits is skipped.", "Pause"),
    )
    resume = button(
        RESUME,
        icon="play_arrow",
        url_path="resume",
        dialog=dialog("Resume this schedule?", "Times that passed are not made up for.", "Resume"),
    )
    run = button(
        RUN_NOW,
        icon="play_circle",
        url_path="run",
        dialog=dialog("Run this schedule now?", "It starts as its owner, whose budgets and limits apply.", "Run now"),
    )
    pause_selected = list_action(PAUSE)
    resume_selected = list_action(RESUME)
    run_selected = list_action(RUN_NOW)

    def is_offered(self, action: str, row: Schedule) -> bool:
        return {"pause": row.paused_at is None, "resume": row.paused_at is not None}.get(action, True)

    @display(description="state")
    def state(self, schedule: Schedule) -> SafeString:
        if schedule.paused_at is not None:
            return cells.state("paused", Tone.STOPPED)
        return cells.state("active", Tone.WORKING) if schedule.next_at else cells.state("ended", Tone.DONE)


@admin.register(ScheduledRun)
class ScheduledRunAdmin(ReadOnlyAdmin):
    list_display = (
        page_link("due_at", "due"),
        state_cell("state", RUN_TONES),
        related_cell("schedule", text="name"),
        columns.task,
        "reason",
        time_cell("started_at"),
    )
    list_filter = ("state", "is_manual")
    search_fields = ("schedule__name",)
    ordering = ("-due_at",)
    link_filters = {"schedule__id__exact": ("schedule", Schedule)}
    fields = (
        time_cell("due_at", "due"), state_cell("state", RUN_TONES), related_cell("schedule", text="name"), columns.task,
        "reason", "is_manual", "text", json_cell("inputs"), columns.created, time_cell("started_at"),
    )  # fmt: skip
    select_related = ("schedule", "task")
