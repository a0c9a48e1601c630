"""The sweep: runs whose wake-up was lost, whose steps are overdue, or that nobody came to tell how far they are."""

from __future__ import annotations

import datetime

from django.conf import settings
from django.db.models import Exists, OuterRef, Q

from apps.conversations.lifecycle import TERMINAL, TaskState
from apps.orchestration import concluding
from apps.orchestration.models import PlanRun, Step
from apps.orchestration.waking import wake
from bridge import statements

AT_ONCE = 500


def sweep() -> int:
    """Name runs that are due to the workers, and say how many. It is safe to run it anywhere, at any time, twice."""
    now = statements.database_time()
    long_ago = now - datetime.timedelta(seconds=settings.SWEEP_SECONDS)
    moving = Step.objects.filter(run__finished_at=None, state__in=(Step.State.RUNNING, Step.State.ASKING))
    is_lost = Q(phase=Step.Phase.WORK, task=None) | ~Q(phase=Step.Phase.WORK) & Q(consulted=None)
    moving.filter(is_lost).update(state=Step.State.ENDED)  # its conversation was deleted
    steps = Step.objects.filter(run=OuterRef("pk"))
    to_do = steps.filter(
        Q(state__in=(Step.State.ENDED, Step.State.FAILED)) | Q(state=Step.State.STARTING, due_at__lt=now)
    )
    at_rest = ~Exists(steps.filter(state__in=Step.ACTIVE))
    is_done = ~Exists(steps.open())
    overdue = steps.filter(state=Step.State.RUNNING, due_at__lt=now)
    unheard = Q(advanced_at=None) | Q(advanced_at__lt=long_ago)
    asks = Exists(steps.filter(state=Step.State.ASKING)) & Q(task__state=TaskState.WORKING)
    is_to_be_begun = Q(advanced_at=None) | Q(paused_at=None) & at_rest
    due = unheard & (Exists(to_do) | asks | is_to_be_begun | is_done | Q(task__state__in=TERMINAL))
    behind = Q(told=concluding.TO_BE_TOLD, told_at__lt=now - concluding.AT_MOST_EVERY)
    found = PlanRun.objects.going_on().filter(due | Exists(overdue) | behind).order_by("advanced_at")
    runs = list(found.values_list("pk", flat=True)[:AT_ONCE])
    for run in runs:
        wake(run)
    return len(runs)
