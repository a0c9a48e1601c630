"""Runs: who worked on which turn of a task, with what, and how it ended."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

from django.urls import path
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.fields import Shape, Struct
from apps.api.problems import NotFound
from apps.api.schema import documented
from apps.api.views import Endpoint
from apps.engine.breaking import BROKEN
from apps.record import cold, wire
from apps.record.models import Run, Task

JSON = dict[str, Any]


def run_json(run: Run) -> JSON:
    """A run for the owner of its task; `task`, `agent` and `task.agent` should be loaded.

    What was kept for operators (traces of errors, what came too late, an agent's memory) is not in it.
    """
    by_version = run.input.get("agent") or {}
    return {
        "id": str(run.pk),
        "taskId": str(run.task_id),
        "sessionId": str(run.task.context_id),
        "agent": (run.agent or run.task.agent).slug,
        "agentVersion": by_version.get("number"),
        "turn": run.turn,
        "attempt": run.attempt,
        "state": run.state,
        "queuedAt": wire.timestamp(run.queued_at),
        "startedAt": _time(run.started_at),
        "finishedAt": _time(run.finished_at),
        "inputHash": run.input_hash,
        "options": run.input.get("options", {}),
        "usage": run.usage,
        "error": _error(run.error),
        "traceparent": run.traceparent,
    }


def _time(at: datetime.datetime | None) -> str | None:
    return wire.timestamp(at) if at else None


def _error(error: JSON | None) -> JSON | None:
    """What an agent said when it failed; of an error in its code, that there was one."""
    if not error:
        return None
    is_internal = "traceback" in error or "message" not in error
    return {"code": str(error.get("code", "")), "message": BROKEN if is_internal else error["message"]}


class RunError(Shape):
    code = serializers.CharField()
    message = serializers.CharField(help_text="For people.")


@extend_schema_serializer(component_name="Run")
class RunShape(Shape):
    """One execution of one turn of a task."""

    id = serializers.UUIDField()
    task_id = serializers.UUIDField()
    session_id = serializers.UUIDField()
    agent = serializers.CharField(help_text="The slug of who takes the turn.")
    agent_version = serializers.IntegerField(allow_null=True, help_text="The number of the version that it goes by.")
    turn = serializers.IntegerField(help_text="1 for the task's first message.")
    attempt = serializers.IntegerField(help_text="How often it was begun.")
    state = serializers.ChoiceField(Run.State.choices)
    queued_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    input_hash = serializers.CharField(help_text="SHA-256 of what the turn was given; empty until it begins.")
    options = Struct(help_text="What the session had set for its agent.")
    usage = Struct(help_text="What language models took; empty where none was asked.")
    error = RunError(allow_null=True)
    traceparent = serializers.CharField(help_text="Its span (W3C Trace Context).")


class OneRun(Endpoint):
    @documented("runs_retrieve", "One run of a task of yours", answers={200: RunShape}, refuses=[404])
    def get(self, request: Request, run: uuid.UUID) -> Response:
        tasks = Task.objects.visible_to(self.principal)
        named = Run.objects.select_related("agent", "task__agent").filter(pk=run, task__in=tasks)
        found = named.first()
        if found is None and cold.bring_back_run(self.principal, run):
            found = named.all().first()
        if found is None:
            raise NotFound("There is no such run.")
        return Response(run_json(found))


urlpatterns = [path("runs/<uuid:run>", OneRun.as_view(), name="run")]
