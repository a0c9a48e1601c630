"""What must hold for every ended plan.

`python -m tests.plans.whole_plans TASK…` prints the number of these tasks' plans in the installation that the
environment names, and a line for each problem.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import django
from django.apps import apps
from django.db.models import QuerySet

if not apps.ready:
    django.setup()

from apps.plans.graphs import plan_at
from apps.plans.models import PlanRun, Step
from apps.record.models import Task

PATIENCE = 60


def problems(runs: QuerySet[PlanRun]) -> list[str]:
    """Problems of these plans, after the tick that follows their end."""
    until = time.monotonic() + PATIENCE
    while runs.filter(finished_at=None).exists() and time.monotonic() < until:
        time.sleep(0.05)
    return [
        f"{run.pk}: {problem}"
        for run in runs.select_related("task")
        for problem in (_of_end(run), *_of_steps(run), *_of_order(run))
        if problem
    ]


def _of_end(run: PlanRun) -> str:
    return "" if run.task.state == "completed" and run.finished_at else f"is {run.task.state}"


def _of_steps(run: PlanRun) -> list[str]:
    """Each step is done and has one completed task; the plan called no others."""
    steps = list(Step.objects.filter(run=run).select_related("task"))
    undone = [f"{step} {step.item} is {step.state}" for step in steps if step.state != Step.State.DONE]
    tasks = Counter(step.task_id for step in steps if step.task and step.task.state == "completed")
    shared = [f"{task} is the task of {number} steps" for task, number in tasks.items() if number > 1]
    without = [f"{step} {step.item} has no completed task" for step in steps if step.task_id not in tasks]
    other = set(Task.objects.filter(parent=run.pk).values_list("pk", flat=True)) - tasks.keys()
    return [*undone, *shared, *without, *(f"{task} is the task of no step" for task in other)]


def _of_order(run: PlanRun) -> list[str]:
    """A step's task begins after its dependencies have ended."""
    needs = plan_at(run.version_id).needs
    spans: dict[str, list[Task]] = {key: [] for key in needs}
    for step in Step.objects.filter(run=run, task__isnull=False).select_related("task"):
        spans[step.key].append(step.task)  # type: ignore[arg-type]
    return [
        f"{key} began before {needed} had ended"
        for key, others in needs.items()
        for needed in others
        if min(task.created_at for task in spans[key]) < max(task.status_at for task in spans[needed])
    ]


if __name__ == "__main__":
    named = PlanRun.objects.filter(pk__in=sys.argv[1:])
    print(f"{named.count()} plans", *problems(named), sep="\n")
