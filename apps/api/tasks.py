"""Tasks: what agents work on for the caller; to stop them, to answer what they ask, to say what they were worth."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from django.db.models import Q
from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from apps.accounts import quotas
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.api import pages
from apps.api.fields import AnyValue, Body, Choice, Listing, Shape, page_of
from apps.api.idempotency import key_of
from apps.api.parts import MOST_WORDS, parts_field, parts_of
from apps.api.problems import Conflict, NotFound
from apps.api.schema import documented
from apps.api.sending import Outgoing, addressed, send, session_of
from apps.api.shapes.declared import SentShape, TaskShape
from apps.api.shapes.tasks import task_json
from apps.api.views import Endpoint
from apps.engine.canceling import cancel_found
from apps.features.sessions import feedback
from apps.plans.waiting import waiting_for
from apps.record import answers, cold, lineage
from apps.record.events import JSON
from apps.record.lifecycle import INTERRUPTED, TaskState
from apps.record.models import Accepted, Artifact, Context, Run, Task
from apps.record.models.record import TaskQuerySet

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
    rating = serializers.IntegerField(min_value=1, max_value=feedback.MOST, help_text="Stars.")
    text = serializers.CharField(default="", allow_blank=True, max_length=feedback.LONGEST)


class Rated(Shape):
    """What is on record now."""

    task_id = serializers.UUIDField()
    rating = serializers.IntegerField()
    text = serializers.CharField()


class Answering(Body):
    """An answer to what a task asks: words, data of the form that it asked for, parts, or several of these."""

    text = serializers.CharField(required=False, max_length=MOST_WORDS)
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
        context = session_of(self.principal, asked["session"]) if "session" in asked else None
        left = lineage.leavings(context) if context else {}
        rows = select(self.principal, asked, context, left).select_related("agent")
        shown, following = pages.page(rows, NEWEST_FIRST, asked, self.principal, "tasks", *bound)
        return Response({"items": tasks_json(lineage.as_shown(shown, left), context), "nextCursor": following})


class OneTask(Endpoint):
    @documented("tasks_retrieve", "One of your tasks", answers={200: TaskShape}, refuses=[404])
    def get(self, request: Request, task: uuid.UUID) -> Response:
        return Response(tasks_json([find(self.principal, task)])[0])


class Cancel(Endpoint):
    @documented("tasks_cancel", "Stop a task, and what it called for", answers={200: TaskShape}, refuses=[404, 409])
    def post(self, request: Request, task: uuid.UUID) -> Response:
        """A task that is canceled stays so; one that has ended otherwise cannot be."""
        cancel_found(find(self.principal, task))
        return Response(tasks_json([find(self.principal, task)])[0])


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
        given, key = await db.run(self.body, Answering), key_of(request)
        quotas.count_act(self.principal)
        outgoing = await db.run(answer_to, self.principal, task, given, key)
        told = await send(self.principal, outgoing, wait=given["wait"], address=self.address, span=self.span)
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
        given, rated = self.body(Rating), find(self.principal, task)
        said = feedback.read(str(given["rating"]), given["text"])
        feedback.give(self.principal, rated.agent, str(rated.pk), said)
        return Response({"taskId": str(rated.pk), "rating": said["rating"], "text": said.get("feedback", "")})


def select(principal: Principal, asked: JSON, context: Context | None, left: Collection[uuid.UUID]) -> TaskQuerySet:
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


def find(principal: Principal, task: uuid.UUID) -> Task:
    """A task of the caller's, with its agent and its session. Raises NotFound."""
    found = cold.find_task(principal, task, "agent", "context")
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


def answer_to(principal: Principal, task: uuid.UUID, given: JSON, key: str) -> Outgoing:
    """The message that answers what a task of the caller's asks, or did when it was sent first.

    Raises NotFound, Conflict, InvalidParams for data that do not fit the question, and what `addressed` does.
    """
    asking = find(principal, task)
    earlier = Run.objects.filter(task=asking, message__message_id=key, slot__isnull=False).first()
    slot = earlier.slot if earlier else asking.slot
    if earlier is None and asking.state not in INTERRUPTED and not was_sent(principal, asking, key):
        raise Conflict(f"The task is {asking.state} and asks nothing. Send a message to its session instead.")
    data = [{"data": answers.data_for(slot, given["data"])}] if "data" in given else []
    said = {"text": given.get("text", ""), "parts": [*given.get("parts", []), *data]}
    outgoing = addressed(principal, asking.context_id, {"parts": parts_of(said), "messageId": key}, asking.pk)
    return replace(outgoing, asked=asking.status_event if asking.state in INTERRUPTED else None)


def was_sent(principal: Principal, task: Task, key: str) -> bool:
    """Has the caller sent this task's agent a message under this key?"""
    return Accepted.objects.filter(sender=principal.sender, agent=task.agent, message_id=key).exists()


urlpatterns = [
    path("tasks", Tasks.as_view(), name="tasks"),
    path("tasks/<uuid:task>", OneTask.as_view(), name="task"),
    path("tasks/<uuid:task>/cancel", Cancel.as_view(), name="cancel"),
    path("tasks/<uuid:task>/answer", Answer.as_view(), name="answer"),
    path("tasks/<uuid:task>/feedback", Feedback.as_view(), name="feedback"),
]
