"""The plans that a caller may use, their runs, what waits for them, and the step of a plan that a task belongs to."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Func, IntegerField, Q, QuerySet

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.plans.definitions import PlanDefinition
from apps.plans.models import PlanRun, Step
from apps.record import cold
from apps.record.models import Task


class StepCount(Func):
    """How many steps the definition in a JSON column states, counted where it is."""

    template = "(SELECT COUNT(*) FROM json_each(%(expressions)s, '$.steps'))"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **options: Any) -> Any:
        template = "(SELECT COUNT(*) FROM jsonb_path_query(%(expressions)s, '$.steps[*]'))"
        return self.as_sql(compiler, connection, template=template, **options)


def sized[T: Agent](plans: QuerySet[T]) -> QuerySet[T]:
    """The plans for a list: each with its `size`, in steps, while their definitions stay in the database."""
    counted: QuerySet[T] = plans.annotate(size=StepCount("current_version__content"))  # type: ignore[assignment]
    return counted.defer("current_version__content")


def plans(principal: Principal) -> QuerySet[Agent]:
    """The plans that somebody may use."""
    found = Agent.objects.visible_to(principal).filter(kind=Agent.Kind.PLAN)
    return found.select_related("current_version", "workspace")


def runs(principal: Principal) -> QuerySet[Task]:
    """The tasks of plans that are somebody's."""
    tasks = Task.objects.visible_to(principal).filter(agent__kind=Agent.Kind.PLAN).select_related("agent")
    return tasks.defer("status_message", "slot", "metadata")


def task_of_run(principal: Principal, key: uuid.UUID) -> Task | None:
    """A run of somebody's as a task, with its agent and its context; also before a worker has taken it up."""
    found = cold.find_task(principal, key, "agent__current_version", "context")
    return found if found and found.agent.kind == Agent.Kind.PLAN else None


def step_of(principal: Principal, task: uuid.UUID) -> Step | None:
    """The step that a task was made for, of the run that it was made by."""
    steps = Step.objects.visible_to(principal).filter(Q(task=task) | Q(consulted=task))
    return steps.select_related("run__task__agent").order_by("run__created_at").first()


def questions(principal: Principal) -> QuerySet[Step]:
    """Steps of somebody's runs that ask them something, not those that an agent is answering."""
    asking = Step.objects.visible_to(principal).filter(state=Step.State.ASKING, run__in=PlanRun.objects.going_on())
    return asking.exclude(phase=Step.Phase.ANSWERING).select_related("run__task__agent", "task", "consulted")


def definition_of(plan: Agent) -> PlanDefinition | None:
    """None where it has none that can be read any more."""
    if plan.current_version is None:
        return None
    try:
        return PlanDefinition.read(plan.current_version.content)
    except ValidationError:
        return None
