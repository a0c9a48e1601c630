"""When schedules are due; no database."""

import datetime
from itertools import islice

import pytest

from apps.automation.models import Schedule
from apps.automation.schedules import preview, times
from apps.record.errors import InvalidFields

UTC = datetime.UTC


def at(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type]


def cron(expression: str, zone: str = "Europe/Berlin") -> Schedule:
    return Schedule(kind="cron", cron=expression, time_zone=zone)


@pytest.mark.parametrize(
    ("expression", "now", "expected"),
    [
        # 2026-03-29: 02:00 becomes 03:00, so 02:30 is not on the clock
        ("30 2 * * *", at(2026, 3, 28, 12), [at(2026, 3, 29, 1), at(2026, 3, 30, 0, 30)]),
        ("0 9 * * *", at(2026, 3, 28, 12), [at(2026, 3, 29, 7), at(2026, 3, 30, 7)]),
        # 2026-10-25: 03:00 becomes 02:00, so 02:30 is there twice
        ("30 2 * * *", at(2026, 10, 24, 12), [at(2026, 10, 25, 0, 30), at(2026, 10, 26, 1, 30)]),
        ("0 9 * * *", at(2026, 10, 24, 12), [at(2026, 10, 25, 8), at(2026, 10, 26, 8)]),
    ],
)
def test_day_of_a_clock_change_has_one_run(expression, now, expected):
    assert list(islice(times(cron(expression), now), 2)) == expected
    assert next(times(cron(expression), expected[1], backward=True)) == expected[0]


def test_hourly_schedule_ignores_clock_changes():
    found = list(islice(times(cron("0 * * * *"), at(2026, 10, 24, 22, 30)), 6))
    assert found == [at(2026, 10, 24, 23) + datetime.timedelta(hours=one) for one in range(6)]


def test_interval_counts_from_its_start():
    hourly = Schedule(kind="interval", every_seconds=3600, at=at(2026, 1, 1, 0, 15))
    assert list(islice(times(hourly, at(2026, 1, 1, 3, 15)), 2)) == [at(2026, 1, 1, 4, 15), at(2026, 1, 1, 5, 15)]
    assert list(times(hourly, at(2026, 1, 1, 2, 15), backward=True)) == [at(2026, 1, 1, 1, 15), at(2026, 1, 1, 0, 15)]
    assert next(times(hourly, at(2025, 1, 1))) == at(2026, 1, 1, 0, 15)


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("@yearly", "0 0 1 1 *"),
        ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
        ("0 9 * * fri-mon", "0 9 * * 5,6,0,1"),
        ("0 9 28-2 nov-feb *", "0 9 28,29,30,31,1,2 11,12,1,2 *"),
        ("50-10/10,30 * * * *", "50,0,10,30 * * * *"),
    ],
)
def test_names_and_ranges_around_the_end_are_read(written, same):
    first = [list(islice(times(cron(one), at(2026, 1, 1)), 50)) for one in (written, same)]
    assert first[0] == first[1]


@pytest.mark.parametrize(
    "wrong", ["@reboot", "0 9 ? * *", "0 9 15W * *", "0 0 9 * * *", "0 25-2 * * *", "0 22-2/0 * * *"]
)
def test_what_is_not_supported_is_said(wrong):
    with pytest.raises(InvalidFields) as refused:
        preview(cron(wrong), at(2026, 1, 1))
    [(field, sentence)] = refused.value.violations
    assert field == "cron"
    assert "not supported" in sentence


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": "cron", "cron": "every day"}, "cron"),
        ({"kind": "cron", "cron": "* * * * * *"}, "cron"),  # each second
        ({"kind": "cron", "cron": "0 0 30 2 *"}, "cron"),  # never
        ({"kind": "cron", "cron": "99 0 * * *"}, "cron"),
        ({"kind": "cron", "cron": "0 9 * * *", "time_zone": "Mars/Base"}, "timeZone"),
        ({"kind": "cron", "cron": "0 9 * * *", "time_zone": "../etc/passwd"}, "timeZone"),
        ({"kind": "interval", "every_seconds": 1}, "everySeconds"),
        ({"kind": "interval"}, "everySeconds"),
        ({"kind": "once"}, "at"),
        ({"kind": "once", "at": at(2020, 1, 1)}, "at"),
        ({"kind": "interval", "every_seconds": 3600, "at": at(9999, 12, 31)}, "at"),
    ],
)
def test_what_never_runs_or_too_often_is_refused(fields, field):
    now = at(2026, 1, 1)
    with pytest.raises(InvalidFields) as refused:
        preview(Schedule(**{"created_at": now, "time_zone": "UTC", **fields}), now)
    assert refused.value.field == field


def test_a_shortest_time_between_runs_is_kept(settings):
    settings.SCHEDULE_MIN_SECONDS = 900
    with pytest.raises(InvalidFields):
        preview(cron("0,1 0 1 * *"), at(2026, 1, 1))
    assert len(preview(cron("*/15 * * * *"), at(2026, 1, 1))) == 5
