"""The sweep: runs whose wake-up was lost, whose steps are overdue, or that nobody came to tell how far they are."""

from __future__ import annotations

import datetime
from collections.abc import Collection

from django.conf import settings
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from apps.plans import concluding
from apps.plans.models import PlanRun, Step
from apps.plans.waking import wake
from apps.record.lifecycle import INTERRUPTED, TERMINAL, TaskState
from db import statements

State, Phase = Step.State, Step.Phase
AT_ONCE = 500


def sweep() -> int:
    """Name runs that are due to the workers, and say how many. It is safe to run it anywhere, at any time, twice."""
    now = statements.database_time()
    long_ago = now - datetime.timedelta(seconds=settings.SWEEP_SECONDS)
    _mark_what_moved_unheard()
    steps = Step.objects.filter(run=OuterRef("pk"))
    to_do = steps.filter(Q(state__in=(State.ENDED, State.FAILED)) | Q(state=State.STARTING, due_at__lt=now))
    at_rest = ~Exists(steps.filter(state__in=Step.ACTIVE))
    is_done = ~Exists(steps.open())
    overdue = steps.filter(state=State.RUNNING, due_at__lt=now)
    unheard = Q(advanced_at=None) | Q(advanced_at__lt=long_ago)
    asks = Exists(steps.filter(state=State.ASKING)) & Q(task__state=TaskState.WORKING)
    is_to_be_begun = Q(advanced_at=None) | Q(paused_at=None) & at_rest
    due = unheard & (Exists(to_do) | asks | is_to_be_begun | is_done | Q(task__state__in=TERMINAL))
    behind = Q(told=concluding.TO_BE_TOLD, told_at__lt=now - concluding.AT_MOST_EVERY)
    found = PlanRun.objects.going_on().filter(due | Exists(overdue) | behind).order_by("advanced_at")
    runs = list(found.values_list("pk", flat=True)[:AT_ONCE])
    for run in runs:
        wake(run)
    return len(runs)


def _mark_what_moved_unheard() -> None:
    """Steps whose tasks moved while they were given another phase, and those whose conversations were deleted."""
    moving = Step.objects.filter(run__finished_at=None, state__in=(State.RUNNING, State.ASKING))
    is_lost = Q(phase=Phase.WORK, task=None) | ~Q(phase=Phase.WORK) & Q(consulted=None)
    moving.filter(is_lost | _whose_task_is(TERMINAL)).update(state=State.ENDED)
    asks = moving.filter(_whose_task_is(INTERRUPTED), state=State.RUNNING).exclude(phase=Phase.ANSWERING)
    asks.update(state=State.ASKING, asked_at=Now())
    goes_on = moving.filter(_whose_task_is([TaskState.WORKING]), state=State.ASKING)
    goes_on.update(state=State.RUNNING, asked_at=None)


def _whose_task_is(states: Collection[TaskState]) -> Q:
    consulted = ~Q(phase=Phase.WORK) & Q(consulted__state__in=states)
    return Q(phase=Phase.WORK, task__state__in=states) | consulted
