"""Tasks: what agents work on for the caller, to stop, answer and rate; and their runs: who worked on which turn."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from django.db.models import Q
from django.urls import path
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts import quotas
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.api.framework import pagination
from apps.api.framework.problems import Conflict, NotFound
from apps.api.framework.schema import documented
from apps.api.framework.serializers import AnyValue, Body, Choice, Listing, Shape, Struct, page_of
from apps.api.framework.views import Endpoint
from apps.api.messages import (
    MAX_TEXT,
    OutgoingMessage,
    address_message,
    find_session,
    parts_field,
    read_parts,
    send_message,
)
from apps.api.shapes import JSON, SentShape, TaskShape, optional_timestamp, task_json
from apps.engine.cancel import cancel_task
from apps.engine.output import AGENT_ERROR_MESSAGE
from apps.features.sessions import commands
from apps.plans.person import waiting_for
from apps.record import lineage, lookup, wire
from apps.record.content import json_schema
from apps.record.models import INTERRUPTED_STATES, Accepted, Artifact, Context, Run, Task, TaskQuerySet, TaskState

NEWEST_FIRST = ("-status_at", "-id")
NO_TASK = "There is no such task."


class TaskListing(Listing):
    state = serializers.ListField(child=Choice(TaskState.choices), required=False)
    session = serializers.UUIDField(required=False, help_text="The id of a session.")
    agent = serializers.SlugField(required=False, max_length=63, help_text="The slug of an agent.")
    parent = serializers.UUIDField(  # type: ignore[assignment]
        required=False, help_text="The task that called for those that are listed."
    )
    since = serializers.DateTimeField(required=False, help_text="Those whose state changed then, or later.")
    waiting = serializers.BooleanField(
        required=False, default=False, help_text="Those that ask you something, as your inbox has them."
    )


class Rating(Body):
    rating = serializers.IntegerField(min_value=1, max_value=commands.MAX_RATING, help_text="Stars.")
    text = serializers.CharField(default="", allow_blank=True, max_length=commands.MAX_FEEDBACK_LENGTH)


class Rated(Shape):
    """What is on record now."""

    task_id = serializers.UUIDField()
    rating = serializers.IntegerField()
    text = serializers.CharField()


class Answering(Body):
    """An answer to what a task asks: words, data of the form that it asked for, parts, or several of these."""

    text = serializers.CharField(required=False, max_length=MAX_TEXT)
    data = AnyValue(  # type: ignore[assignment]
        required=False, help_text="Of the form of `question.schema`, where the task names one."
    )
    parts = parts_field()
    wait = serializers.BooleanField(default=False, help_text="Answer when the task has ended or asks again.")


class Tasks(Endpoint):
    @documented(
        "tasks_list",
        "Your tasks, the newest state first",
        query=TaskListing,
        answers={200: page_of(TaskShape)},
        refuses=[404],
    )
    def get(self, request: Request) -> Response:
        """What agents called for is listed by its `parent` alone.

        With `waiting`, each question is there once, by the task that is to be answered: of a plan that asks something,
        the tasks of all its steps that do. They may be answered in any order, by whoever is first.
        """
        asked = self.query(TaskListing)
        bound = [str(asked.get(name)) for name in ("state", "session", "agent", "parent", "since", "waiting")]
        context = find_session(self.principal, asked["session"]) if "session" in asked else None
        left = lineage.left_tasks(context) if context else {}
        rows = filter_tasks(self.principal, asked, context, left).select_related("agent")
        shown, following = pagination.paginate(rows, NEWEST_FIRST, asked, self.principal, "tasks", *bound)
        return Response({"items": tasks_json(lineage.as_shown(shown, left), context), "nextCursor": following})


class OneTask(Endpoint):
    @documented("tasks_retrieve", "One of your tasks", answers={200: TaskShape}, refuses=[404])
    def get(self, request: Request, task: uuid.UUID) -> Response:
        return Response(tasks_json([find_task(self.principal, task)])[0])


class Cancel(Endpoint):
    @documented("tasks_cancel", "Stop a task, and what it called for", answers={200: TaskShape}, refuses=[404, 409])
    def post(self, request: Request, task: uuid.UUID) -> Response:
        """A task that is canceled stays so; one that has ended otherwise cannot be."""
        cancel_task(find_task(self.principal, task))
        return Response(tasks_json([find_task(self.principal, task)])[0])


class Answer(Endpoint):
    @documented(
        "tasks_answer",
        "Answer what a task asks",
        body=Answering,
        answers={200: SentShape, 202: SentShape},
        refuses=[404, 409],
        keyed=True,
    )
    async def post(self, request: Request, task: uuid.UUID) -> Response:
        """What the task asks for is in its `question`; a credential that it asks for is given by a link alone."""
        given, key = await db.run(self.body, Answering), self.idempotency_key
        quotas.count_act(self.principal)
        outgoing = await db.run(address_answer, self.principal, task, given, key)
        told = await send_message(
            self.principal, outgoing, wait=given["wait"], address=self.address, traceparent=self.traceparent
        )
        return Response(told, status=200 if given["wait"] else 202)


class Feedback(Endpoint):
    @documented(
        "tasks_feedback",
        "Say what a task was worth; the newest counts",
        body=Rating,
        answers={200: Rated},
        refuses=[404],
    )
    def post(self, request: Request, task: uuid.UUID) -> Response:
        given, rated = self.body(Rating), find_task(self.principal, task)
        said = commands.parse_feedback(str(given["rating"]), given["text"])
        commands.give_feedback(self.principal, rated.agent, str(rated.pk), said)
        return Response({"taskId": str(rated.pk), "rating": said["rating"], "text": said.get("feedback", "")})


def filter_tasks(
    principal: Principal, asked: JSON, context: Context | None, left: Collection[uuid.UUID]
) -> TaskQuerySet:
    """The caller's tasks that fit a `TaskListing`; in a session, those that it `left` count as canceled."""
    rows = lineage.tasks(context) if context else Task.objects.visible_to(principal)
    if asked.get("waiting"):
        rows = rows.filter(pk__in=waiting_for(principal).values("pk"))
    if "parent" in asked or not asked.get("waiting"):
        rows = rows.filter(parent=asked.get("parent"))
    if agent := asked.get("agent"):
        rows = rows.filter(agent__in=Agent.objects.filter(slug=agent))
    if states := asked.get("state"):
        ended = Q(pk__in=left) if TaskState.CANCELED in states else Q(pk__in=())
        rows = rows.filter(ended | (Q(state__in=states) & ~Q(pk__in=left)) if left else Q(state__in=states))
    if since := asked.get("since"):
        rows = rows.filter(status_at__gte=since)
    return rows


def find_task(principal: Principal, task: uuid.UUID) -> Task:
    """A task of the caller's, with its agent and its session. Raises NotFound."""
    found = lookup.find_task(principal, task, "agent", "context")
    if found is None:
        raise NotFound(NO_TASK)
    return found


def tasks_json(rows: Sequence[Task], context: Context | None = None) -> list[JSON]:
    """Tasks as this session, or else each one's own, shows them; their agents should be loaded. One query."""
    delivered: dict[uuid.UUID, list[Artifact]] = defaultdict(list)
    ended = [row.pk for row in rows if row.state == TaskState.COMPLETED]
    for artifact in Artifact.objects.delivered().filter(task__in=ended).defer("parts", "signature"):
        delivered[artifact.task_id].append(artifact)
    return [
        task_json(context.pk if context else row.context_id, row, row.agent.slug, delivered[row.pk]) for row in rows
    ]


def address_answer(principal: Principal, task: uuid.UUID, given: JSON, key: str) -> OutgoingMessage:
    """The message that answers what a task of the caller's asks, or did when it was sent first.

    Raises NotFound, Conflict, InvalidParams for data that do not fit the question, and what `address_message` does.
    """
    asking = find_task(principal, task)
    earlier = Run.objects.filter(task=asking, message__message_id=key, slot__isnull=False).first()
    slot = earlier.slot if earlier else asking.slot
    if earlier is None and asking.state not in INTERRUPTED_STATES and not was_sent(principal, asking, key):
        raise Conflict(f"The task is {asking.state} and asks nothing. Send a message to its session instead.")
    data = [{"data": json_schema.answer_data(slot, given["data"])}] if "data" in given else []
    said = {"text": given.get("text", ""), "parts": [*given.get("parts", []), *data]}
    outgoing = address_message(principal, asking.context_id, {"parts": read_parts(said), "messageId": key}, asking.pk)
    return replace(outgoing, question_index=asking.status_event if asking.state in INTERRUPTED_STATES else None)


def was_sent(principal: Principal, task: Task, key: str) -> bool:
    """Has the caller sent this task's agent a message under this key?"""
    return Accepted.objects.filter(sender=principal.sender, agent=task.agent, message_id=key).exists()


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
        "startedAt": optional_timestamp(run.started_at),
        "finishedAt": optional_timestamp(run.finished_at),
        "inputHash": run.input_hash,
        "options": run.input.get("options", {}),
        "usage": run.usage,
        "error": _error_json(run.error),
        "traceparent": run.traceparent,
    }


def _error_json(error: JSON | None) -> JSON | None:
    """What an agent said when it failed; of an error in its code, that there was one."""
    if not error:
        return None
    is_internal = "traceback" in error or "message" not in error
    return {"code": str(error.get("code", "")), "message": AGENT_ERROR_MESSAGE if is_internal else error["message"]}


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
        if found is None and lookup.restore_run(self.principal, run):
            found = named.all().first()
        if found is None:
            raise NotFound("There is no such run.")
        return Response(run_json(found))


urlpatterns = [
    path("tasks", Tasks.as_view(), name="tasks"),
    path("tasks/<uuid:task>", OneTask.as_view(), name="task"),
    path("tasks/<uuid:task>/cancel", Cancel.as_view(), name="cancel"),
    path("tasks/<uuid:task>/answer", Answer.as_view(), name="answer"),
    path("tasks/<uuid:task>/feedback", Feedback.as_view(), name="feedback"),
    path("runs/<uuid:run>", OneRun.as_view(), name="run"),
]
