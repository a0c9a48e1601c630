"""Plan runs as a source of sums.

| topic | label | |
|---|---|---|
| `plan.state` | `done`, `failed`, `canceled` | ended runs; tokens and cost of their steps |
| `plan.time` | a bucket of time | from start to end, with waits for people; of runs that were done or failed |
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from apps.analytics.counting import NONE, ONE, Amount, Entry, Source, spent, time_bucket
from apps.plans.models import PlanRun
from apps.record.execution import Run
from apps.record.models import TaskState

STATES = {
    TaskState.COMPLETED: Run.State.DONE,
    TaskState.FAILED: Run.State.FAILED,
    TaskState.REJECTED: Run.State.FAILED,
    TaskState.CANCELED: Run.State.CANCELED,
}
FIELDS = ("finished_at", "pk", "created_at", "task__state", "task__agent_id", "version__number")
AT_ONCE = 500


def _entries(rows: QuerySet[Any]) -> Iterator[Entry]:
    for some in itertools.batched(rows.values_list(*FIELDS), AT_ONCE):
        costs = _spent_by_steps([key for _, key, *_ in some])
        for at, key, started, state, agent, version in some:
            ended = STATES.get(state, Run.State.DONE)  # its task may end a moment later
            yield Entry(at, "plan.state", agent, version, ended, costs[key].plus(ONE))
            if ended != Run.State.CANCELED:
                yield Entry(at, "plan.time", agent, version, time_bucket((at - started).total_seconds()))


def _spent_by_steps(keys: list[Any]) -> dict[Any, Amount]:
    """By plan run, of the newest attempt of each step."""
    costs = defaultdict[Any, Amount](lambda: NONE)
    runs = Run.objects.filter(task__plan_steps__run__in=keys).exclude(usage={}).order_by()
    for key, usage in runs.values_list("task__plan_steps__run", "usage"):
        costs[key] = costs[key].plus(spent(usage, number=0))
    return costs


PLAN_RUNS = Source("plan", "finished_at", ("plan.state", "plan.time"), lambda: PlanRun.objects.order_by(), _entries)
