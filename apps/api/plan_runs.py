"""Runs of plans: started, looked at, held back, stopped and run again; how far each is, and what its steps ask."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from django.db.models import Count, Q
from django.http import HttpResponse
from django.urls import path
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from agentkit.messages import is_file
from apps.accounts import quotas
from apps.accounts.principals import Principal
from apps.api.framework import pagination
from apps.api.framework.problems import Conflict, NotFound
from apps.api.framework.schema import FILE_ANSWERS, documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, Query, Shape, Struct, page_of
from apps.api.framework.views import Endpoint
from apps.api.messages import MAX_TEXT, check_media_types, idempotency_key_errors, parts_field
from apps.api.plans import find_plan, picture
from apps.api.shapes import JSON, TaskShape, artifact_key, optional_timestamp, parts_json, question_json, timestamp
from apps.api.tasks import find_task, tasks_json
from apps.engine.accept import Receipt
from apps.engine.cancel import cancel_task
from apps.engine.send import wait_until_settled
from apps.plans import person, runs
from apps.plans.graphs import plan_at
from apps.plans.models import PlanRun, Step
from apps.plans.pictures import gantt_svg, graph_svg
from apps.plans.progress import Progress, run_gantt, run_graph, shown_task, waiting_reasons
from apps.record.content.parts import words_of
from apps.record.errors import InvalidFields
from apps.record.models import Artifact, Task, TaskState
from console.drawing import svg

NEWEST_FIRST = ("-created_at", "-id")
OLDEST_FIRST = ("asked_at", "id")
NO_FILE = "Must be a file, by raw, url or uploadId. Words are `text`, values are `inputs`."
NO_RUN = "There is no such run of a plan."
STARTING = {"plan": "short-story", "inputs": {"topic": "a lighthouse"}}


class RunListing(Listing):
    plan = serializers.SlugField(required=False, max_length=63, help_text="The slug of a plan.")
    state = serializers.ListField(child=Choice(TaskState.choices), required=False)


class QuestionListing(Listing):
    run = serializers.UUIDField(required=False, help_text="The id of a run.")


class StartPlan(Body):
    plan = Line(max_length=63, help_text="The slug of the plan.")
    inputs = Struct(required=False, help_text="By the schema that the plan names as its `inputs`.")
    text = serializers.CharField(
        required=False, max_length=MAX_TEXT, allow_blank=True, help_text="What the plan knows as `inputs.text`."
    )
    files = parts_field()
    wait = serializers.BooleanField(default=False, help_text="Answer when the run has ended or asks something.")


class RunPlanAgain(Body):
    step = Line(
        required=False,
        max_length=63,
        help_text="The key of the step from which on it is done anew; without it the first that was not done.",
    )


class PictureQuery(Query):
    kind = Choice([("graph", "what depends on what"), ("time", "who worked when")], default="graph")


@extend_schema_serializer(component_name="PlanRun")
class PlanRunShape(Shape):
    """One execution of a plan. It is a task of the plan's agent: its id is that task's, and so is its state."""

    id = serializers.UUIDField()
    plan = serializers.CharField(help_text="The slug of the plan.")
    plan_version = serializers.IntegerField(allow_null=True, help_text="Null until it begins.")
    session_id = serializers.UUIDField()
    state = serializers.ChoiceField(TaskState.choices)
    is_paused = serializers.BooleanField(help_text="No further steps begin until it is resumed.")
    steps_done = serializers.IntegerField(help_text="Done or skipped.")
    steps_total = serializers.IntegerField(help_text="That there are by now; lists that become known make more.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(help_text="When its state was recorded.")
    began_at = serializers.DateTimeField(allow_null=True, help_text="Null while its inputs are not complete.")
    finished_at = serializers.DateTimeField(
        allow_null=True, help_text="When it ended; what it had called for may end a moment later."
    )
    continues_run = serializers.UUIDField(allow_null=True, help_text="The earlier run whose results it keeps.")
    continues_from = serializers.CharField(help_text="The key of the step from which on it was done again.")


@extend_schema_serializer(component_name="PlanReason")
class ReasonShape(Shape):
    """Why a step does not go on by itself just now."""

    title = serializers.CharField(help_text="Of the step.")
    message = serializers.CharField(help_text="For people.")
    task_id = serializers.UUIDField(allow_null=True)
    is_yours = serializers.BooleanField(help_text="It waits for you.")


@extend_schema_serializer(component_name="PlanStep")
class StepShape(Shape):
    """A step of a run; of a fan-out one for each element, of a repetition one for each round."""

    key = serializers.CharField(help_text="Its name in the definition.")
    title = serializers.CharField()
    item = serializers.IntegerField(allow_null=True, help_text="Which element of a fan-out, from 0.")
    round = serializers.IntegerField(help_text="Of a repetition, from 1.")
    attempt = serializers.IntegerField(help_text="How often it was begun.")
    state = serializers.ChoiceField(Step.State.choices)
    phase = serializers.ChoiceField(Step.Phase.choices)
    agent = serializers.CharField(help_text="The slug of who does it; empty until that is known.")
    depends_on = serializers.ListField(child=serializers.CharField(), help_text="Keys of the steps that it waits for.")
    task_id = serializers.UUIDField(allow_null=True, help_text="Of its newest attempt.")
    session_id = serializers.UUIDField(allow_null=True, help_text="Where that task is.")
    consulted_task_id = serializers.UUIDField(allow_null=True, help_text="Of whoever is asked about the step.")
    artifacts = serializers.ListField(child=serializers.CharField(), help_text="Ids of what it delivered.")
    why = serializers.CharField(help_text="Why it failed, or was skipped.")
    is_kept = serializers.BooleanField(help_text="Its result is that of an earlier run.")
    started_at = serializers.DateTimeField(allow_null=True)
    asked_at = serializers.DateTimeField(allow_null=True, help_text="Since when it asks something.")
    ended_at = serializers.DateTimeField(allow_null=True)


@extend_schema_serializer(component_name="WholePlanRun")
class WholeRunShape(PlanRunShape):
    """A run with its steps, and why it waits."""

    task = TaskShape()
    inputs = Struct(help_text="With defaults; empty until it begins.")
    reasons = ReasonShape(many=True, help_text="Those that wait for you first, at most 50.")
    steps = StepShape(many=True, help_text="In the order of the definition.")


@extend_schema_serializer(component_name="StartedPlanRun")
class StartedShape(Shape):
    run = WholeRunShape()
    repeated = serializers.BooleanField(help_text="Started before under the same key: nothing was begun anew.")


class Runs(Endpoint):
    @documented(
        "plans_runs_list",
        "Your runs of plans, the newest first",
        query=RunListing,
        answers={200: page_of(PlanRunShape)},
    )
    def get(self, request: Request) -> Response:
        asked = self.query(RunListing)
        rows, bound = runs.visible_runs(self.principal), [str(asked.get(name)) for name in ("plan", "state")]
        if "plan" in asked:
            rows = rows.filter(agent__slug=asked["plan"])
        if asked.get("state"):
            rows = rows.filter(state__in=asked["state"])
        shown, following = pagination.paginate(rows, NEWEST_FIRST, asked, self.principal, "plan-runs", *bound)
        return Response({"items": runs_json(shown), "nextCursor": following})

    @documented(
        "plans_runs_create",
        "Start a plan",
        body=StartPlan,
        answers={200: StartedShape, 201: StartedShape},
        refuses=[404, 409],
        keyed=True,
        examples=[OpenApiExample("With an input", STARTING, request_only=True)],
    )
    async def post(self, request: Request) -> Response:
        """Inputs that are missing or cannot be, and agents that you may not use, are refused, each by its path.

        The same Idempotency-Key gives the same run again; status 200 says that it was there.
        """
        asked, key = await db.run(self.body, StartPlan), self.idempotency_key
        quotas.count_act(self.principal)
        with ExitStack() as meanwhile:
            if asked["wait"]:
                meanwhile.callback(quotas.open_stream(self.principal, self.address))
            receipt = await db.run(_start, self.principal, asked, key, self.traceparent)
            if asked["wait"]:
                await wait_until_settled(receipt.context, receipt.task, receipt.index, lambda task: task.pk)
        told = await db.run(_find_run_json, self.principal, receipt.task)
        status = 200 if receipt.repeated else 201
        return Response({"run": told, "repeated": receipt.repeated}, status=status)


class OneRun(Endpoint):
    @documented("plans_runs_retrieve", "One of your runs, with its steps", answers={200: WholeRunShape}, refuses=[404])
    def get(self, request: Request, run: uuid.UUID) -> Response:
        return Response(_find_run_json(self.principal, run))


class Pause(Endpoint):
    @documented("plans_runs_pause", "Hold a run back", answers={200: WholeRunShape}, refuses=[404, 409])
    def post(self, request: Request, run: uuid.UUID) -> Response:
        """No further step begins; what is being worked at goes on."""
        runs.pause_run(_unfinished_run(self.principal, run))
        return Response(_find_run_json(self.principal, run))


class Resume(Endpoint):
    @documented(
        "plans_runs_resume", "Let a run go on that was held back", answers={200: WholeRunShape}, refuses=[404, 409]
    )
    def post(self, request: Request, run: uuid.UUID) -> Response:
        runs.resume_run(_unfinished_run(self.principal, run))
        return Response(_find_run_json(self.principal, run))


class Cancel(Endpoint):
    @documented(
        "plans_runs_cancel", "Stop a run, and all that it called for", answers={200: WholeRunShape}, refuses=[404, 409]
    )
    def post(self, request: Request, run: uuid.UUID) -> Response:
        """A run that is canceled stays so; one that has ended otherwise cannot be."""
        cancel_task(find_run(self.principal, run))
        return Response(_find_run_json(self.principal, run))


class RunAgain(Endpoint):
    @documented(
        "plans_runs_again",
        "Run a plan again from a step of an earlier run",
        body=RunPlanAgain,
        answers={200: StartedShape, 201: StartedShape},
        refuses=[404, 409],
        keyed=True,
    )
    async def post(self, request: Request, run: uuid.UUID) -> Response:
        """A new run of the plan as it is now. It keeps what needs neither that step nor one that was not done."""
        asked, key = await db.run(self.body, RunPlanAgain), self.idempotency_key
        quotas.count_act(self.principal)
        earlier = await db.run(_begun_run, self.principal, run)
        step = str(asked.get("step") or await db.run(runs.first_unfinished_step, earlier))
        with idempotency_key_errors():
            sent = await runs.rerun_async(self.principal, earlier, step, key=key)
        told = await db.run(_find_run_json, self.principal, sent.task)
        return Response({"run": told, "repeated": sent.repeated}, status=200 if sent.repeated else 201)


class RunPicture(Endpoint):
    @documented(
        "plans_runs_picture",
        "A run as a picture",
        query=PictureQuery,
        answers={**FILE_ANSWERS, (200, svg.MEDIA_TYPE): OpenApiTypes.BINARY},
        refuses=[404],
    )
    def get(self, request: Request, run: uuid.UUID) -> HttpResponse:
        """SVG that needs nothing else: how far each step is, or who worked at it when."""
        asked, task = self.query(PictureQuery), find_run(self.principal, run)
        begun = PlanRun.objects.select_related("version").filter(pk=task.pk).first()
        if begun is None:
            raise NotFound("The run has not begun yet, so there is no picture of it.")
        progress, now = Progress.of(begun), timezone.now()
        if asked["kind"] == "time":
            drawn = run_gantt(progress, now, is_over=task.is_finished)
            return picture(gantt_svg(drawn))
        return picture(graph_svg(run_graph(progress, now)))


@extend_schema_serializer(component_name="PlanQuestion")
class PlanQuestionShape(Shape):
    """What a step asks you. `POST /tasks/{taskId}/answer` answers it."""

    run_id = serializers.UUIDField()
    plan = serializers.CharField()
    step = serializers.CharField(help_text="The key of the step.")
    title = serializers.CharField()
    item = serializers.IntegerField(allow_null=True)
    phase = serializers.ChoiceField(Step.Phase.choices)
    task_id = serializers.UUIDField(help_text="The task that asks.")
    session_id = serializers.UUIDField()
    asked_at = serializers.DateTimeField(allow_null=True)
    content = serializers.CharField(help_text="What it asks, in words.")
    parts = serializers.ListField(child=Struct())
    question = Struct(allow_null=True, help_text="What it waits for: a name, and perhaps a JSON Schema.")


class Questions(Endpoint):
    @documented(
        "plans_questions",
        "What steps of your runs ask you, the oldest first",
        query=QuestionListing,
        answers={200: page_of(PlanQuestionShape)},
        refuses=[404],
    )
    def get(self, request: Request) -> Response:
        """What the run itself asks before it begins, such as inputs, is the `question` of its task."""
        asked = self.query(QuestionListing)
        rows = person.steps_asking(self.principal).filter(asked_at__isnull=False)
        if "run" in asked:
            rows = rows.filter(run=find_run(self.principal, asked["run"]).pk)
        shown, following = pagination.paginate(
            rows, OLDEST_FIRST, asked, self.principal, "questions", str(asked.get("run"))
        )
        return Response({"items": questions_json(shown), "nextCursor": following})


@extend_schema_serializer(component_name="TaskPlan")
class PlaceShape(Shape):
    """The place of a task in a plan: the run that it is, or the step of a run that it is done for."""

    run_id = serializers.UUIDField()
    plan = serializers.CharField()
    step = StepShape(allow_null=True, help_text="Null for the task that is the run itself.")


class OfTask(Endpoint):
    @documented("tasks_plan", "The place of a task in a plan", answers={200: PlaceShape}, refuses=[404])
    def get(self, request: Request, task: uuid.UUID) -> Response:
        """The run that it is, or the step of a run that it is done for; not found where it is neither."""
        found = find_task(self.principal, task)
        step = runs.step_of_task(self.principal, task) if found.parent_id else None
        if step is not None:
            [told] = steps_json(step.run, [step])
            return Response({"runId": str(step.run_id), "plan": step.run.task.agent.slug, "step": told})
        if runs.task_of_run(self.principal, task) is None:
            raise NotFound("The task belongs to no plan.")
        return Response({"runId": str(task), "plan": found.agent.slug, "step": None})


def find_run(principal: Principal, run: uuid.UUID) -> Task:
    """The task of a run of the caller's. Raises NotFound."""
    found = runs.task_of_run(principal, run)
    if found is None:
        raise NotFound(NO_RUN)
    return found


def _find_run_json(principal: Principal, run: uuid.UUID) -> JSON:
    return whole_run_json(find_run(principal, run))


def _begun_run(principal: Principal, run: uuid.UUID) -> PlanRun:
    """Raises NotFound, Conflict."""
    begun = PlanRun.objects.select_related("task").filter(pk=find_run(principal, run).pk).first()
    if begun is None:
        raise Conflict("The run has not begun yet. Cancel it, or wait.")
    return begun


def _unfinished_run(principal: Principal, run: uuid.UUID) -> PlanRun:
    """Raises NotFound, Conflict."""
    begun = _begun_run(principal, run)
    if begun.task.is_finished:
        raise Conflict(f"The run is {begun.task.state} and does not go on. Run it again.")
    return begun


def _start(principal: Principal, asked: JSON, key: str, traceparent: str) -> Receipt:
    """Raises NotFound, InvalidFields, errors.Refusal; then nothing was stored."""
    plan, files = find_plan(principal, asked["plan"]), asked.get("files", [])
    if others := [(f"files[{place}]", NO_FILE) for place, part in enumerate(files) if not is_file(part)]:
        raise InvalidFields(others)
    check_media_types(plan, files)
    known: JSON = {"text": asked.get("text", ""), "files": files, "traceparent": traceparent}
    try:
        with idempotency_key_errors():
            return runs.start_run(principal, plan, asked.get("inputs", {}), key=key, **known)
    except runs.InvalidStart as unfit:
        raise InvalidFields(unfit.problems) from None


urlpatterns = [
    path("plans/runs", Runs.as_view(), name="plan-runs"),
    path("plans/questions", Questions.as_view(), name="plan-questions"),
    path("plans/runs/<uuid:run>", OneRun.as_view(), name="plan-run"),
    path("plans/runs/<uuid:run>/pause", Pause.as_view(), name="plan-pause"),
    path("plans/runs/<uuid:run>/resume", Resume.as_view(), name="plan-resume"),
    path("plans/runs/<uuid:run>/cancel", Cancel.as_view(), name="plan-cancel"),
    path("plans/runs/<uuid:run>/again", RunAgain.as_view(), name="plan-again"),
    path("plans/runs/<uuid:run>/picture", RunPicture.as_view(), name="plan-run-picture"),
    path("tasks/<uuid:task>/plan", OfTask.as_view(), name="task-plan"),
]


MAX_REASONS = 50


def runs_json(tasks: Sequence[Task]) -> list[JSON]:
    """Runs by their tasks, whose agents should be loaded. Two queries."""
    keys = [task.pk for task in tasks]
    begun = PlanRun.objects.select_related("version").defer("inputs", "version__content").in_bulk(keys)
    total, open_ones = Count("pk", filter=Q(round=1)), Count("pk", filter=~Q(state__in=Step.SETTLED))
    counted = Step.objects.filter(run__in=keys).order_by().values_list("run").annotate(total=total, left=open_ones)
    counts = {run: (number, number - left) for run, number, left in counted}
    return [_run_json(task, begun.get(task.pk), *counts.get(task.pk, (0, 0))) for task in tasks]


def _run_json(task: Task, run: PlanRun | None, total: int, done: int) -> JSON:
    return {
        "id": str(task.pk),
        "plan": task.agent.slug,
        "planVersion": run.version.number if run else None,
        "sessionId": str(task.context_id),
        "state": str(task.state),
        "isPaused": run is not None and run.paused_at is not None and not task.is_finished,
        "stepsDone": done,
        "stepsTotal": total,
        "createdAt": timestamp(task.created_at),
        "updatedAt": timestamp(task.status_at),
        "beganAt": timestamp(run.created_at) if run else None,
        "finishedAt": timestamp(task.status_at) if task.is_finished else None,
        "continuesRun": _optional_id(run.continues_id) if run else None,
        "continuesFrom": run.begun_at_step if run else "",
    }


def whole_run_json(task: Task) -> JSON:
    """One run; its task should have its agent loaded. A fixed number of queries, however many steps there are."""
    [told] = runs_json([task])
    told |= {"task": tasks_json([task])[0], "inputs": {}, "reasons": [], "steps": []}
    run = PlanRun.objects.select_related("version").filter(pk=task.pk).first()
    if run is None:
        return told
    progress = Progress.of(run)
    waits = [] if task.is_finished else waiting_reasons(progress)[:MAX_REASONS]
    return told | {
        "inputs": run.inputs | {"files": parts_json(run.inputs.get("files", []), task.context_id)},
        "reasons": [
            {
                "title": one.title,
                "message": one.sentence,
                "taskId": _optional_id(one.task.pk) if one.task else None,
                "isYours": one.waits_for_reader,
            }
            for one in waits
        ],
        "steps": steps_json(run, progress.steps),
    }


def steps_json(run: PlanRun, steps: Iterable[Step]) -> list[JSON]:
    """Steps of a run, with their tasks loaded. One query."""
    plan, made = plan_at(run.version_id), _delivered(run)
    return [
        {
            "key": step.key,
            "title": plan.title_of(step.key),
            "item": _item(step),
            "round": step.round,
            "attempt": step.attempt,
            "state": step.state,
            "phase": step.phase,
            "agent": step.agent,
            "dependsOn": sorted(plan.needs[step.key]),
            "taskId": _optional_id(step.task_id),
            "sessionId": str(step.task.context_id) if step.task else None,
            "consultedTaskId": _optional_id(step.consulted_id),
            "artifacts": made[step.task_id] if step.task_id else [],
            "why": step.why,
            "isKept": step.reused_id is not None,
            "startedAt": optional_timestamp(step.started_at),
            "askedAt": optional_timestamp(step.asked_at),
            "endedAt": optional_timestamp(step.ended_at),
        }
        for step in steps
    ]


def _delivered(run: PlanRun) -> dict[uuid.UUID, list[str]]:
    """The ids of what the tasks of a run's steps delivered."""
    rows = Artifact.objects.delivered().filter(task__in=Step.objects.filter(run=run).values("task"))
    found: dict[uuid.UUID, list[str]] = defaultdict(list)
    for row in rows.order_by("first_event").only("task_id", "artifact_id"):
        found[row.task_id].append(artifact_key(row))
    return found


def questions_json(steps: Sequence[Step]) -> list[JSON]:
    """What steps ask; their runs and tasks should be loaded (`person.steps_asking`)."""
    return [_question_json(step, task) for step in steps if (task := shown_task(step))]


def _question_json(step: Step, task: Task) -> JSON:
    parts = (task.status_message or {}).get("parts", [])
    return {
        "runId": str(step.run_id),
        "plan": step.run.task.agent.slug,
        "step": step.key,
        "title": plan_at(step.run.version_id).title_of(step.key),
        "item": _item(step),
        "phase": step.phase,
        "taskId": str(task.pk),
        "sessionId": str(task.context_id),
        "askedAt": optional_timestamp(step.asked_at),
        "content": words_of(parts),
        "parts": parts_json(parts, task.context_id),
        "question": question_json(task.slot) if task.slot else None,
    }


def _item(step: Step) -> int | None:
    return step.item if step.item >= 0 else None


def _optional_id(key: uuid.UUID | None) -> str | None:
    return str(key) if key else None
