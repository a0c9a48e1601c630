"""Tasks (list, cancel, answer, rate) and their runs."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from django.db.models import Q
from django.urls import path
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agentkit.llm.approvals import APPROVE, MAX_REASON, REFUSE
from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal
from apps.accounts.requests import quotas
from apps.accounts.resources import NotNeeded
from apps.agents.models import Agent
from apps.api.framework.problems import Conflict
from apps.api.framework.schema import documented
from apps.api.framework.serializers import AnyValue, Body, Choice, Listing, Shape, Struct, page_of
from apps.api.framework.views import Operations
from apps.api.shapes import JSON, SentShape, TaskShape, task_json
from apps.conversations.api.messages import OutgoingMessage, address_message, parts_field, send_message
from apps.conversations.sessions import commands
from apps.engine.cancel import CANCEL, STOP_AFTER_STEP
from apps.engine.repeats import was_sent
from apps.engine.send import chosen_version, run_again
from apps.engine.turns import approvals, questions
from apps.engine.turns.output import AGENT_ERROR_MESSAGE
from apps.plans.person import waiting_for
from apps.record import lineage
from apps.record.content import json_schema
from apps.record.content.composing import compose, parts_of
from apps.record.content.parts import MAX_TEXT
from apps.record.execution import Run
from apps.record.models import INTERRUPTED_STATES, Artifact, Context, Task, TaskQuerySet, TaskState
from apps.record.reading import lookup
from apps.record.reading.lookup import check_may_use, find_session, restore_run
from parley import db

NEWEST_FIRST = ("-status_at", "-id")


class TaskListing(Listing):
    state = serializers.ListField(child=Choice(TaskState.choices), required=False)
    session = serializers.UUIDField(required=False, help_text="Only tasks in this session, by its id.")
    agent = serializers.SlugField(required=False, max_length=63, help_text="Only tasks of this agent, by its slug.")
    parent = serializers.UUIDField(  # type: ignore[assignment]
        required=False, help_text="Only tasks that this task started, by its id."
    )
    since = serializers.DateTimeField(required=False, help_text="Only tasks whose state changed at or after this time.")
    waiting = serializers.BooleanField(
        required=False, default=False, help_text="Only tasks that ask you a question. Your inbox shows the same tasks."
    )


class Rating(Body):
    rating = serializers.IntegerField(
        min_value=1,
        max_value=commands.MAX_RATING,
        help_text="From 1 (bad) to 5 (good). A thumb down is 1, a thumb up 5.",
    )
    text = serializers.CharField(default="", allow_blank=True, max_length=commands.MAX_FEEDBACK_LENGTH)


class Rated(Shape):
    """The rating that is now recorded."""

    task_id = serializers.UUIDField()
    rating = serializers.IntegerField()
    text = serializers.CharField()


class Answering(Body):
    """An answer to a task's question: text, data that matches the task's schema, parts, or a combination of these."""

    text = serializers.CharField(required=False, max_length=MAX_TEXT)
    data = AnyValue(  # type: ignore[assignment]
        required=False, help_text="Data that matches `question.schema`, if the task has one."
    )
    parts = parts_field()
    wait = serializers.BooleanField(
        default=False, help_text="Whether to respond only after the task has ended or asks again."
    )


class RunningAgain(Body):
    version = serializers.IntegerField(
        required=False, min_value=1, help_text="The number of the agent's version. By default the current one."
    )


class Tasks(Operations):
    @documented(
        "tasks_list",
        "List your tasks, latest change of state first",
        query=TaskListing,
        answers=page_of(TaskShape),
        refuses=[404],
    )
    def list(self, request: Request) -> Response:
        """Tasks that agents started are listed only if you filter by `parent`.

        With `waiting`, the list has each question once, as the task that you have to answer. If a plan asks
        questions, the list has the tasks of all its steps that ask. You can answer them in any order. The first
        answer to a question counts.
        """
        asked = self.query(TaskListing)
        context = find_session(self.principal, asked["session"]) if "session" in asked else None
        left = lineage.left_tasks(context) if context else {}
        rows = filter_tasks(self.principal, asked, context, left).select_related("agent")

        return self.page(rows, NEWEST_FIRST, asked, lambda shown: tasks_json(lineage.as_shown(shown, left), context))

    @documented("tasks_retrieve", "Retrieve a task", answers=TaskShape)
    def retrieve(self, request: Request, task: uuid.UUID) -> Response:
        return self._shown(task)

    @documented("tasks_cancel", CANCEL.summary, answers=TaskShape, refuses=[409])
    def cancel(self, request: Request, task: uuid.UUID) -> Response:
        """Canceling a canceled task has no effect. A task that has ended in another state cannot be canceled."""
        with suppress(NotNeeded):
            CANCEL.perform(self.principal, lookup.find_task(self.principal, task))
        return self._shown(task)

    @documented("tasks_stop_after_step", STOP_AFTER_STEP.summary, answers=TaskShape, refuses=[409])
    def stop_after_step(self, request: Request, task: uuid.UUID) -> Response:
        """The agent finishes its step, and ends with what it has: the task is then completed. Only agents that can do
        so are asked. Asking twice has no effect.
        """
        with suppress(NotNeeded):
            STOP_AFTER_STEP.perform(self.principal, lookup.find_task(self.principal, task))
        return self._shown(task)

    def _shown(self, task: uuid.UUID, status: int = 200) -> Response:
        return Response(tasks_json([lookup.find_task(self.principal, task)])[0], status=status)

    @documented(
        "tasks_answer",
        "Answer a task's question",
        body=Answering,
        answers={200: SentShape, 202: SentShape},
        refuses=[409],
        keyed=True,
    )
    async def answer(self, request: Request, task: uuid.UUID) -> Response:
        """The task's `question` says what it waits for. If a task asks for a credential, use its link or
        `POST /tasks/{id}/credential`.
        """
        given, key = await db.run(self.body, Answering), self.idempotency_key
        await db.run(quotas.count_act, self.principal)
        outgoing = await db.run(address_answer, self.principal, task, given, key)
        told = await send_message(self, outgoing, wait=given["wait"])
        return Response(told, status=200 if given["wait"] else 202)

    @documented(
        "tasks_rerun",
        "Run a task again",
        body=RunningAgain,
        answers={200: TaskShape, 201: TaskShape},
        refuses=[409],
        keyed=True,
    )
    def rerun(self, request: Request, task: uuid.UUID) -> Response:
        """This sends the task's first message again, as a new task in the same session that references the old one.

        A repeated request with the same `Idempotency-Key` returns the same task with status 200.
        """
        asked, key = self.body(RunningAgain), self.idempotency_key
        quotas.count_act(self.principal)
        earlier = lookup.find_task(self.principal, task)
        check_may_use(self.principal, earlier.agent)
        version = chosen_version(self.principal, earlier.agent, asked.get("version"))
        receipt = run_again(earlier, key, caller=self.principal, version=version)
        return self._shown(receipt.task, 200 if receipt.repeated else 201)

    @documented("tasks_feedback", "Rate a task", body=Rating, answers=Rated)
    def feedback(self, request: Request, task: uuid.UUID) -> Response:
        """If you rate a task again, the newest rating counts."""
        given, rated = self.body(Rating), lookup.find_task(self.principal, task)
        said = commands.parse_feedback(str(given["rating"]), given["text"])
        commands.give_feedback(self.principal, rated.agent, str(rated.pk), said)
        return Response({"taskId": str(rated.pk), "rating": said["rating"], "text": said.get("feedback", "")})


class Deciding(Body):
    """A decision about a tool call."""

    decision = serializers.ChoiceField([APPROVE, REFUSE])
    asked = serializers.IntegerField(min_value=1, help_text="The `asked` of the listed call: what you decide about.")
    arguments = Struct(required=False, help_text="Other arguments, which must match the tool's schema.")
    reason = serializers.CharField(required=False, allow_blank=True, max_length=MAX_REASON)


class CallOfOthers(Shape):
    """A tool call in somebody else's session that needs another person."""

    task_id = serializers.UUIDField()
    agent = serializers.CharField(help_text="The agent's slug.")
    asked = serializers.IntegerField(help_text="The index of the event that asks.")
    message = Struct(help_text="The question, as an A2A message. Its data part has the tool and its arguments.")
    question = Struct(help_text="What is asked: its name, and the JSON Schema of the answer.")


@extend_schema_serializer(many=False)
class Calls(Shape):
    items = CallOfOthers(many=True)


class Approvals(Operations):
    @documented("approvals_list", "List tool calls in others' sessions that need you", answers=Calls)
    def list(self, request: Request) -> Response:
        """Calls that need two people, in your workspace. Questions about your own tasks are in the list of tasks."""
        return Response({"items": [_call_json(row) for row in questions.calls_of_others(self.principal)]})

    @documented("approvals_decide", "Decide about a tool call", body=Deciding, answers=None, refuses=[404, 409])
    def decide(self, request: Request, task: uuid.UUID) -> Response:
        """One refusal is enough. Of approvals, two by different people are needed. Whoever changes the arguments is
        the first who approves them.
        """
        given = self.body(Deciding)
        approvals.check_program(self.principal, given)
        quotas.count_act(self.principal)
        approvals.decide(self.principal, task, given.pop("asked"), given)
        return Response(status=204)


def _call_json(task: Task) -> JSON:
    shown = task_json(task.context_id, task, task.agent.slug, [])
    about = {"message": shown["status"]["message"], "question": shown["question"]}
    return CallOfOthers.json_of(task, task_id=task.pk, agent=task.agent.slug, asked=task.status_event, **about)


def filter_tasks(
    principal: Principal, asked: JSON, context: Context | None, left: Collection[uuid.UUID]
) -> TaskQuerySet:
    """In a session, tasks that it `left` count as canceled."""
    rows = lineage.tasks(context) if context else Task.objects.of(principal)
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


def tasks_json(rows: Sequence[Task], context: Context | None = None) -> list[JSON]:
    """Tasks as in this session, or each in its own; agents should be loaded. One query."""
    delivered: dict[uuid.UUID, list[Artifact]] = defaultdict(list)
    ended = [row.pk for row in rows if row.state == TaskState.COMPLETED]
    for artifact in Artifact.objects.delivered().filter(task__in=ended).defer("parts", "signature"):
        delivered[artifact.task_id].append(artifact)
    return [
        task_json(context.pk if context else row.context_id, row, row.agent.slug, delivered[row.pk]) for row in rows
    ]


def address_answer(principal: Principal, task: uuid.UUID, given: JSON, key: str) -> OutgoingMessage:
    """The message that answers the task now, or did when first sent.

    Raises NotFound, Conflict, InvalidParams, and what `address_message` raises.
    """
    asking = lookup.find_task(principal, task)
    slot = questions.answered_slot(asking, key)
    if asking.state not in INTERRUPTED_STATES and not was_sent(principal.sender, asking.agent, key):
        raise Conflict(f"The task is {asking.state} and asks nothing. Send a message to its session instead.")
    data = [{"data": json_schema.answer_data(slot, given["data"])}] if "data" in given else []
    said = compose(parts_of(given.get("text", ""), [*given.get("parts", []), *data]), key=key)
    outgoing = address_message(principal, asking.context_id, said, asking.pk)
    return replace(outgoing, question_index=asking.status_event if asking.state in INTERRUPTED_STATES else None)


def run_json(run: Run) -> JSON:
    """For the task's owner; `task`, `agent` and `task.agent` should be loaded.

    Tracebacks, notes and the agent's memory are for operators only.
    """
    return RunShape.json_of(
        run,
        agent=(run.agent or run.task.agent).slug,
        agent_version=(run.input.get("agent") or {}).get("number"),
        options=run.input.get("options", {}),
        error=_error_json(run.error),
    )


def _error_json(error: JSON | None) -> JSON | None:
    """Hides details of internal errors."""
    if not error:
        return None
    is_internal = "traceback" in error or "message" not in error
    return {"code": str(error.get("code", "")), "message": AGENT_ERROR_MESSAGE if is_internal else error["message"]}


class RunError(Shape):
    code = serializers.CharField()
    message = serializers.CharField(help_text="The error, in words for people.")


@extend_schema_serializer(component_name="Run")
class RunShape(Shape):
    """One execution of a turn of a task."""

    id = serializers.UUIDField()
    task_id = serializers.UUIDField()
    session_id = serializers.UUIDField(source="task.context_id")
    agent = serializers.CharField(help_text="The slug of the agent that executes the turn.")
    agent_version = serializers.IntegerField(allow_null=True, help_text="The version of the agent that the run uses.")
    turn = serializers.IntegerField(help_text="The number of the turn. The task's first message starts turn 1.")
    attempt = serializers.IntegerField(help_text="How many times the turn has started.")
    state = serializers.ChoiceField(Run.State.choices)
    queued_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    input_hash = serializers.CharField(help_text="The SHA-256 digest of the turn's input. Empty until the run starts.")
    options = Struct(help_text="The options that the session has set for the agent.")
    usage = Struct(
        help_text="The usage of language models, with its cost where prices are known. Empty if the run called none."
    )
    error = RunError(allow_null=True)
    traceparent = serializers.CharField(help_text="The run's span (W3C Trace Context).")


class RunListing(Listing):
    session = serializers.UUIDField(required=False, help_text="Only runs of tasks in this session, by its id.")
    task = serializers.UUIDField(required=False, help_text="Only runs of this task, by its id.")
    state = serializers.ListField(child=Choice(Run.State.choices), required=False)


class Runs(Operations):
    @documented(
        "runs_list",
        "List the runs of your tasks, newest first",
        query=RunListing,
        answers=page_of(RunShape),
        refuses=[404],
    )
    def list(self, request: Request) -> Response:
        asked = self.query(RunListing)
        tasks = Task.objects.visible_to(self.principal) if "task" in asked else Task.objects.of(self.principal)
        if "session" in asked:
            tasks = lineage.tasks(find_session(self.principal, asked["session"]))
        if "task" in asked:
            tasks = tasks.filter(pk=lookup.find_task(self.principal, asked["task"]).pk)
        rows = Run.objects.select_related("agent", "task__agent").filter(task__in=tasks)
        if states := asked.get("state"):
            rows = rows.filter(state__in=states)
        return self.page(rows, ("-queued_at", "-id"), asked, lambda shown: [run_json(one) for one in shown])

    @documented("runs_retrieve", "Retrieve a run of one of your tasks", answers=RunShape)
    def retrieve(self, request: Request, run: uuid.UUID) -> Response:
        tasks = Task.objects.visible_to(self.principal)
        named = Run.objects.select_related("agent", "task__agent").filter(pk=run, task__in=tasks)
        found = named.first()
        if found is None and restore_run(self.principal, run):
            found = named.all().first()
        if found is None:
            raise NotFound("There is no such run.")
        return Response(run_json(found))


urlpatterns = [
    path("tasks", Tasks.at(get="list"), name="tasks"),
    path("tasks/<uuid:task>", Tasks.at(get="retrieve"), name="task"),
    path("tasks/<uuid:task>/cancel", Tasks.at(post="cancel"), name="cancel"),
    path("tasks/<uuid:task>/stop-after-step", Tasks.at(post="stop_after_step"), name="stop-after-step"),
    path("tasks/<uuid:task>/answer", Tasks.at(post="answer"), name="answer"),
    path("tasks/<uuid:task>/rerun", Tasks.at(post="rerun"), name="task-rerun"),
    path("tasks/<uuid:task>/feedback", Tasks.at(post="feedback"), name="feedback"),
    path("approvals", Approvals.at(get="list"), name="approvals"),
    path("approvals/<uuid:task>", Approvals.at(post="decide"), name="decide"),
    path("runs", Runs.at(get="list"), name="runs"),
    path("runs/<uuid:run>", Runs.at(get="retrieve"), name="run"),
]
