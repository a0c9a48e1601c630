"""The last backup is known, with its time, size and result."""

from __future__ import annotations

import datetime

import pytest
from django.core.management import CommandError, call_command

from apps.housekeeping import backups
from apps.housekeeping.models import Backup
from apps.operators.doctor import Patient, database
from apps.operators.doctor.examination import State
from apps.operators.metrics import forget_numbers
from parley import db
from parley.db.sql import database_time
from tests.operators.scraping import scrape

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_files")]


def attempt(**fields) -> Backup:
    values = {"place": "/backups", "name": "parley.tar", "state": Backup.State.COMPLETE, "started_at": database_time()}
    return Backup.objects.create(**values | fields)


def test_last_good_backup_is_known_after_a_failure(tmp_path):
    assert backups.last_backup() is None
    call_command("backup", file := tmp_path / "parley.tar")
    with pytest.raises(CommandError):
        call_command("backup", file)  # it exists
    last = backups.last_backup()
    assert (last.place, last.name, last.bytes) == (str(tmp_path), "parley.tar", file.stat().st_size)
    with pytest.raises(OSError, match="full"), backups.noted("/backups", "next.tar", is_encrypted=False):
        raise OSError("The disk is full")
    assert backups.last_backup() == last
    assert (backups.last_attempt().name, backups.last_attempt().problem) == ("next.tar", "The disk is full")


def test_killed_attempts_are_failures():
    attempt(state=Backup.State.RUNNING)
    assert backups.last_attempt() is None
    assert [row.name for row in backups.note_killed()] == ["parley.tar"]
    assert backups.last_attempt().problem == backups.KILLED


def test_old_failures_are_forgotten_and_good_ones_kept():
    long_ago = database_time() - datetime.timedelta(days=60)
    good, failed = attempt(started_at=long_ago), attempt(started_at=long_ago, state=Backup.State.FAILED)
    with backups.noted("/backups", "next.tar", is_encrypted=False):
        assert Backup.objects.filter(pk=good.pk).exists()
    assert not Backup.objects.filter(pk=failed.pk).exists()


def test_doctor_tells_of_old_and_failed_backups(settings):
    settings.BACKUP_OLD_SECONDS = 3600
    assert database.backups(Patient("")).state == State.WARNING
    made = attempt(started_at=database_time() - datetime.timedelta(hours=2))
    assert database.backups(Patient("")).state == State.PROBLEM
    Backup.objects.filter(pk=made.pk).update(started_at=database_time())
    assert database.backups(Patient("")).state == State.OK
    attempt(state=Backup.State.FAILED, problem="No space left on device", started_at=database_time())
    assert "No space left" in database.backups(Patient("")).text


async def test_metrics_tell_time_and_size_of_the_last():
    made = await db.run(attempt, bytes=2000)
    forget_numbers()
    told = await scrape()
    assert told.value("parley_backup_last_success_timestamp_seconds") == pytest.approx(made.started_at.timestamp())
    assert told.value("parley_backup_last_success_bytes") == 2000
