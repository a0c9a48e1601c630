"""Plans and their runs, as the schema declares them (`plans` and `plan_progress` make the values)."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from apps.agents.models import Agent
from apps.api.fields import Shape, Struct
from apps.api.shapes.declared import TaskShape
from apps.plans.models import Step
from apps.record.lifecycle import TaskState


@extend_schema_serializer(component_name="PlanVersion")
class VersionShape(Shape):
    number = serializers.IntegerField(help_text="Counts from 1.")
    note = serializers.CharField()
    sha256 = serializers.CharField(help_text="Of the definition in its canonical form (RFC 8785).")
    created_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="Plan")
class PlanShape(Shape):
    """A plan that the caller may use: an agent whose work is made of steps that agents and people do."""

    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    access = serializers.ChoiceField(Agent.Access.choices)
    version = serializers.IntegerField(allow_null=True, help_text="The number of the version that runs begin with.")
    steps = serializers.IntegerField(help_text="How many its definition has; a run may have more.")
    may_change = serializers.BooleanField(help_text="May the caller save a new version of it?")
    url = serializers.CharField(help_text="Where it is started by A2A.")
    updated_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="WholePlan")
class WholePlanShape(PlanShape):
    """A plan with a definition of its: the current one, or that of the version that was asked for."""

    shown_version = serializers.IntegerField(allow_null=True, help_text="The version that `definition` is of.")
    definition = Struct(allow_null=True, help_text="See /plans/schema. Null where it cannot be read any more.")
    yaml = serializers.CharField(help_text="The same, as people write it.")
    inputs = Struct(help_text="The JSON Schema of what it is started with.")
    versions = VersionShape(many=True, help_text="The newest first, at most 100.")


@extend_schema_serializer(component_name="PlanProblem")
class ProblemShape(Shape):
    path = serializers.CharField(help_text="Where in the definition, such as `steps.review.agent`; `file`: all of it.")
    message = serializers.CharField()


@extend_schema_serializer(component_name="CheckedPlan")
class CheckedShape(Shape):
    """What is wrong with a definition. Nothing was saved."""

    is_valid = serializers.BooleanField()  # type: ignore[assignment]
    problems = ProblemShape(many=True)
    definition = Struct(allow_null=True, help_text="As it was read, without what goes without saying; null: not.")


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


@extend_schema_serializer(component_name="TaskPlan")
class PlaceShape(Shape):
    """The place of a task in a plan: the run that it is, or the step of a run that it is done for."""

    run_id = serializers.UUIDField()
    plan = serializers.CharField()
    step = StepShape(allow_null=True, help_text="Null for the task that is the run itself.")
