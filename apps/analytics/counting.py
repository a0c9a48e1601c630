"""What is counted: each source of rows, and the sums that a row adds to.

| source | topic | label | |
|---|---|---|---|
| `run` | `run.state` | `done`, `failed`, `canceled` | ended runs; tokens and cost |
| | `run.error` | the error's code | failed runs |
| | `run.time` | a bucket of `time_bucket` | from start to end; of runs that were done or failed |
| | `run.model` | the model's name | runs that called it; tokens and cost |
| | `run.workspace` | the workspace's key | of all agents together; tokens and cost |
| | `run.first` | | first turns: answers that are tasks |
| `answer` | `answer.message` | | answers without a task |
| `rating` | `rating.stars` | `1` to `5` | the newest rating of each task |

Other apps may have more (`analytics_sources`).
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, QuerySet

from apps.analytics.models import MAX_LABEL
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Event, Message
from parley.registry import added

MICRO = 1_000_000  # of the currency
UNKNOWN = "unknown"


class Amount(NamedTuple):
    """`cost` is in millionths."""

    number: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(*map(sum, zip(self, other, strict=True)))


NONE = Amount(0)
ONE = Amount()


class Entry(NamedTuple):
    """What one row adds to one sum."""

    at: datetime.datetime
    topic: str
    agent: int
    version: int
    label: str
    amount: Amount = ONE


@dataclass(frozen=True, slots=True)
class Source:
    """Rows that happened at a `moment`, an indexed column, and what they add to `topics`, which only it has."""

    name: str
    moment: str
    topics: tuple[str, ...]
    rows: Callable[[], QuerySet[Any]]
    entries: Callable[[QuerySet[Any]], Iterator[Entry]]


def sources() -> tuple[Source, ...]:
    found: tuple[Source, ...] = added["analytics_sources"]
    return found


def spent(usage: Any, number: int = 1) -> Amount:
    """The tokens and cost of a run's usage, or of one model in it."""
    usage = usage or {}
    cost = round(usage.get("cost", 0) * MICRO)
    return Amount(number, usage.get("inputTokens", 0), usage.get("outputTokens", 0), cost)


# Run times: buckets that grow by a fifth, so that a percentile is exact to a tenth.
SMALLEST = 0.01  # seconds
PER_DOUBLING = 4
LAST_BUCKET = 100  # four days


def time_bucket(seconds: float) -> str:
    if seconds <= SMALLEST:
        return "0"
    return str(min(1 + int(PER_DOUBLING * math.log2(seconds / SMALLEST)), LAST_BUCKET))


def bucket_bounds(bucket: int) -> tuple[float, float]:
    """From and to, in seconds."""
    lower = SMALLEST * 2 ** ((bucket - 1) / PER_DOUBLING) if bucket else 0.0
    return lower, SMALLEST * 2 ** (bucket / PER_DOUBLING)


def percentile(histogram: dict[int, int], share: float) -> float | None:
    """Seconds within which this share of the counted times lies, from the number in each bucket."""
    rank = share * sum(histogram.values())
    for bucket in sorted(histogram):
        if histogram[bucket] and rank <= histogram[bucket]:
            lower, upper = bucket_bounds(bucket)
            return lower + (upper - lower) * rank / histogram[bucket]
        rank -= histogram[bucket]
    return None


RUN_FIELDS = (
    "finished_at", "started_at", "state", "turn", "agent_id", "task__agent_id", "task__workspace_id",
    "input__agent__number", "error__code", "usage",
)  # fmt: skip


def _run_entries(rows: QuerySet[Any]) -> Iterator[Entry]:
    for at, started, state, turn, taken_by, agent, workspace, version, code, usage in rows.values_list(*RUN_FIELDS):
        key = (taken_by or agent, version or 0)
        amount = spent(usage)
        yield Entry(at, "run.state", *key, state, amount)
        yield Entry(at, "run.workspace", 0, 0, str(workspace), amount)
        if turn == 1:
            yield Entry(at, "run.first", *key, "")
        if state == Run.State.FAILED:
            yield Entry(at, "run.error", *key, str(code or UNKNOWN)[:MAX_LABEL])
        if started is not None and state != Run.State.CANCELED:
            yield Entry(at, "run.time", *key, time_bucket((at - started).total_seconds()))
        for model, counts in (usage or {}).get("models", {}).items():
            yield Entry(at, "run.model", *key, model[:MAX_LABEL], spent(counts))


def _answer_entries(rows: QuerySet[Any]) -> Iterator[Entry]:
    for at, agent in rows.values_list("created_at", "agent_id"):
        yield Entry(at, "answer.message", agent or 0, 0, "")


def _newest_ratings() -> QuerySet[Event]:
    # Literals: without them SQLite does not use the partial indexes of feedback.
    feedback = Event.objects.filter(type__any_of=(EventType.FEEDBACK,))
    later = feedback.filter(task=OuterRef("task"), index__gt=OuterRef("index"))
    return feedback.filter(task__isnull=False).exclude(Exists(later)).order_by()


def _rating_entries(rows: QuerySet[Any]) -> Iterator[Entry]:
    rated = rows.values_list("at", "task", "task__agent_id", "payload__rating")
    for some in itertools.batched(rated, AT_ONCE):
        runs = Run.objects.filter(task__in=[task for _, task, *_ in some]).order_by("turn")
        versions = dict(runs.values_list("task", "input__agent__number"))
        for at, task, agent, rating in some:
            yield Entry(at, "rating.stars", agent or 0, versions.get(task) or 0, str(rating))


AT_ONCE = 500
RUN_TOPICS = ("run.state", "run.error", "run.time", "run.model", "run.workspace", "run.first")
RUNS = Source("run", "finished_at", RUN_TOPICS, lambda: Run.objects.order_by(), _run_entries)
ANSWERS = Source(
    "answer",
    "created_at",
    ("answer.message",),
    lambda: Message.objects.filter(task=None, role__any_of=(Message.Role.AGENT,)).order_by(),
    _answer_entries,
)
RATINGS = Source("rating", "at", ("rating.stars",), _newest_ratings, _rating_entries)
