"""Keeping the sums: by each source's position in time, and by checks for what changed before it.

`catch_up` adds what happened since the position, in one transaction with the position, so that a repeated or
interrupted job adds nothing twice. What happened in the last GRACE is left for later, because open transactions may
still bring it. `check` compares each hour's rows with what was counted, and counts an hour again that differs: rows
came late, were deleted, archived or restored.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db.models import Count, F, Sum
from django.db.models.functions import Coalesce

from apps.analytics import sql
from apps.analytics.counting import NONE, Amount, Entry, Source, sources
from apps.analytics.models import CountedHour, Figure, Position
from parley.db.sql import database_time, write_transaction

SLICE, HOUR, DAY = 300, 3_600, 86_400  # seconds: the spans of sums
SPANS = (SLICE, HOUR, DAY)
SLICES_KEPT = 26 * HOUR  # for a range of an hour; older ones are made of hours
GRACE = datetime.timedelta(seconds=60)
BATCH = 2_000  # rows of one transaction, during which SQLite has no other writer
ROUNDS = 100  # batches of one job; the next goes on
CHECKED_ROWS = 100_000  # of one job, besides the newest hours
NEWEST_HOURS = 2
Fingerprint = tuple[int, int]  # rows and seconds, as in `CountedHour`


def keep_up() -> None:
    """What the periodic job does."""
    for source in sources():
        for _ in range(ROUNDS):
            if not catch_up(source):
                break
        check(source)
    oldest = seconds_of(database_time()) - SLICES_KEPT
    topics = [topic for source in sources() for topic in source.topics]
    Figure.objects.filter(span=SLICE, topic__in=topics, start__lt=oldest).delete()


def rebuild() -> int:
    """Make all sums again; returns the number of rows that were counted."""
    for source in sources():
        with write_transaction():
            Position.objects.filter(source=source.name).delete()
            CountedHour.objects.filter(source=source.name).delete()
            Figure.objects.filter(topic__in=source.topics).delete()
        while catch_up(source):
            pass
    return int(CountedHour.objects.aggregate(all=Coalesce(Sum("rows"), 0))["all"])


def catch_up(source: Source) -> bool:
    """Count the next batch. Whether there may be more."""
    limit = database_time() - GRACE
    position = _position(source)
    if position is None or position.until >= limit:
        return False
    later = between(source, position.until, limit)
    beyond = later.order_by(source.moment).values_list(source.moment, flat=True)[BATCH : BATCH + 1].first()
    # More than a batch at one moment: one microsecond on, so that it ends.
    until = limit if beyond is None else max(beyond, position.until + datetime.timedelta(microseconds=1))
    with write_transaction():
        if not Position.objects.filter(source=source.name, until=position.until).update(until=until):
            return True  # another process counted it
        rows = between(source, position.until, until)
        sql.add(sums_of(source.entries(rows), _spans_at(seconds_of(until))))
        _count_hours(source, rows)
    return beyond is not None


def _position(source: Source) -> Position | None:
    """None if there are no rows yet. The first position is the hour of the first row."""
    if position := Position.objects.filter(source=source.name).first():
        return position
    first = source.rows().filter(**{f"{source.moment}__isnull": False}).order_by(source.moment)
    moment = first.values_list(source.moment, flat=True).first()
    if moment is None:
        return None
    start = seconds_of(moment) // HOUR * HOUR
    return Position.objects.get_or_create(source=source.name, defaults={"until": moment_of(start), "checked": start})[0]


def sums_of(entries: Iterable[Entry], spans: Iterable[int]) -> dict[sql.Key, Amount]:
    spans, sums = tuple(spans), defaultdict[sql.Key, Amount](lambda: NONE)
    for at, topic, agent, version, label, amount in entries:
        second = seconds_of(at)
        for span in spans:
            key = (span, topic, second // span * span, agent, version, label)
            sums[key] = sums[key].plus(amount)
    return sums


def _count_hours(source: Source, rows: Any) -> None:
    """Note what was just added."""
    for start, (count, seconds) in _fingerprints(source, rows).items():
        values = {"rows": F("rows") + count, "seconds": F("seconds") + seconds}
        if not CountedHour.objects.filter(source=source.name, start=start).update(**values):
            CountedHour.objects.create(source=source.name, start=start, rows=count, seconds=seconds)


def _fingerprints(source: Source, rows: Any) -> dict[int, Fingerprint]:
    """By hour. From the index alone."""
    by_hour = rows.annotate(hour=sql.HourOf(F(source.moment))).order_by().values_list("hour")
    counted = by_hour.annotate(count=Count("*"), seconds=Sum(sql.SecondOfHour(F(source.moment))))
    return {hour: (count, seconds) for hour, count, seconds in counted}


def check(source: Source) -> int:
    """Check the newest hours, and of the others the next; returns how many were counted again."""
    position = Position.objects.filter(source=source.name).first()
    if position is None:
        return 0
    end = seconds_of(position.until) // HOUR * HOUR + HOUR
    newest = end - NEWEST_HOURS * HOUR
    reached = _end_of_check(source, position.checked, newest)
    changed = _changed_hours(source, position.checked, reached) | _changed_hours(source, newest, end)
    for start in sorted(changed):
        count_again(source, start)
    # After the last hour from the beginning of time: restored rows may be older than all that were counted.
    Position.objects.filter(source=source.name).update(checked=0 if reached >= newest else reached)
    return len(changed)


def _end_of_check(source: Source, begin: int, newest: int) -> int:
    rows = 0
    hours = CountedHour.objects.filter(source=source.name, start__gte=begin, start__lt=newest).order_by("start")
    for start, count in hours.values_list("start", "rows").iterator():
        rows += count
        if rows >= CHECKED_ROWS:
            return int(start) + HOUR
    return newest


def _changed_hours(source: Source, begin: int, end: int) -> set[int]:
    known = CountedHour.objects.filter(source=source.name, start__gte=begin, start__lt=end)
    counted: dict[int, Fingerprint] = {
        start: (rows, seconds) for start, *(rows, seconds) in known.values_list(*HOUR_FIELDS)
    }
    until = min(moment_of(end), Position.objects.get(source=source.name).until)
    found = _fingerprints(source, between(source, moment_of(begin), until))
    return {start for start in counted.keys() | found.keys() if counted.get(start) != found.get(start)}


HOUR_FIELDS = ("start", "rows", "seconds")


def count_again(source: Source, start: int) -> None:
    """Count one hour again, as far as the position reaches."""
    with write_transaction():
        position = Position.objects.select_for_update().get(source=source.name)
        rows = between(source, moment_of(start), min(moment_of(start + HOUR), position.until))
        within = {"topic__in": source.topics, "start__gte": start, "start__lt": start + HOUR}
        Figure.objects.filter(span__in=(SLICE, HOUR), **within).delete()
        CountedHour.objects.filter(source=source.name, start=start).delete()
        sql.add(sums_of(source.entries(rows), _spans_at(start)[:-1]))
        _count_hours(source, rows)
        day = start // DAY * DAY
        Figure.objects.filter(span=DAY, topic__in=source.topics, start=day).delete()
        sql.add_up(source.topics, day, day + DAY, part=HOUR, span=DAY)


def _spans_at(second: int) -> tuple[int, ...]:
    """Slices are kept for a while only."""
    is_recent = second >= seconds_of(database_time()) - SLICES_KEPT
    return SPANS if is_recent else SPANS[1:]


def between(source: Source, begin: datetime.datetime, end: datetime.datetime) -> Any:
    """The source's rows from `begin` until before `end`."""
    return source.rows().filter(**{f"{source.moment}__gte": begin, f"{source.moment}__lt": end})


def seconds_of(moment: datetime.datetime) -> int:
    """Since 1970."""
    return int(moment.timestamp() // 1)


def moment_of(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
