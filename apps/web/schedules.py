"""Schedules: a person's list, the form of one with its next runs, and its history."""

from __future__ import annotations

import datetime
import uuid
import zoneinfo
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.quotas import QuotaExceeded, count_act
from apps.agents.models import Agent, AgentQuerySet
from apps.automation import schedules
from apps.automation.models import Schedule, ScheduledRun
from apps.plans import registry
from apps.record.content import strict_json
from apps.record.content.schema_forms import Field, answer_from
from apps.record.errors import InvalidFields, InvalidParams, Refusal
from apps.web.plans import InputForm
from apps.web.roles import refuse
from apps.web.shell import as_reader, page, principal_of, reader_view, zone_of
from db import sql

MOST_SHOWN = 200  # schedules
RUNS_SHOWN = 50
FORM_FIELDS = {"everySeconds": "minutes", "timeZone": "time_zone"}
"""The form's fields whose names differ from those of refusals."""
TIMING = ("kind", "cron", "minutes", "at", "time_zone")
NO_CONTENT: dict[str, Any] = {
    "agent": None, "name": "", "text": "", "inputs": {}, "overlap": "skip", "catch_up": "last",
}  # fmt: skip
"""What a preview does without."""
EXAMPLES = {
    "0 9 * * *": "every day at 9:00",
    "0 9 * * 1-5": "on weekdays at 9:00",
    "0 * * * *": "every hour",
    "0 8 * * 1": "on Mondays at 8:00",
    "0 7 1 * *": "on the first of each month at 7:00",
}


@cache
def _zones() -> list[str]:
    return sorted(zoneinfo.available_timezones())


class InputsField(strict_json.FormField):
    """A JSON object, or nothing."""

    def clean(self, value: Any) -> Any:
        given = super().clean(value)
        if given is not None and not isinstance(given, dict):
            raise forms.ValidationError("Write a JSON object, in braces.")
        return given


class ScheduleForm(forms.Form):
    """A schedule as people enter it: an interval in minutes, a time in the schedule's zone, a plan's inputs as fields.

    Data for an agent, and inputs that do not fit a form, are written as JSON.
    """

    name = forms.CharField(max_length=200, widget=forms.TextInput({"autocomplete": "off"}))
    agent = forms.ModelChoiceField(Agent.objects.none(), to_field_name="slug", label="Agent or plan")
    text = forms.CharField(
        label="Message", required=False, max_length=100_000, strip=False, widget=forms.Textarea({"rows": 3})
    )
    inputs = InputsField(
        label="Data, as JSON",
        required=False,
        help_text='An object, such as {"topic": "energy"}.',
        widget=forms.Textarea({"rows": 3, "class": "code", "spellcheck": "false", "autocapitalize": "none"}),
    )
    kind = forms.ChoiceField(
        label="When",
        choices=[("cron", "At certain times"), ("interval", "Every so many minutes"), ("once", "Once")],
        initial="cron",
        widget=forms.RadioSelect,
    )
    cron = forms.CharField(
        label="Times",
        required=False,
        max_length=200,
        initial="0 9 * * *",
        help_text="A cron expression: minute, hour, day of month, month, day of week. Or a name, such as @daily.",
        widget=forms.TextInput(
            {
                "list": "cron-examples",
                "class": "code",
                "autocomplete": "off",
                "spellcheck": "false",
                "data-kinds": "cron",
            }
        ),
    )
    minutes = forms.IntegerField(
        label="Minutes",
        required=False,
        min_value=1,
        max_value=527_040,
        widget=forms.NumberInput({"data-kinds": "interval"}),
    )
    at = forms.DateTimeField(
        label="Date and time",
        required=False,
        help_text="An interval counts from it.",
        widget=forms.DateTimeInput({"type": "datetime-local", "data-kinds": "interval once"}, format="%Y-%m-%dT%H:%M"),
    )
    time_zone = forms.CharField(max_length=64, widget=forms.TextInput({"list": "time-zones", "autocomplete": "off"}))
    overlap = forms.ChoiceField(
        label="If an earlier run still works",
        choices=[
            ("skip", "Skip the new run"),
            ("queue", "Wait for the earlier run"),
            ("cancel", "Cancel the earlier run"),
        ],
    )
    catch_up = forms.ChoiceField(
        label="After the server was down",
        choices=[("last", "Run once"), ("none", "Do not run"), ("all", "Run for each missed time, at most 10")],
    )

    def __init__(self, user: User, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        self._usable = startable(user.principal, self.initial.get("agent"))
        cast("forms.ModelChoiceField[Agent]", self.fields["agent"]).queryset = self._usable
        swap = {"target": "#schedule-inputs", "swap": "outerHTML", "sync": "this:replace", "trigger": "change"}
        reload = {"hx-get": reverse("web:schedule-inputs"), **{f"hx-{name}": value for name, value in swap.items()}}
        self.fields["agent"].widget.attrs.update(reload)
        self._problems: dict[str, str] = {}  # of a plan's inputs, by the HTML names of their fields

    @cached_property
    def target(self) -> Agent | None:
        """The agent or plan that is chosen now."""
        chosen = self["agent"].value()
        slug = chosen.replace("\x00", "") if isinstance(chosen, str) else ""
        return self._usable.filter(slug=slug).first() if slug else None

    @cached_property
    def plan_inputs(self) -> InputForm | None:
        """The form of the chosen plan's inputs."""
        is_plan = self.target is not None and self.target.kind == Agent.Kind.PLAN
        definition = registry.definition_of(self.target) if is_plan and self.target else None
        return InputForm.of(definition) if definition else None

    @property
    def _input_fields(self) -> list[Field]:
        """Those that can be filled in ahead."""
        return [one for one in self.plan_inputs.fields if one.kind != "file"] if self.plan_inputs else []

    @property
    def shown_inputs(self) -> list[tuple[Field, str]]:
        """The fields of the plan's inputs, filled in, each with its problem."""
        return [(self._filled(field), self._problems.get(field.html_name, "")) for field in self._input_fields]

    def _filled(self, field: Field) -> Field:
        if self.is_bound and "answers" in self.data:
            given = cast("Any", self.data).getlist(field.html_name)
            value = given if field.kind == "choices" else "".join(given[-1:])
        elif field.name in (kept := self.initial.get("inputs") or {}):
            value = kept[field.name]
        else:
            return field
        return replace(field, schema={**field.schema, "default": value})

    @property
    def file_inputs(self) -> list[str]:
        """The labels of inputs that only a person can give."""
        return [one.label for one in self.plan_inputs.fields if one.kind == "file"] if self.plan_inputs else []

    @property
    def other_input_problems(self) -> list[str]:
        """Those that no field shows."""
        return [str(said) for said in self.errors.get("inputs", []) if said not in self._problems.values()]

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        self._drop_hidden()
        if self._input_fields and "answers" in self.data:
            try:
                given["inputs"] = answer_from(self._input_fields, dict(cast("Any", self.data).lists()))
            except InvalidParams as refused:
                self._add_input_problem(refused.field, str(refused))
        return given

    def _drop_hidden(self) -> None:
        """What stands in fields of other kinds does not count: the page does not show them."""
        for name, field in self.fields.items():
            kinds = field.widget.attrs.get("data-kinds")
            if kinds and self.cleaned_data.get("kind") not in (None, *kinds.split()):
                self.errors.pop(name, None)
                self.cleaned_data[name] = field.empty_value if isinstance(field, forms.CharField) else None

    def _add_input_problem(self, html_name: str, sentence: str) -> None:
        if any(field.html_name == html_name for field in self._input_fields):
            self._problems[html_name] = sentence
        self.add_error("inputs", sentence)

    def clean_time_zone(self) -> str:
        name = str(self.cleaned_data["time_zone"])
        try:
            schedules.zone_of(name)
        except InvalidFields as refused:
            raise forms.ValidationError(refused.violations[0][1]) from None
        return name

    def fill(self, schedule: Schedule) -> Schedule:
        """Set what the valid form says."""
        given = self.cleaned_data
        for name in ("name", "agent", "text", "kind", "cron", "time_zone", "overlap", "catch_up"):
            setattr(schedule, name, given[name])
        schedule.inputs = given["inputs"] or {}
        schedule.every_seconds = given["minutes"] * 60 if given["minutes"] else None
        schedule.at = _in_zone(given["at"], given["time_zone"])
        return schedule

    def refused(self, refusal: Exception) -> None:
        violations = refusal.violations if isinstance(refusal, InvalidFields) else [("", str(refusal))]
        for path, sentence in violations:
            name, _, inner = path.partition(".")
            name = FORM_FIELDS.get(path, name)
            if name == "inputs":
                self._add_input_problem(f"answer-{inner.partition('.')[0]}", sentence)
            else:
                self.add_error(name if name in self.fields else None, sentence)


def startable(principal: Principal, chosen: str | None = None) -> AgentQuerySet:
    """The listed agents and plans that the person may use, and the one that is `chosen` already, by its slug."""
    usable = Agent.objects.visible_to(principal)
    return usable.filter(Q(listed=True) | Q(slug=chosen or "")).order_by("name")


def _in_zone(at: datetime.datetime | None, zone: str) -> datetime.datetime | None:
    """A time as it was typed, in the schedule's zone."""
    return at.replace(tzinfo=schedules.zone_of(zone)) if at else None


def _initial(schedule: Schedule) -> dict[str, Any]:
    names = ("name", "text", "kind", "cron", "time_zone", "overlap", "catch_up")
    at = schedule.at.astimezone(schedules.zone_of(schedule.time_zone)).replace(tzinfo=None) if schedule.at else None
    return {name: getattr(schedule, name) for name in names} | {
        "agent": schedule.agent.slug if schedule.agent else None,
        "inputs": schedule.inputs or None,
        "minutes": schedule.every_seconds and schedule.every_seconds // 60,
        "at": at,
    }


@reader_view
def schedule_list(request: HttpRequest) -> HttpResponse:
    rows = Schedule.objects.visible_to(principal_of(request)).select_related("agent").order_by("-created_at", "-id")
    return page(request, "web/schedules.html", rows=list(rows[:MOST_SHOWN]))


@reader_view
def one_schedule(request: HttpRequest, schedule: uuid.UUID) -> HttpResponse:
    """A schedule's next runs and its history."""
    found = _find(request, schedule)
    runs = ScheduledRun.objects.visible_to(principal_of(request)).filter(schedule=found).select_related("task__agent")
    newest = list(runs.order_by("-due_at")[:RUNS_SHOWN])
    about = {"schedule": found, "next_runs": schedules.next_times(found), "runs": newest}
    return page(request, "web/schedule.html", **about)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def edit_schedule(request: HttpRequest, schedule: uuid.UUID | None = None) -> HttpResponse:
    user = cast("User", request.user)
    refuse(user, request.resolver_match)  # before the form is filled in
    with as_reader(request):
        found = _find(request, schedule) if schedule else Schedule(time_zone=str(zone_of(request, user.time_zone)))
        given: dict[str, Any] = {} if schedule is None else _initial(found)
        initial = {"agent": request.GET.get("agent"), "time_zone": found.time_zone, **given}
        form = ScheduleForm(user, request.POST or None, initial=initial)
        if request.method == "POST" and form.is_valid() and is_saved(user, form, schedules.save, found):
            return redirect("web:schedule", found.pk)
        about = {"form": form, "schedule": found if schedule else None, "examples": EXAMPLES, "zones": _zones()}
        return page(request, "web/schedule_edit.html", **about)


def is_saved[Row](user: User, form: Any, save: Callable[[Principal, Row], object], row: Row) -> bool:
    """Save what the form makes of the row. If that is refused, the form says why."""
    try:
        count_act(user.principal)
        save(user.principal, form.fill(row))
    except (Refusal, QuotaExceeded) as refusal:
        form.refused(refusal)
        return False
    return True


@reader_view
def schedule_inputs(request: HttpRequest) -> HttpResponse:
    """The part of the form that depends on the agent (`?agent=`)."""
    form = ScheduleForm(cast("User", request.user), initial={"agent": request.GET.get("agent")})
    return render(request, "web/_schedule_inputs.html", {"form": form})


@require_POST
@login_required
def preview_schedule(request: HttpRequest) -> HttpResponse:
    """The next runs of what the form says now, or what is wrong with it."""
    with as_reader(request):
        form = ScheduleForm(cast("User", request.user), request.POST)
        form.full_clean()
        about: dict[str, Any] = {"problems": [said for name in TIMING for said in form.errors.get(name, [])]}
        if not about["problems"]:
            now = sql.database_time()
            form.cleaned_data = {**NO_CONTENT, **form.cleaned_data}
            try:
                about["next_runs"] = schedules.preview(form.fill(Schedule(created_at=now)), now)
            except InvalidFields as refused:
                about["problems"] = [sentence for _, sentence in refused.violations]
        return render(request, "web/_next_runs.html", about)


@require_POST
@login_required
def act_on_schedule(request: HttpRequest, schedule: uuid.UUID) -> HttpResponse:
    """Pause, resume, run now or delete, as `do` says."""
    found, do = _find(request, schedule), request.POST.get("do", "")
    try:
        match do:
            case "pause":
                schedules.pause(found)
            case "resume":
                schedules.resume(found)
            case "run":
                count_act(principal_of(request))
                run = schedules.run_now(found)
                said = "It waits." if run.state == run.State.WAITING else "It was started."
                messages.info(request, run.reason or said)
            case "delete":
                found.delete()
                messages.info(request, "The schedule was deleted. What it started stays.")
                return redirect("web:schedules")
            case _:
                raise Http404
    except (Refusal, QuotaExceeded) as refusal:
        messages.error(request, str(refusal))
    return redirect("web:schedule", found.pk)


def _find(request: HttpRequest, key: uuid.UUID) -> Schedule:
    found = Schedule.objects.visible_to(principal_of(request)).select_related("agent").filter(pk=key).first()
    if found is None:
        raise Http404
    return found
