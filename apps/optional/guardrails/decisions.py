"""What guardrails decided: numbers and the newest for people, and how long it is kept."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count
from django.utils import timezone

from apps.accounts.principals import Principal
from apps.optional.guardrails.models import Guardrail, RailDecision
from apps.record.models import Context
from parley.db import sql

DAYS = 30  # that the numbers are of
KEPT = datetime.timedelta(days=90)
NEWEST = 20
MOST_TIMES = 5_000  # newest decisions whose times are counted


@dataclass(frozen=True, slots=True)
class Numbers:
    """Of the last DAYS. Times in milliseconds; None without a decision."""

    by_done: dict[str, int]
    p50: int | None
    p95: int | None

    @property
    def total(self) -> int:
        return sum(self.by_done.values())

    @property
    def lines(self) -> list[tuple[str, int]]:
        """What was done, in words, and how often."""
        return [(label, self.by_done[value]) for value, label in RailDecision.Done.choices if value in self.by_done]


def numbers(rail: Guardrail) -> Numbers:
    """Two queries."""
    recent = RailDecision.objects.filter(rail=rail, at__gte=timezone.now() - datetime.timedelta(days=DAYS))
    by_done = dict(recent.order_by().values_list("done").annotate(number=Count("pk")))
    times = sorted(recent.order_by("-at").values_list("ms", flat=True)[:MOST_TIMES])
    return Numbers(by_done, _percentile(times, 50), _percentile(times, 95))


def _percentile(times: Sequence[int], percent: int) -> int | None:
    """Nearest rank."""
    return times[-(-len(times) * percent // 100) - 1] if times else None


def newest(principal: Principal, rail: Guardrail) -> list[tuple[RailDecision, str | None]]:
    """The newest decisions, each with the title of its session if the caller may see that."""
    rows = list(RailDecision.objects.visible_to(principal).filter(rail=rail).order_by("-at", "-pk")[:NEWEST])
    seen = Context.objects.visible_to(principal).filter(pk__in={one.context for one in rows})
    titles = dict(seen.values_list("pk", "title"))
    return [(one, titles.get(one.context)) for one in rows]


def forget_contexts(contexts: Collection[uuid.UUID]) -> list[Any]:
    """With the sessions that are erased (`before_erasure`)."""
    RailDecision.objects.filter(context__in=contexts).delete()
    return []


def sweep() -> int:
    """Deletes decisions that are older than KEPT. Returns how many."""
    return sql.delete_in_batches(RailDecision.objects.filter(at__lt=timezone.now() - KEPT))
