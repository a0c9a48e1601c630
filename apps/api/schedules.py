"""Schedules: agents and plans that start by themselves."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import quotas
from apps.accounts.principals import READ
from apps.api.framework.problems import NotFound
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, Shape, Struct, page_of
from apps.api.framework.views import Endpoint
from apps.api.messages import MAX_TEXT
from apps.api.shapes import JSON, optional_timestamp, timestamp
from apps.automation import schedules, targets
from apps.automation.models import Schedule, ScheduledRun
from db import sql

NO_SCHEDULE = "There is no such schedule."
EXAMPLE = {
    "name": "Morning report",
    "agent": "echo",
    "text": "What is new?",
    "kind": "cron",
    "cron": "0 9 * * 1-5",
    "timeZone": "Europe/Berlin",
}


class LocalTime(serializers.DateTimeField):
    """Without an offset, a time of the schedule's zone, which `schedules.preview` knows."""

    def enforce_timezone(self, value: datetime.datetime) -> datetime.datetime:
        return value


class Timing(Body):
    kind = Choice(Schedule.Kind.choices)
    cron = Line(
        required=False,
        allow_blank=True,
        help_text="Five fields: minute, hour, day of month, month, day of week. Or a name, such as `@daily`.",
    )
    every_seconds = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=2_000_000_000, help_text="The interval."
    )
    at = LocalTime(
        required=False,
        allow_null=True,
        help_text="When to run once, or when the interval begins. Without an offset, it is in the schedule's zone.",
    )
    time_zone = Line(required=False, max_length=64, help_text="An IANA name. By default UTC.")


class NewSchedule(Timing):
    name = Line()
    agent = Line(max_length=63, help_text="The slug of the agent or the plan.")
    text = serializers.CharField(required=False, max_length=MAX_TEXT, allow_blank=True, trim_whitespace=False)
    inputs = Struct(required=False, help_text="A plan's inputs, or data that an agent gets with the text.")
    overlap = Choice(
        Schedule.Overlap.choices, required=False, help_text="What to do while an earlier run has not ended."
    )
    catch_up = Choice(
        Schedule.CatchUp.choices, required=False, help_text="What to do about times at which the server was down."
    )
    catch_up_limit = serializers.IntegerField(
        required=False, min_value=1, max_value=20, help_text="The most runs that `all` makes up for."
    )


class ChangedSchedule(NewSchedule):
    """Only the fields to change."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "partial": True})


@extend_schema_serializer(component_name="Schedule")
class ScheduleShape(Shape):
    """When an agent or a plan starts by itself, as you."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    agent = serializers.CharField(allow_null=True, help_text="The slug. Null if the agent was deleted.")
    text = serializers.CharField()
    inputs = Struct()
    kind = serializers.ChoiceField(Schedule.Kind.choices)
    cron = serializers.CharField()
    every_seconds = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField(allow_null=True)
    time_zone = serializers.CharField()
    overlap = serializers.ChoiceField(Schedule.Overlap.choices)
    catch_up = serializers.ChoiceField(Schedule.CatchUp.choices)
    catch_up_limit = serializers.IntegerField()
    paused_at = serializers.DateTimeField(allow_null=True)
    paused_because = serializers.CharField(help_text="Why the server paused it. Empty if you did.")
    failures = serializers.IntegerField(help_text="The number of runs in a row that could not start.")
    next_runs = serializers.ListField(child=serializers.DateTimeField(), help_text="At most 5.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="ScheduledRun")
class ScheduledRunShape(Shape):
    """One due time of a schedule."""

    id = serializers.UUIDField()
    due_at = serializers.DateTimeField()
    is_manual = serializers.BooleanField(help_text="Whether somebody started it by hand.")
    state = serializers.ChoiceField(ScheduledRun.State.choices)
    reason = serializers.CharField(help_text="Why it waits, was skipped or could not start.")
    task_id = serializers.UUIDField(
        allow_null=True, help_text="The task that it started. A plan's run has the same id."
    )
    session_id = serializers.UUIDField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)


@extend_schema_serializer(component_name="SchedulePreview")
class PreviewShape(Shape):
    next_runs = serializers.ListField(child=serializers.DateTimeField(), help_text="At most 5.")


class ScheduleEndpoint(Endpoint):
    def save(self, schedule: Schedule, asked: JSON) -> JSON:
        """Raises InvalidFields, TooManySchedules."""
        if (slug := asked.pop("agent", None)) is not None:
            schedule.agent = targets.find_target(self.principal, slug)
        for name, value in asked.items():
            setattr(schedule, name, value)
        return schedule_json(schedules.save(self.principal, schedule))

    def find(self, key: uuid.UUID) -> Schedule:
        """Raises NotFound."""
        found = Schedule.objects.visible_to(self.principal).select_related("agent").filter(pk=key).first()
        if found is None:
            raise NotFound(NO_SCHEDULE)
        return found


class Schedules(ScheduleEndpoint):
    @documented(
        "schedules_list", "List your schedules, newest first", query=Listing, answers={200: page_of(ScheduleShape)}
    )
    def get(self, request: Request) -> Response:
        rows = Schedule.objects.visible_to(self.principal).select_related("agent")
        return self.page(rows, ("-created_at", "-id"), self.query(Listing), schedules_json, "schedules")

    @documented(
        "schedules_create",
        "Create a schedule",
        body=NewSchedule,
        answers={201: ScheduleShape},
        refuses=[409],
        examples=[OpenApiExample("On weekdays at nine", EXAMPLE, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        """The agent or plan must be one that you may use. Its runs are yours, and your budgets and limits apply."""
        asked = self.body(NewSchedule)
        quotas.count_act(self.principal)
        return Response(self.save(Schedule(), asked), status=201)


class OneSchedule(ScheduleEndpoint):
    @documented("schedules_retrieve", "Retrieve a schedule", answers={200: ScheduleShape})
    def get(self, request: Request, schedule: uuid.UUID) -> Response:
        return Response(schedule_json(self.find(schedule)))

    @documented("schedules_update", "Change a schedule", body=ChangedSchedule, answers={200: ScheduleShape})
    def patch(self, request: Request, schedule: uuid.UUID) -> Response:
        """Runs that have started go on. The next run is computed from now."""
        found, asked = self.find(schedule), self.body(ChangedSchedule)
        return Response(self.save(found, asked))

    @documented("schedules_delete", "Delete a schedule and its history", answers={204: None})
    def delete(self, request: Request, schedule: uuid.UUID) -> Response:
        """The tasks that it started stay."""
        self.find(schedule).delete()
        return Response(status=204)


class Pause(ScheduleEndpoint):
    @documented("schedules_pause", "Pause a schedule", answers={200: ScheduleShape})
    def post(self, request: Request, schedule: uuid.UUID) -> Response:
        schedules.pause(self.find(schedule))
        return Response(schedule_json(self.find(schedule)))


class Resume(ScheduleEndpoint):
    @documented("schedules_resume", "Resume a paused schedule", answers={200: ScheduleShape})
    def post(self, request: Request, schedule: uuid.UUID) -> Response:
        """Times that passed during the pause are not made up for."""
        schedules.resume(self.find(schedule))
        return Response(schedule_json(self.find(schedule)))


class RunNow(ScheduleEndpoint):
    @documented("schedules_run", "Run a schedule now", answers={200: ScheduledRunShape}, refuses=[409])
    def post(self, request: Request, schedule: uuid.UUID) -> Response:
        """This changes no planned run. The policy for runs that overlap applies. At most 10 such runs wait."""
        found = self.find(schedule)
        return Response(runs_json([schedules.run_now(found)])[0])


class Runs(ScheduleEndpoint):
    @documented(
        "schedules_runs",
        "List a schedule's runs, newest first",
        query=Listing,
        answers={200: page_of(ScheduledRunShape)},
    )
    def get(self, request: Request, schedule: uuid.UUID) -> Response:
        found = self.find(schedule)
        rows = ScheduledRun.objects.visible_to(self.principal).filter(schedule=found).select_related("task")
        return self.page(rows, ("-due_at", "-id"), self.query(Listing), runs_json, "schedule-runs", str(found.pk))


class Preview(Endpoint):
    scopes = {"POST": READ}

    @documented("schedules_preview", "Preview when a schedule would run", body=Timing, answers={200: PreviewShape})
    def post(self, request: Request) -> Response:
        """Nothing is saved."""
        now = sql.database_time()
        shown = schedules.preview(Schedule(**self.body(Timing), created_at=now), now)
        return Response({"nextRuns": [timestamp(at) for at in shown]})


def schedules_json(rows: Sequence[Schedule]) -> list[JSON]:
    return [schedule_json(row) for row in rows]


def schedule_json(row: Schedule) -> JSON:
    """With its agent loaded."""
    return {
        "id": str(row.pk),
        "name": row.name,
        "agent": row.agent.slug if row.agent else None,
        "text": row.text,
        "inputs": row.inputs,
        "kind": row.kind,
        "cron": row.cron,
        "everySeconds": row.every_seconds,
        "at": optional_timestamp(row.at),
        "timeZone": row.time_zone,
        "overlap": row.overlap,
        "catchUp": row.catch_up,
        "catchUpLimit": row.catch_up_limit,
        "pausedAt": optional_timestamp(row.paused_at),
        "pausedBecause": row.paused_because,
        "failures": row.failures,
        "nextRuns": [timestamp(at) for at in schedules.next_times(row)],
        "createdAt": timestamp(row.created_at),
        "updatedAt": timestamp(row.updated_at),
    }


def runs_json(rows: Sequence[ScheduledRun]) -> list[JSON]:
    return [
        {
            "id": str(row.pk),
            "dueAt": timestamp(row.due_at),
            "isManual": row.is_manual,
            "state": row.state,
            "reason": row.reason,
            "taskId": str(row.task_id) if row.task_id else None,
            "sessionId": str(row.task.context_id) if row.task else None,
            "startedAt": optional_timestamp(row.started_at),
        }
        for row in rows
    ]


urlpatterns = [
    path("schedules", Schedules.as_view(), name="schedules"),
    path("schedules/preview", Preview.as_view(), name="schedules-preview"),
    path("schedules/<uuid:schedule>", OneSchedule.as_view(), name="schedule"),
    path("schedules/<uuid:schedule>/pause", Pause.as_view(), name="schedule-pause"),
    path("schedules/<uuid:schedule>/resume", Resume.as_view(), name="schedule-resume"),
    path("schedules/<uuid:schedule>/run", RunNow.as_view(), name="schedule-run"),
    path("schedules/<uuid:schedule>/runs", Runs.as_view(), name="schedule-runs"),
]
