"""Runs of plans: started, looked at, held back, stopped and run again; and what they ask."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import Any

from django.http import HttpResponse
from django.urls import path
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import db
from agentkit.parts import is_file
from apps.accounts import quotas
from apps.accounts.principals import Principal
from apps.api import pages
from apps.api.fields import Body, Choice, Line, Listing, Query, Struct, page_of
from apps.api.idempotency import key_of
from apps.api.parts import MOST_WORDS, parts_field
from apps.api.plan_progress import questions_json, runs_json, steps_json, whole_run_json
from apps.api.plan_shapes import PlaceShape, PlanQuestionShape, PlanRunShape, StartedShape, WholeRunShape
from apps.api.plans import find as find_plan
from apps.api.plans import picture
from apps.api.problems import Conflict, InvalidFields, NotFound
from apps.api.schema import A_FILE, documented
from apps.api.sending import called_by_its_key, check_taken
from apps.api.tasks import find as find_task
from apps.api.views import Endpoint
from apps.engine.accept import Receipt
from apps.engine.canceling import cancel_found
from apps.engine.send import settled
from apps.plans import controls, depicting, finding, starting
from apps.plans.depicting import Progress
from apps.plans.models import PlanRun
from apps.plans.pictures import drawing
from apps.record.lifecycle import TaskState
from apps.record.models import Task

JSON = dict[str, Any]
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
        required=False, max_length=MOST_WORDS, allow_blank=True, help_text="What the plan knows as `inputs.text`."
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


class Runs(Endpoint):
    @documented(
        "plans_runs_list",
        "Your runs of plans, the newest first",
        query=RunListing,
        answers={200: page_of(PlanRunShape)},
    )
    def get(self, request: Request) -> Response:
        asked = self.query(RunListing)
        rows, bound = finding.runs(self.principal), [str(asked.get(name)) for name in ("plan", "state")]
        if "plan" in asked:
            rows = rows.filter(agent__slug=asked["plan"])
        if asked.get("state"):
            rows = rows.filter(state__in=asked["state"])
        shown, following = pages.page(rows, NEWEST_FIRST, asked, self.principal, "plan-runs", *bound)
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
        asked, key = await db.run(self.body, StartPlan), key_of(request)
        quotas.count_act(self.principal)
        with ExitStack() as meanwhile:
            if asked["wait"]:
                meanwhile.callback(quotas.open_stream(self.principal, self.address))
            receipt = await db.run(_started, self.principal, asked, key, self.span)
            if asked["wait"]:
                await settled(receipt.context, receipt.task, receipt.index, lambda task: task.pk)
        told = await db.run(_told, self.principal, receipt.task)
        status = 200 if receipt.repeated else 201
        return Response({"run": told, "repeated": receipt.repeated}, status=status)


class OneRun(Endpoint):
    @documented("plans_runs_retrieve", "One of your runs, with its steps", answers={200: WholeRunShape}, refuses=[404])
    def get(self, request: Request, run: uuid.UUID) -> Response:
        return Response(_told(self.principal, run))


class Pause(Endpoint):
    @documented("plans_runs_pause", "Hold a run back", answers={200: WholeRunShape}, refuses=[404, 409])
    def post(self, request: Request, run: uuid.UUID) -> Response:
        """No further step begins; what is being worked at goes on."""
        controls.pause(_going_on(self.principal, run))
        return Response(_told(self.principal, run))


class Resume(Endpoint):
    @documented(
        "plans_runs_resume", "Let a run go on that was held back", answers={200: WholeRunShape}, refuses=[404, 409]
    )
    def post(self, request: Request, run: uuid.UUID) -> Response:
        controls.resume(_going_on(self.principal, run))
        return Response(_told(self.principal, run))


class Cancel(Endpoint):
    @documented(
        "plans_runs_cancel", "Stop a run, and all that it called for", answers={200: WholeRunShape}, refuses=[404, 409]
    )
    def post(self, request: Request, run: uuid.UUID) -> Response:
        """A run that is canceled stays so; one that has ended otherwise cannot be."""
        cancel_found(find(self.principal, run))
        return Response(_told(self.principal, run))


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
        asked, key = await db.run(self.body, RunPlanAgain), key_of(request)
        quotas.count_act(self.principal)
        earlier = await db.run(_begun, self.principal, run)
        step = str(asked.get("step") or await db.run(controls.first_to_do_again, earlier))
        with called_by_its_key():
            sent = await controls.run_again(self.principal, earlier, step, key=key)
        told = await db.run(_told, self.principal, sent.task)
        return Response({"run": told, "repeated": sent.repeated}, status=200 if sent.repeated else 201)


class RunPicture(Endpoint):
    @documented(
        "plans_runs_picture",
        "A run as a picture",
        query=PictureQuery,
        answers={**A_FILE, (200, drawing.MEDIA_TYPE): OpenApiTypes.BINARY},
        refuses=[404],
    )
    def get(self, request: Request, run: uuid.UUID) -> HttpResponse:
        """SVG that needs nothing else: how far each step is, or who worked at it when."""
        asked, task = self.query(PictureQuery), find(self.principal, run)
        begun = PlanRun.objects.select_related("version").filter(pk=task.pk).first()
        if begun is None:
            raise NotFound("The run has not begun yet, so there is no picture of it.")
        progress, now = Progress.of(begun), timezone.now()
        if asked["kind"] == "time":
            drawn = depicting.in_time(progress, now, drawing.nowhere, is_over=task.is_finished)
            return picture(drawing.gantt(drawn))
        return picture(drawing.graph(depicting.of_run(progress, now, drawing.nowhere)))


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
        rows = finding.questions(self.principal).filter(asked_at__isnull=False)
        if "run" in asked:
            rows = rows.filter(run=find(self.principal, asked["run"]).pk)
        shown, following = pages.page(rows, OLDEST_FIRST, asked, self.principal, "questions", str(asked.get("run")))
        return Response({"items": questions_json(shown), "nextCursor": following})


class OfTask(Endpoint):
    @documented("tasks_plan", "The place of a task in a plan", answers={200: PlaceShape}, refuses=[404])
    def get(self, request: Request, task: uuid.UUID) -> Response:
        """The run that it is, or the step of a run that it is done for; not found where it is neither."""
        found = find_task(self.principal, task)
        step = finding.step_of(self.principal, task) if found.parent_id else None
        if step is not None:
            [told] = steps_json(step.run, [step])
            return Response({"runId": str(step.run_id), "plan": step.run.task.agent.slug, "step": told})
        if finding.task_of_run(self.principal, task) is None:
            raise NotFound("The task belongs to no plan.")
        return Response({"runId": str(task), "plan": found.agent.slug, "step": None})


def find(principal: Principal, run: uuid.UUID) -> Task:
    """The task of a run of the caller's. Raises NotFound."""
    found = finding.task_of_run(principal, run)
    if found is None:
        raise NotFound(NO_RUN)
    return found


def _told(principal: Principal, run: uuid.UUID) -> JSON:
    return whole_run_json(find(principal, run))


def _begun(principal: Principal, run: uuid.UUID) -> PlanRun:
    """Raises NotFound, Conflict."""
    begun = PlanRun.objects.select_related("task").filter(pk=find(principal, run).pk).first()
    if begun is None:
        raise Conflict("The run has not begun yet. Cancel it, or wait.")
    return begun


def _going_on(principal: Principal, run: uuid.UUID) -> PlanRun:
    """Raises NotFound, Conflict."""
    begun = _begun(principal, run)
    if begun.task.is_finished:
        raise Conflict(f"The run is {begun.task.state} and does not go on. Run it again.")
    return begun


def _started(principal: Principal, asked: JSON, key: str, span: str) -> Receipt:
    """Raises NotFound, InvalidFields, errors.Refusal; then nothing was stored."""
    plan, files = find_plan(principal, asked["plan"]), asked.get("files", [])
    if others := [(f"files[{place}]", NO_FILE) for place, part in enumerate(files) if not is_file(part)]:
        raise InvalidFields(others)
    check_taken(plan, files)
    known: JSON = {"text": asked.get("text", ""), "files": files, "traceparent": span}
    try:
        with called_by_its_key():
            return starting.start(principal, plan, asked.get("inputs", {}), key=key, **known)
    except starting.Unfit as unfit:
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
