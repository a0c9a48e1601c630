"""The sums behind the dashboard are what the rows add up to, whatever happens to the rows."""

from __future__ import annotations

import datetime
import random

import pytest
from django.core.management import call_command
from django.utils import timezone

from apps.analytics import rollup
from apps.analytics.counting import RUNS, percentile, time_bucket
from apps.analytics.models import CountedHour, Figure, Position
from apps.analytics.reading import Period, read
from apps.record.execution import Run
from apps.record.models import Context, Event
from tests.analytics import worlds
from tests.analytics.worlds import HOUR, ago, counted_by_sums, counted_directly, hour_of, make_run, random_run, rate
from tests.emptying import remove

pytestmark = [pytest.mark.django_db, pytest.mark.services("dates and conflicts are each database's own")]


@pytest.fixture
def chance():
    return random.Random(7)


@pytest.fixture
def rows(chance, ada, bob, echo, countdown, monkeypatch):
    """Of three days and the last minutes, in batches that are smaller than an hour."""
    monkeypatch.setattr(rollup, "BATCH", 7)
    made = [random_run(chance, [ada, bob], [echo, countdown], ago(hours=chance.uniform(0, 75))) for _ in range(45)]
    made += [random_run(chance, [ada], [echo], ago(seconds=chance.uniform(1, 200))) for _ in range(10)]
    for number, run in enumerate(made[::9]):
        worlds.make_answer(run, run.finished_at)
        rate(run, 5 if number % 3 else 1, run.finished_at)
    return made


def assert_sums_are_right() -> None:
    now = timezone.now()
    hour = hour_of(now)
    slice_ = now - datetime.timedelta(minutes=now.minute % 5, seconds=now.second, microseconds=now.microsecond)
    for begin, end in (
        (slice_ - datetime.timedelta(minutes=55), now),
        (hour - 23 * HOUR, now),
        (hour - 100 * HOUR, now),
        (hour - 50 * HOUR, hour - 3 * HOUR),
        (hour - 2 * HOUR, hour - HOUR),
    ):
        assert counted_by_sums(begin, end) == counted_directly(begin, end)


def delete(runs: list[Run]) -> None:
    """With their sessions, as people do."""
    contexts = Context.objects.filter(pk__in=[run.task.context_id for run in runs])
    remove(Event.objects.filter(context__in=contexts))
    contexts.delete()


def test_they_equal_the_rows_at_all_times(rows):
    assert_sums_are_right()
    assert rollup.catch_up(RUNS)
    for _ in range(2):
        assert_sums_are_right()
        rollup.keep_up()
    assert_sums_are_right()
    assert Position.objects.get(source="run").until < ago(seconds=59)
    oldest = Figure.objects.filter(span=rollup.SLICE).order_by("start")[0]
    assert rollup.moment_of(oldest.start) > ago(hours=27), "five minutes are kept for a day only"


def test_late_deleted_and_rerated_rows_count(rows, chance, ada, echo):
    rollup.keep_up()
    for hours in (30, 30, 5, 500):
        random_run(chance, [ada], [echo], ago(hours=hours))
    delete(rows[:12])
    rate(rows[18], 3, ago(minutes=3), index=6)
    rollup.keep_up()
    rollup.keep_up()  # the next job checks from the beginning of time
    assert_sums_are_right()
    far = (hour_of(ago(hours=501)), hour_of(ago(hours=499)))
    assert counted_by_sums(*far) == counted_directly(*far) != {}


def test_a_rebuild_mends_wrong_sums(rows, capsys):
    rollup.keep_up()
    Figure.objects.filter(topic="run.state").update(number=1_000)
    call_command("rebuild_analytics")
    assert_sums_are_right()
    assert f"{sum(CountedHour.objects.values_list('rows', flat=True))} rows" in capsys.readouterr().out


def test_overtaken_jobs_add_nothing(rows, monkeypatch):
    rollup.catch_up(RUNS)
    stale = Position.objects.get(source="run")
    rollup.keep_up()
    monkeypatch.setattr(rollup, "_position", lambda source: stale)
    rollup.catch_up(RUNS)
    monkeypatch.undo()
    assert_sums_are_right()


def test_many_rows_at_one_moment_count_once(ada, echo, monkeypatch):
    monkeypatch.setattr(rollup, "BATCH", 3)
    at = hour_of(ago(hours=5))
    for _ in range(8):
        make_run(ada, echo, at)
    rollup.keep_up()
    assert counted_by_sums(at, at + HOUR) == counted_directly(at, at + HOUR)


@pytest.mark.parametrize("step", [300, 86_400])
def test_the_points_of_a_chart_add_up(rows, step):
    rollup.keep_up()
    begin, end = hour_of(ago(hours=23 if step == 300 else 80)), timezone.now()
    amounts = read(Period(begin, end), lambda reading: reading.sums("run.state", step=step))
    assert sum(one.number for one in amounts.values()) == Run.objects.filter(finished_at__range=(begin, end)).count()
    assert all(key.point % step == 0 for key in amounts)


def test_a_percentile_is_exact_to_a_fifth():
    for seconds in (0.02, 0.4, 3.0, 59.0, 4_000.0):
        bucket = int(time_bucket(seconds))
        assert percentile({bucket: 10}, 0.95) == pytest.approx(seconds, rel=0.2)
        assert percentile({bucket: 95, bucket + 20: 5}, 0.5) == pytest.approx(seconds, rel=0.2)
    assert percentile({}, 0.5) is None
