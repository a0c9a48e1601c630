"""What runs of plans ask of people: each question once, by the task that asks it, where it can be answered."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from apps.accounts.principals import Principal
from apps.plans.models import PlanRun, Step
from apps.record import waiting
from apps.record.lifecycle import INTERRUPTED
from apps.record.models import Task
from apps.record.models.record import TaskQuerySet


@dataclass(frozen=True)
class Asked:
    """What somebody's runs ask.

    Attributes:
        steps: by the task that asks, the runs that its step is of: the nearest first, then what called for that.
        passing: tasks that ask only what one of these does.
    """

    steps: dict[uuid.UUID, list[uuid.UUID]] = field(default_factory=dict)
    passing: set[uuid.UUID] = field(default_factory=set)

    @classmethod
    def of(cls, principal: Principal) -> Asked:
        """One query for who has no run that goes on, otherwise a few, however much is asked."""
        runs = set(PlanRun.objects.visible_to(principal).going_on().values_list("pk", flat=True))
        if not runs:
            return cls()
        suspended = Task.objects.visible_to(principal).filter(state__in=INTERRUPTED, suspension__isnull=False)
        slots = suspended.values_list("pk", "slot")
        asks_for = {task: uuid.UUID(slot["child"]) for task, slot in slots if slot and "child" in slot}
        passing = {task for task in asks_for if not runs.isdisjoint(_way(task, asks_for))}
        asking = list(Step.objects.asking().filter(run__in=runs))
        callers = _callers({step.run_id for step in asking})
        steps = {
            step.worked_at_by: list(_way(step.run_id, callers))
            for step in asking
            if step.worked_at_by is not None and step.worked_at_by not in passing
        }
        return cls(steps, passing)


def waiting_for(principal: Principal) -> TaskQuerySet:
    """All that waits for the caller: what their sessions ask, and instead of what a plan asks what its steps do."""
    own, asked = waiting.waiting_for(principal), Asked.of(principal)
    if asked.passing:
        own = own.exclude(pk__in=asked.passing)
    if not asked.steps:
        return own
    tops = {way[-1] for way in asked.steps.values()}
    begun = Task.objects.filter(pk__in=tops, context__in=waiting.in_sight(principal))
    seen = set(begun.values_list("pk", flat=True))
    askers = [task for task, way in asked.steps.items() if way[-1] in seen]
    return own | Task.objects.visible_to(principal).filter(state__in=INTERRUPTED, pk__in=askers)


def asked_by(principal: Principal, run: PlanRun) -> TaskQuerySet:
    """What waits for the caller in a run, and in the runs that it called for."""
    askers = [task for task, way in Asked.of(principal).steps.items() if run.pk in way]
    return Task.objects.visible_to(principal).filter(state__in=INTERRUPTED, pk__in=askers)


def steps_of(principal: Principal, tasks: Iterable[Task]) -> dict[uuid.UUID, Step]:
    """The steps that ask by these tasks, with their runs, by the tasks."""
    keys = [task.pk for task in tasks if task.parent_id is not None]
    if not keys:
        return {}
    asking = Step.objects.visible_to(principal).asking().select_related("run__task__agent", "run__task__context")
    found = [*asking.filter(task__in=keys), *asking.filter(consulted__in=keys)]
    return {step.worked_at_by: step for step in found if step.worked_at_by is not None}


def _way(task: uuid.UUID, leads_to: Mapping[uuid.UUID, uuid.UUID | None]) -> Iterator[uuid.UUID]:
    """A task, and those that it leads to; no task leads back to itself."""
    at: uuid.UUID | None = task
    while at is not None:
        yield at
        at = leads_to.get(at)


def _callers(tasks: set[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID | None]:
    """By task, the one that called for it, all the way up."""
    found: dict[uuid.UUID, uuid.UUID | None] = {}
    while tasks:
        above = dict(Task.objects.filter(pk__in=tasks).values_list("pk", "parent"))
        found |= above
        tasks = {parent for parent in above.values() if parent is not None} - found.keys()
    return found
