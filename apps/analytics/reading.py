"""Reading the sums of a period: from stored spans, and the newest rows directly.

Days are read as days where a whole day lies in the period, so that a month is as fast as a day.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import F, Max, Min, Q, Sum
from django.db.models.functions import Mod
from django.utils import timezone

from apps.analytics.counting import NONE, Amount, Entry, sources
from apps.analytics.models import Figure, Position
from apps.analytics.rollup import DAY, HOUR, SLICE, SLICES_KEPT, between, moment_of, seconds_of

MOST_LIVE_ROWS = 20_000
"""If more happened since the periodic job, a reading ends where the sums end."""
USUALLY_LIVE = datetime.timedelta(minutes=3)
"""What the periodic job leaves."""


@dataclass(frozen=True, slots=True)
class Period:
    """From `start`, a multiple of `SLICE` (in the last day) or `HOUR`, until before `end`. Both in UTC."""

    start: datetime.datetime
    end: datetime.datetime

    @property
    def step(self) -> int:
        """Seconds between the points of a chart: 12 to 31 of them."""
        length = (self.end - self.start).total_seconds()
        steps = (SLICE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY)
        return next((step for step in steps if length / step <= 31), steps[-1])

    def points(self) -> list[int]:
        """Where each step begins, in seconds since 1970."""
        first = seconds_of(self.start) // self.step * self.step
        return list(range(first, seconds_of(self.end), self.step)) or [first]

    def spans(self, step: int = 0) -> Iterator[tuple[int, int, int]]:
        """Stored spans that make up the period: length, first and end. With `step`, all divide it."""
        begin, end = seconds_of(self.start), -(-int(self.end.timestamp()) // SLICE) * SLICE
        if step == SLICE:
            yield SLICE, begin, end
            return
        first, last = _rounded_up(begin, HOUR), _rounded_up(end, HOUR)  # nothing is stored after `end`
        first_day, last_day = _rounded_up(first, DAY), last // DAY * DAY
        if begin < first:
            yield SLICE, begin, first
        if step % DAY or first_day >= last_day:
            yield HOUR, first, last
        else:
            yield HOUR, first, first_day
            yield DAY, first_day, last_day
            yield HOUR, last_day, last

    def lies(self, step: int = 0) -> Q:
        """Figures of these spans."""
        lies = Q()
        for span, first, end in self.spans(step):
            lies |= Q(span=span, start__gte=first, start__lt=end)
        return lies


def _rounded_up(seconds: int, unit: int) -> int:
    return -(-seconds // unit) * unit


class Key(NamedTuple):
    """What a sum is of. Parts that were not asked for are 0 or empty."""

    point: int
    topic: str
    agent: int = 0
    version: int = 0
    label: str = ""


Sums = dict[Key, Amount]
Positions = dict[str, datetime.datetime]


class Reading:
    """The sums of a period at one moment. Make it with `read`.

    Attributes:
        as_of: the numbers reach so far, which is before the period's end if the periodic job does not run.
    """

    def __init__(self, period: Period, positions: Positions) -> None:
        self.period, self.as_of = period, period.end
        self._live: list[Entry] = []
        for source in sources():
            until = max(positions.get(source.name, period.start), period.start)
            if until >= period.end:
                continue
            rows = between(source, until, period.end)
            is_late = period.end - until > USUALLY_LIVE
            if is_late and rows.values("pk")[: MOST_LIVE_ROWS + 1].count() > MOST_LIVE_ROWS:
                self.as_of = min(self.as_of, until)
                continue
            self._live += source.entries(rows)

    def sums(self, *topics: str, by: Collection[str] = (), step: int = 0, agent: int | None = None) -> Sums:
        """By topic, and by what `by` names: "agent", "version", "label". With `step`, also by points that far apart."""
        columns = [name for name in ("agent", "version", "label") if name in by]
        sums = defaultdict[Key, Amount](lambda: NONE)
        for key, amount in self._stored(topics, columns, step, agent):
            sums[key] = sums[key].plus(amount)
        for entry in self._live:
            if entry.topic in topics and agent in (None, entry.agent):
                point = seconds_of(entry.at) // step * step if step else 0
                key = Key(point, entry.topic)._replace(**{name: getattr(entry, name) for name in columns})
                sums[key] = sums[key].plus(entry.amount)
        return dict(sums)

    def seen(self, topic: str, by: Collection[str]) -> dict[Key, tuple[datetime.datetime, datetime.datetime]]:
        """When each sum of the topic (without points) began and was last added to.

        To the moment since the periodic job, to five minutes in the last day, and before to the hour, or in a long
        period to the day.
        """
        columns = [name for name in ("agent", "version", "label") if name in by]
        begin, end = self.period.start, self.period.end
        sliced = moment_of(_rounded_up(seconds_of(timezone.now()) - SLICES_KEPT, HOUR))
        lies = Q(span=SLICE, start__gte=seconds_of(max(begin, sliced)), start__lt=seconds_of(end))
        if begin < sliced:
            lies |= Period(begin, min(end, sliced)).lies()
        stored: Any = Figure.objects.filter(lies, topic=topic).order_by().values_list(*columns)
        found = {
            Key(0, topic, **dict(zip(columns, row, strict=False))): (moment_of(row[-2]), moment_of(row[-1]))
            for row in stored.annotate(first=Min("start"), last=Max("start"))
        }
        for entry in self._live:
            if entry.topic == topic:
                key = Key(0, topic, **{name: getattr(entry, name) for name in columns})
                first, last = found.get(key, (entry.at, entry.at))
                found[key] = min(first, entry.at), max(last, entry.at)
        return found

    def _stored(
        self, topics: Sequence[str], columns: Sequence[str], step: int, agent: int | None
    ) -> Iterator[tuple[Key, Amount]]:
        rows: Any = Figure.objects.filter(self.period.lies(step), topic__in=topics).order_by()
        if agent is not None:
            rows = rows.filter(agent=agent)
        if step:
            rows = rows.annotate(point=F("start") - Mod(F("start"), step))
        names = ["topic", *columns, *(["point"] if step else [])]
        grouped = rows.values_list(*names).annotate(*(Sum(name) for name in Amount._fields))
        for row in grouped:
            parts = dict(zip(names, row, strict=False))
            yield Key(**{"point": 0, **parts}), Amount(*map(int, row[len(names) :]))


def read[T](period: Period, compute: Callable[[Reading], T]) -> T:
    """What `compute` makes of a reading during which the periodic job did not go on."""
    for _ in range(3):
        positions = _positions()
        found = compute(Reading(period, positions))
        if _positions() == positions:
            break
    return found


def _positions() -> Positions:
    return dict(Position.objects.values_list("source", "until"))
