"""Schedules: the form of one with its next runs, and its history."""

from __future__ import annotations

import zoneinfo
from contextlib import suppress
from functools import cache
from typing import Any, cast

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_POST

from apps.accounts.models import User
from apps.automation import schedules
from apps.automation.models import Schedule, ScheduledRun
from apps.automation.pages.targets import TargetForm
from apps.record.errors import InvalidFields
from apps.record.models import Context
from apps.record.projects import find_project
from apps.web.resources import CODE, LocalTimeField, MinutesField, Pages, ProjectField, ResourceForm
from apps.web.shell import as_reader, principal_of, reader_view, zone_of
from parley.db import sql

RUNS_SHOWN = 50
TIMING = ("kind", "cron", "every_seconds", "at", "time_zone")
EXAMPLES = {
    "0 9 * * *": "every day at 9:00",
    "0 9 * * 1-5": "on weekdays at 9:00",
    "0 * * * *": "every hour",
    "0 8 * * 1": "on Mondays at 8:00",
    "0 7 1 * *": "on the first of each month at 7:00",
}


class ScheduleForm(TargetForm):
    """A schedule as people enter it: an interval in minutes, a time in the schedule's zone."""

    every_seconds = MinutesField(
        label="Minutes",
        required=False,
        min_value=1,
        max_value=527_040,
        widget=forms.NumberInput({"data-kinds": "interval"}),
    )

    project = ProjectField()

    class Meta(ResourceForm.Meta):
        model = Schedule
        fields = ("name", "agent", "text", "inputs", *TIMING, "sessions", "project", "overlap", "catch_up")
        field_classes = {"at": LocalTimeField}
        widgets = {
            "kind": forms.RadioSelect,
            "sessions": forms.RadioSelect,
            "overlap": forms.Select({"data-sessions": "new"}),
            "cron": forms.TextInput({**CODE, "list": "cron-examples", "data-kinds": "cron"}),
            "at": forms.DateTimeInput(
                {"type": "datetime-local", "data-kinds": "interval once"}, format="%Y-%m-%dT%H:%M"
            ),
            "time_zone": forms.TextInput({"list": "time-zones", "autocomplete": "off"}),
        }

    examples = EXAMPLES

    def __init__(self, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        self.fields["catch_up"].help_text = f"The limit is {self.instance.catch_up_limit} missed times."
        if self.instance.at:
            with suppress(InvalidFields):  # the form asks for another zone
                zone = schedules.zone_of(self.instance.time_zone)
                self.initial["at"] = self.instance.at.astimezone(zone).replace(tzinfo=None)

    @staticmethod
    @cache
    def zones() -> list[str]:
        return sorted(zoneinfo.available_timezones())

    def clean(self) -> dict[str, Any]:
        given = super().clean()
        for name, field in self.fields.items():  # the page does not show fields of other kinds
            kinds = field.widget.attrs.get("data-kinds")
            if kinds and given.get("kind") not in (None, *kinds.split()):
                self.errors.pop(name, None)
                given[name] = field.empty_value if isinstance(field, forms.CharField) else None
        if given.get("at") and given.get("time_zone"):
            given["at"] = given["at"].replace(tzinfo=schedules.zone_of(given["time_zone"]))
        return given

    def clean_time_zone(self) -> str:
        try:
            return schedules.zone_of(self.cleaned_data["time_zone"]).key
        except InvalidFields as refused:
            raise forms.ValidationError(refused.violations[0][1]) from None


def _context(request: HttpRequest, schedule: Schedule) -> dict[str, Any]:
    runs = ScheduledRun.objects.visible_to(principal_of(request)).filter(schedule=schedule)
    newest = runs.select_related("task__agent").order_by("-due_at")[:RUNS_SHOWN]
    principal = principal_of(request)
    about: dict[str, Any] = {"next_runs": schedules.next_times(schedule), "runs": newest}
    about["session"] = Context.objects.find_or_none(principal, schedule.session) if schedule.session else None
    about["project"] = find_project(principal, schedule.project) if schedule.project else None
    return about


def _new(request: HttpRequest) -> Schedule:
    return Schedule(
        kind="cron", cron="0 9 * * *", time_zone=str(zone_of(request, cast("User", request.user).time_zone))
    )


@reader_view
def schedule_inputs(request: HttpRequest) -> HttpResponse:
    """The part of the form that depends on the agent (`?agent=`)."""
    form = ScheduleForm(cast("User", request.user), initial={"agent": request.GET.get("agent")})
    return render(request, "automation/_target_inputs.html", {"form": form})


@require_POST
@login_required
def preview_schedule(request: HttpRequest) -> HttpResponse:
    """The next runs of what the form says now, or what is wrong with it."""
    with as_reader(request):
        now = sql.database_time()
        form = ScheduleForm(cast("User", request.user), request.POST, instance=Schedule(created_at=now))
        about: dict[str, Any] = {"problems": [said for name in TIMING for said in form.errors.get(name, [])]}
        if not about["problems"]:
            try:
                about["next_runs"] = schedules.preview(form.instance, now)
            except InvalidFields as refused:
                about["problems"] = [sentence for _, sentence in refused.violations]
        return render(request, "automation/_next_runs.html", about)


urlpatterns = [
    *Pages(schedules.SCHEDULES, ScheduleForm, _new, _context).urls(),
    path("schedules/inputs", schedule_inputs, name="schedule-inputs"),
    path("schedules/preview", preview_schedule, name="schedule-preview"),
]
