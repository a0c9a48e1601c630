"""What people and operators are told of how a remote agent did: uptime, latency, the last error.

Both uptimes are sums over rows of an hour each, 744 at most for an agent, however often it is checked.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from django.db.models import Q, Sum
from django.utils import timezone

from apps.agents.models import Agent
from apps.remote.models import Breaker, CheckedHour, Checkup
from apps.remote.models.checks import Result

DAY = datetime.timedelta(days=1)
MONTH = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Uptime:
    """Shares of rounds of checks that succeeded, from 0 to 1, and what else is known; None where nothing is."""

    day: float | None = None  # the newest 24 hours, to which the current one counts
    month: float | None = None  # 30 days
    median_ms: int | None = None  # of the newest checks that succeeded
    newest: list[Result] = field(default_factory=list)  # see `Checkup.newest`
    checked_at: datetime.datetime | None = None
    last_error: str = ""
    last_error_at: datetime.datetime | None = None
    breaker: Breaker | None = None  # None where no call ever failed

    @property
    def state_of_calls(self) -> Breaker.State:
        return self.breaker.state if self.breaker else Breaker.State.CLOSED

    @property
    def day_percent(self) -> str:
        return percent(self.day)

    @property
    def month_percent(self) -> str:
        return percent(self.month)


def percent(share: float | None) -> str:
    """A share for people; what is not whole is never rounded up to it."""
    if share is None:
        return "–"
    return "100 %" if share == 1 else f"{math.floor(share * 1000) / 10:.1f} %"


def of(agent: Agent) -> Uptime:
    """Of one agent; three statements."""
    return of_all([agent])[agent.pk]


def of_all(agents: Collection[Agent]) -> dict[int, Uptime]:
    """Of several, by their keys; three statements for all of them."""
    keys = [agent.pk for agent in agents]
    checkups = Checkup.objects.in_bulk(keys)
    breakers = Breaker.objects.in_bulk(keys)
    shares = _shares(keys)
    return {key: _uptime(checkups.get(key), breakers.get(key), *shares.get(key, (None, None))) for key in keys}


def median_of(newest: list[Result]) -> int | None:
    """The median of the rounds that succeeded, in milliseconds."""
    took = [result for result in newest if result is not None]
    return round(median(took)) if took else None


def _shares(keys: list[int]) -> dict[int, tuple[float | None, float | None]]:
    now = timezone.now()
    today = Q(hour__gt=now - DAY)
    hours: Any = CheckedHour.objects.filter(agent__in=keys, hour__gt=now - MONTH).values("agent").order_by()
    sums = hours.annotate(
        rounds_of_a_month=Sum("rounds"), failed_of_a_month=Sum("failed"),
        rounds_of_a_day=Sum("rounds", filter=today), failed_of_a_day=Sum("failed", filter=today),
    )  # fmt: skip
    return {
        row["agent"]: (
            _share(row["rounds_of_a_day"], row["failed_of_a_day"]),
            _share(row["rounds_of_a_month"], row["failed_of_a_month"]),
        )
        for row in sums
    }


def _share(rounds: int | None, failed: int | None) -> float | None:
    return 1 - (failed or 0) / rounds if rounds else None


def _uptime(checkup: Checkup | None, breaker: Breaker | None, day: float | None, month: float | None) -> Uptime:
    if checkup is None:
        return Uptime(day, month, breaker=breaker)
    return Uptime(
        day, month, median_of(checkup.newest), checkup.newest,
        checkup.checked_at, checkup.last_error, checkup.last_error_at, breaker,
    )  # fmt: skip
