"""What is known of backups. The optional app that makes them writes a row for each attempt."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.conf import settings
from django.db import DatabaseError, connection

from apps.housekeeping.models import Backup
from parley.db import sql

FAILURES_KEPT = datetime.timedelta(days=30)
KILLED = "It was killed before its end."


def last_backup() -> Backup | None:
    """The newest complete one, or None if there is none."""
    return Backup.objects.complete().first()


def last_attempt() -> Backup | None:
    """The newest one that has ended, well or not."""
    return Backup.objects.exclude(state=Backup.State.RUNNING).first()


def is_old(backup: Backup, now: datetime.datetime) -> bool:
    """Is it older than BACKUP_OLD_SECONDS? `now` is the database's time."""
    return now - backup.started_at > datetime.timedelta(seconds=settings.BACKUP_OLD_SECONDS)


@contextmanager
def noted(place: str, name: str, *, is_encrypted: bool) -> Iterator[Backup]:
    """A row that says how the attempt ended: well, with the `bytes` that the caller sets, or by which error.

    The caller sees to it that no other attempt runs.
    """
    now = sql.database_time()
    Backup.objects.filter(state=Backup.State.FAILED, started_at__lt=now - FAILURES_KEPT).delete()
    row = Backup.objects.create(place=place, name=name, started_at=now, is_encrypted=is_encrypted)
    connection.close()  # it may take hours, which an idle connection does not live everywhere
    try:
        yield row
    except BaseException as error:
        row.problem = str(error) or type(error).__name__
        with suppress(DatabaseError):  # perhaps what failed it
            _end(row, Backup.State.FAILED)
        raise
    _end(row, Backup.State.COMPLETE)


def _end(row: Backup, state: Backup.State) -> None:
    row.state, row.ended_at = state, sql.database_time()
    row.save()


def note_killed() -> list[Backup]:
    """Note the attempts that did not live to note their end. The caller sees to it that none runs."""
    killed = list(Backup.objects.filter(state=Backup.State.RUNNING))
    Backup.objects.filter(pk__in=[row.pk for row in killed]).update(state=Backup.State.FAILED, problem=KILLED)
    return killed
