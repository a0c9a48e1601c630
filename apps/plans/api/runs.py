"""Plan runs: start, pause, resume, cancel, rerun; progress and questions."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from django.db.models import Count, Q
from django.http import HttpResponse
from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agentkit.content.messages import is_file
from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal
from apps.accounts.requests import quotas
from apps.api.framework.resources import ResourceViewSet
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Listing, Query, Shape, Struct, page_of
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON, TaskShape, artifact_key, parts_json, question_json
from apps.conversations.api.messages import parts_field
from apps.conversations.api.tasks import tasks_json
from apps.engine.accept import Receipt
from apps.engine.send import chosen_version, wait_until_settled
from apps.limits import current as limits
from apps.plans import person, registry
from apps.plans.api.plans import PICTURE, picture
from apps.plans.graphs import plan_at
from apps.plans.models import PlanRun, Step
from apps.plans.pictures import gantt_svg, graph_svg
from apps.plans.progress import Progress, run_gantt, run_graph, shown_task, waiting_reasons
from apps.plans.running import runs
from apps.record.content.composing import check_taken
from apps.record.content.parts import MAX_TEXT, words_of
from apps.record.errors import InvalidFields
from apps.record.models import Artifact, Task, TaskState
from apps.record.reading import lookup
from parley import db

NEWEST_FIRST = ("-created_at", "-id")
OLDEST_FIRST = ("asked_at", "id")
NO_FILE = "Must be a file: raw, url or uploadId. Use `text` for text and `inputs` for values."
STARTING = {"plan": "short-story", "inputs": {"topic": "a lighthouse"}}


class RunListing(Listing):
    plan = serializers.SlugField(required=False, max_length=63, help_text="Only runs of this plan, by its slug.")
    state = serializers.ListField(child=Choice(TaskState.choices), required=False)


class QuestionListing(Listing):
    run = serializers.UUIDField(required=False, help_text="Only questions of this run, by its id.")


class StartPlan(Body):
    plan = Line(max_length=63, help_text="The slug of the plan.")
    inputs = Struct(required=False, help_text="The inputs. They must match the JSON Schema in the plan's `inputs`.")
    text = serializers.CharField(
        required=False, max_length=MAX_TEXT, allow_blank=True, help_text="A text that the plan uses as `inputs.text`."
    )
    files = parts_field()
    wait = serializers.BooleanField(
        default=False, help_text="Whether to respond only after the run has ended or asks a question."
    )


class RunPlanAgain(Body):
    step = Line(
        required=False,
        max_length=63,
        help_text="The key of the step from which to run again. By default the first step that is not done.",
    )
    version = serializers.IntegerField(
        required=False, min_value=1, help_text="The number of the plan's version. By default the current one."
    )


class PictureQuery(Query):
    kind = Choice([("graph", "the steps and their dependencies"), ("time", "the steps over time")], default="graph")


@extend_schema_serializer(component_name="PlanRun")
class PlanRunShape(Shape):
    """One execution of a plan. A run is a task of the plan's agent. It has the id and the state of that task."""

    id = serializers.UUIDField(source="pk")
    plan = serializers.CharField(source="task.agent.slug", help_text="The slug of the plan.")
    plan_version = serializers.IntegerField(
        source="version_number",
        allow_null=True,
        help_text="The number of the plan's version. Null until the run starts.",
    )
    session_id = serializers.UUIDField(source="task.context_id")
    state = serializers.ChoiceField(TaskState.choices, source="task.state")
    is_paused = serializers.BooleanField(
        help_text="Whether the run is paused. While it is paused, no further steps start."
    )
    steps_done = serializers.IntegerField(help_text="The number of steps that are done or skipped.")
    steps_total = serializers.IntegerField(
        help_text="The number of steps so far. It grows when the run learns the length of a list."
    )
    created_at = serializers.DateTimeField(source="task.created_at")
    updated_at = serializers.DateTimeField(
        source="task.status_at", help_text="When the run's current state was recorded."
    )
    began_at = serializers.DateTimeField(
        allow_null=True, help_text="When the run started. Null until its inputs are complete."
    )
    finished_at = serializers.DateTimeField(
        source="ended_at",
        allow_null=True,
        help_text="When the run ended. Tasks that it started may end a moment later.",
    )
    continues_run = serializers.UUIDField(
        source="continues_id", allow_null=True, help_text="The id of the earlier run whose results this run keeps."
    )
    continues_from = serializers.CharField(
        source="begun_at_step", help_text="The key of the step from which the plan ran again."
    )


@extend_schema_serializer(component_name="PlanReason")
class ReasonShape(Shape):
    """Why a step does not continue on its own."""

    title = serializers.CharField(help_text="The title of the step.")
    message = serializers.CharField(source="sentence", help_text="The reason, in words for people.")
    task_id = serializers.UUIDField(source="task.pk", allow_null=True)
    is_yours = serializers.BooleanField(source="waits_for_reader", help_text="Whether the step waits for you.")


@extend_schema_serializer(component_name="PlanStep")
class StepShape(Shape):
    """A step of a run. A fan-out has one for each element. A repetition has one for each round."""

    key = serializers.CharField(help_text="The step's key in the definition.")
    title = serializers.CharField()
    item = serializers.IntegerField(allow_null=True, help_text="The index of the element in a fan-out, starting at 0.")
    round = serializers.IntegerField(help_text="The round of a repetition, starting at 1.")
    attempt = serializers.IntegerField(help_text="How many times the step has started.")
    state = serializers.ChoiceField(Step.State.choices)
    phase = serializers.ChoiceField(Step.Phase.choices)
    agent = serializers.CharField(help_text="The slug of the step's agent. Empty until the agent is known.")
    depends_on = serializers.ListField(
        child=serializers.CharField(), help_text="The keys of the steps on which this step depends."
    )
    task_id = serializers.UUIDField(allow_null=True, help_text="The id of the task of the newest attempt.")
    session_id = serializers.UUIDField(
        source="task.context_id", allow_null=True, help_text="The id of the session of that task."
    )
    consulted_task_id = serializers.UUIDField(
        source="consulted_id",
        allow_null=True,
        help_text="The id of the task in which a person or an agent is asked about the step.",
    )
    artifacts = serializers.ListField(
        child=serializers.CharField(), help_text="The ids of the artifacts that the step delivered."
    )
    why = serializers.CharField(help_text="Why the step failed or was skipped.")
    is_kept = serializers.BooleanField(help_text="Whether the result comes from an earlier run.")
    started_at = serializers.DateTimeField(allow_null=True)
    asked_at = serializers.DateTimeField(allow_null=True, help_text="When the step asked its question.")
    ended_at = serializers.DateTimeField(allow_null=True)


@extend_schema_serializer(component_name="WholePlanRun")
class WholeRunShape(PlanRunShape):
    """A run with its steps and the reasons why it waits."""

    task = TaskShape()
    inputs = Struct(help_text="The run's inputs, including default values. Empty until the run starts.")
    reasons = ReasonShape(many=True, help_text="Why steps wait. Those that wait for you come first. At most 50.")
    steps = StepShape(many=True, help_text="The steps, in the order of the definition.")

    def to_representation(self, run: PlanRun) -> JSON:
        return whole_run_json(run)


@extend_schema_serializer(component_name="StartedPlanRun")
class StartedShape(Shape):
    run = WholeRunShape()
    repeated = serializers.BooleanField(
        help_text="Whether an earlier request had the same `Idempotency-Key`. If so, nothing started again."
    )


STARTED = {200: StartedShape, 201: StartedShape}


class PlanRuns(ResourceViewSet):
    resource = runs.PLAN_RUNS
    operations, title, usual = "plans_runs", "a plan run with its steps", ("list", "create", "retrieve")
    shape = WholeRunShape
    refuses = {act.name: [409] for act in runs.PLAN_RUNS.acts}

    def find(self, **key: uuid.UUID) -> PlanRun:
        return runs.find_run(self.principal, key["run"])

    @documented(
        "plans_runs_list",
        "List your plan runs, newest first",
        query=RunListing,
        answers={200: page_of(PlanRunShape)},
    )
    def list(self, request: Request) -> Response:
        asked = self.query(RunListing)
        rows = runs.visible_runs(self.principal)
        if "plan" in asked:
            rows = rows.filter(agent__slug=asked["plan"])
        if asked.get("state"):
            rows = rows.filter(state__in=asked["state"])
        return self.page(rows, NEWEST_FIRST, asked, runs_json)

    @documented(
        "plans_runs_create",
        "Start a plan run",
        body=StartPlan,
        answers=STARTED,
        refuses=[404, 409],
        keyed=True,
        examples=[OpenApiExample("With an input", STARTING, request_only=True)],
    )
    async def create(self, request: Request) -> Response:
        """Missing or invalid inputs and agents that you may not use are refused, with an error for each path.

        A repeated request with the same `Idempotency-Key` returns the same run with status 200.
        """
        asked, key = await db.run(self.body, StartPlan), self.idempotency_key
        await db.run(quotas.count_act, self.principal)
        with ExitStack() as meanwhile:
            if asked["wait"]:
                meanwhile.callback(limits.open_stream(self.principal, self.address))
            receipt = await db.run(_start, self.principal, asked, key, self.traceparent)
            if asked["wait"]:
                await wait_until_settled(receipt.context, receipt.task, receipt.index, lambda task: task.pk)
        return await db.run(self.started, receipt)

    @documented(
        "plans_runs_again",
        "Run a plan again from a step of an earlier run",
        body=RunPlanAgain,
        answers=STARTED,
        refuses=[409],
        keyed=True,
    )
    def again(self, request: Request, run: uuid.UUID) -> Response:
        """This starts a new run of the plan, by default of its current version. The new run keeps results that depend
        neither on that step nor on a step that was not done.
        """
        asked, key = self.body(RunPlanAgain), self.idempotency_key
        quotas.count_act(self.principal)
        earlier = self.find(run=run)
        version = chosen_version(self.principal, earlier.task.agent, asked.get("version"))
        return self.started(runs.rerun(self.principal, earlier, asked.get("step", ""), key=key, version=version))

    def started(self, receipt: Receipt) -> Response:
        told = whole_run_json(runs.find_run(self.principal, receipt.task))
        return Response({"run": told, "repeated": receipt.repeated}, status=200 if receipt.repeated else 201)

    @documented("plans_runs_picture", "Draw a plan run", query=PictureQuery, answers=PICTURE)
    def picture(self, request: Request, run: uuid.UUID) -> HttpResponse:
        """The response is a self-contained SVG image. It shows the state of each step, or which agent worked on it
        and when.
        """
        asked, found, now = self.query(PictureQuery), self.find(run=run), timezone.now()
        if not found.has_begun:
            raise NotFound("The run has not begun yet, so there is no picture of it.")
        progress = Progress.of(found)
        return picture(
            gantt_svg(run_gantt(progress, now, is_over=found.task.is_finished))
            if asked["kind"] == "time"
            else graph_svg(run_graph(progress, now))
        )


@extend_schema_serializer(component_name="PlanQuestion")
class PlanQuestionShape(Shape):
    """A question that a step asks you. Answer it with `POST /tasks/{taskId}/answer`."""

    run_id = serializers.UUIDField()
    plan = serializers.CharField(source="run.task.agent.slug")
    step = serializers.CharField(source="key", help_text="The key of the step.")
    title = serializers.CharField()
    item = serializers.IntegerField(allow_null=True)
    phase = serializers.ChoiceField(Step.Phase.choices)
    task_id = serializers.UUIDField(help_text="The id of the task that asks.")
    session_id = serializers.UUIDField()
    asked_at = serializers.DateTimeField(allow_null=True)
    content = serializers.CharField(help_text="The text of the question.")
    parts = serializers.ListField(child=Struct())
    question = Struct(allow_null=True, help_text="What the task waits for: a name, and possibly a JSON Schema.")


class Questions(Endpoint):
    @documented(
        "plans_questions",
        "List the questions of your plan runs, oldest first",
        query=QuestionListing,
        answers={200: page_of(PlanQuestionShape)},
        refuses=[404],
    )
    def get(self, request: Request) -> Response:
        """The list has questions of steps. A question of the run itself before it starts, such as missing inputs,
        is the `question` of the run's task.
        """
        asked = self.query(QuestionListing)
        rows = person.steps_asking(self.principal).filter(asked_at__isnull=False)
        if "run" in asked:
            rows = rows.filter(run=runs.find_run(self.principal, asked["run"]))
        return self.page(rows, OLDEST_FIRST, asked, questions_json)


@extend_schema_serializer(component_name="TaskPlan")
class PlaceShape(Shape):
    """The plan run to which a task belongs. The task is either the run itself or works on one of its steps."""

    run_id = serializers.UUIDField()
    plan = serializers.CharField()
    step = StepShape(allow_null=True, help_text="The step on which the task works. Null if the task is the run itself.")


class OfTask(Endpoint):
    @documented("tasks_plan", "Retrieve the plan run and step of a task", answers={200: PlaceShape})
    def get(self, request: Request, task: uuid.UUID) -> Response:
        """The task is either a plan run or works on a step of one. For any other task the response is 404."""
        found = lookup.find_task(self.principal, task)
        step = runs.step_of_task(self.principal, task) if found.parent_id else None
        if step is not None:
            [told] = steps_json(step.run, [step])
            return Response({"runId": str(step.run_id), "plan": step.run.task.agent.slug, "step": told})
        runs.find_run(self.principal, task)
        return Response({"runId": str(task), "plan": found.agent.slug, "step": None})


def _start(principal: Principal, asked: JSON, key: str, traceparent: str) -> Receipt:
    """Raises NotFound, InvalidFields, Refusal; then nothing was stored."""
    plan, files = registry.find_plan(principal, asked["plan"]), asked.get("files", [])
    if others := [(f"files[{place}]", NO_FILE) for place, part in enumerate(files) if not is_file(part)]:
        raise InvalidFields(others)
    check_taken(plan, files)
    known: JSON = {"text": asked.get("text", ""), "files": files, "traceparent": traceparent}
    return runs.start_run(principal, plan, asked.get("inputs", {}), key=key, **known)


RUN = "plans/runs/<uuid:run>"
urlpatterns = [
    path("plans/runs", PlanRuns.at(get="list", post="create"), name="plan-runs"),
    path("plans/questions", Questions.as_view(), name="plan-questions"),
    path(RUN, PlanRuns.at(get="retrieve"), name="plan-run"),
    *(
        path(f"{RUN}/{act.name}", PlanRuns.at(post=f"act_{act.name}"), name=f"plan-{act.name}")
        for act in runs.PLAN_RUNS.acts
    ),
    path(f"{RUN}/again", PlanRuns.at(post="again"), name="plan-again"),
    path(f"{RUN}/picture", PlanRuns.at(get="picture"), name="plan-run-picture"),
    path("tasks/<uuid:task>/plan", OfTask.as_view(), name="task-plan"),
]


MAX_REASONS = 50


def runs_json(tasks: Sequence[Task]) -> list[JSON]:
    """From tasks with agents and runs loaded. One query."""
    total, open_ones = Count("pk", filter=Q(round=1)), Count("pk", filter=~Q(state__in=Step.SETTLED))
    of_runs = Step.objects.filter(run__in=[task.pk for task in tasks]).order_by()
    counted = of_runs.values_list("run").annotate(total=total, left=open_ones)
    counts = {run: {"steps_done": number - left, "steps_total": number} for run, number, left in counted}
    none = {"steps_done": 0, "steps_total": 0}
    return [PlanRunShape.json_of(PlanRun.of(task), **counts.get(task.pk, none)) for task in tasks]


def whole_run_json(run: PlanRun) -> JSON:
    """From a run with its task and agent loaded. A fixed number of queries."""
    [told], task = runs_json([run.task]), run.task
    told |= {"task": tasks_json([task])[0], "inputs": {}, "reasons": [], "steps": []}
    if not run.has_begun:
        return told
    progress = Progress.of(run)
    waits = [] if task.is_finished else waiting_reasons(progress)[:MAX_REASONS]
    return told | {
        "inputs": run.inputs | {"files": parts_json(run.inputs.get("files", []), task.context_id)},
        "reasons": ReasonShape.list_of(waits),
        "steps": steps_json(run, progress.steps),
    }


def steps_json(run: PlanRun, steps: Iterable[Step]) -> list[JSON]:
    """From steps with tasks loaded. One query."""
    plan, made = plan_at(run.version_id), _delivered(run)
    return [
        StepShape.json_of(
            step,
            title=plan.title_of(step.key),
            item=_item(step),
            depends_on=sorted(plan.needs[step.key]),
            artifacts=made[step.task_id] if step.task_id else [],
            is_kept=step.reused_id is not None,
        )
        for step in steps
    ]


def _delivered(run: PlanRun) -> dict[uuid.UUID, list[str]]:
    """Artifact ids by task."""
    rows = Artifact.objects.delivered().filter(task__in=Step.objects.filter(run=run).values("task"))
    found: dict[uuid.UUID, list[str]] = defaultdict(list)
    for row in rows.order_by("first_event").only("task_id", "artifact_id"):
        found[row.task_id].append(artifact_key(row))
    return found


def questions_json(steps: Sequence[Step]) -> list[JSON]:
    """From steps with runs and tasks loaded (`person.steps_asking`)."""
    return [_question_json(step, task) for step in steps if (task := shown_task(step))]


def _question_json(step: Step, task: Task) -> JSON:
    parts = (task.status_message or {}).get("parts", [])
    return PlanQuestionShape.json_of(
        step,
        title=plan_at(step.run.version_id).title_of(step.key),
        item=_item(step),
        task_id=task.pk,
        session_id=task.context_id,
        content=words_of(parts),
        parts=parts_json(parts, task.context_id),
        question=question_json(task.slot) if task.slot else None,
    )


def _item(step: Step) -> int | None:
    return step.item if step.item >= 0 else None
