"""Schedules: agents and plans that start by themselves."""

from __future__ import annotations

import datetime

from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.principals import READ
from apps.api.framework.resources import ModelShape, ResourceViewSet
from apps.api.framework.schema import documented
from apps.api.framework.serializers import LocalTime, Moment, Shape
from apps.api.framework.views import Endpoint
from apps.api.shapes import timestamp
from apps.automation import schedules
from apps.automation.api.targets import Target
from apps.automation.models import Schedule, ScheduledRun
from parley.db import sql

EXAMPLE = {
    "name": "Morning report",
    "agent": "echo",
    "text": "What is new?",
    "kind": "cron",
    "cron": "0 9 * * 1-5",
    "timeZone": "Europe/Berlin",
}


def local_time() -> LocalTime:
    words = "When to run once, or when the interval begins. Without an offset, it is in the schedule's zone."
    return LocalTime(required=False, allow_null=True, help_text=words)


class NextRuns(serializers.ListField):
    child = Moment()

    def get_attribute(self, instance: Schedule) -> list[datetime.datetime]:
        return schedules.next_times(instance)


@extend_schema_serializer(component_name="Schedule")
class ScheduleShape(ModelShape):
    """When an agent or a plan starts by itself, as you."""

    agent = Target()
    at = local_time()
    project = serializers.UUIDField(
        required=False, allow_null=True, help_text="The id of the project that its sessions begin in."
    )
    next_runs = NextRuns(read_only=True, help_text="At most 5.")

    class Meta:
        model = Schedule
        fields = (
            "id", "name", "agent", "text", "inputs", "kind", "cron", "every_seconds", "at", "time_zone", "sessions",
            "session", "project", "overlap", "catch_up", "catch_up_limit", "paused_at", "paused_because", "failures",
            "next_runs", "created_at", "updated_at",
        )  # fmt: skip


@extend_schema_serializer(component_name="ScheduledRun")
class ScheduledRunShape(ModelShape):
    """One due time of a schedule."""

    task_id = serializers.UUIDField(
        allow_null=True, help_text="The task that it started. A plan's run has the same id."
    )
    session_id = serializers.UUIDField(source="task.context_id", allow_null=True)

    class Meta:
        model = ScheduledRun
        fields = ("id", "due_at", "is_manual", "state", "reason", "task_id", "session_id", "started_at")


class Schedules(ResourceViewSet):
    resource = schedules.SCHEDULES
    shape = ScheduleShape
    answers = {schedules.RUN_NOW.name: ScheduledRunShape}
    lists = {"runs": (schedules.RUNS, ScheduledRunShape, "List a schedule's runs, newest first")}
    notes = {
        "create": "The agent or plan must be one that you may use. Its runs are yours, "
        "and your budgets and limits apply.",
        "update": "Runs that have started go on. The next run is computed from now.",
    }
    refuses = {"create": [409], schedules.RUN_NOW.name: [409]}
    examples = (OpenApiExample("On weekdays at nine", EXAMPLE, request_only=True),)


class Timing(ModelShape):
    at = local_time()

    class Meta:
        model = Schedule
        fields = ("kind", "cron", "every_seconds", "at", "time_zone")


@extend_schema_serializer(component_name="SchedulePreview")
class PreviewShape(Shape):
    next_runs = serializers.ListField(child=serializers.DateTimeField(), help_text="At most 5.")


class Preview(Endpoint):
    scopes = {"POST": READ}

    @documented("schedules_preview", "Preview when a schedule would run", body=Timing, answers={200: PreviewShape})
    def post(self, request: Request) -> Response:
        """Nothing is saved."""
        now = sql.database_time()
        shown = schedules.preview(Schedule(**self.body(Timing), created_at=now), now)
        return Response({"nextRuns": [timestamp(at) for at in shown]})


urlpatterns = [
    path("schedules/preview", Preview.as_view(), name="schedules-preview"),
    *Schedules.urls(),
]
