"""Who claims a row of work, holds it, loses it and tries it again."""

from __future__ import annotations

import datetime
import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connections

from apps.remote.models import OpenWork
from parley.db import sql

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("each database has its own way to swap"),
]
LEASE = datetime.timedelta(minutes=1)
PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def row(echo):
    ids = {"task": uuid.uuid4(), "run": uuid.uuid4(), "remote_task": "far"}
    return OpenWork.objects.create(agent=echo, next_try_at=PAST, **ids)


def test_of_many_processes_one_gets_a_row(row):
    together = Barrier(4)

    def claim(_: int) -> int:
        try:
            together.wait(10)
            return len(OpenWork.objects.all().claim(LEASE))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(claim, range(4))) == 1


def test_claim_ends_with_lease_release_or_row(row):
    [lost] = OpenWork.objects.all().claim(LEASE)
    assert OpenWork.objects.all().claim(LEASE) == []
    assert OpenWork.objects.get().next_try_at == lost.lease_until, "processes of the version before wait, too"
    OpenWork.objects.update(lease_until=PAST, next_try_at=PAST)
    [taken] = OpenWork.objects.all().claim(LEASE)
    assert (lost.extend(LEASE), lost.release(), lost.retry(1.0, 1.0)) == (False, False, False)
    assert (taken.extend(LEASE), taken.release()) == (True, True)
    [again] = OpenWork.objects.all().claim(LEASE)
    row.delete()
    assert not again.extend(LEASE)


def test_retried_row_waits_longer_each_time(row):
    waits = []
    for _ in range(4):
        OpenWork.objects.update(next_try_at=PAST)
        [held] = OpenWork.objects.all().claim(LEASE)
        now = sql.database_time()
        assert held.retry(10.0, 1000.0)
        assert not OpenWork.objects.due().exists()
        waits.append((OpenWork.objects.get().next_try_at - now).total_seconds())
    assert all(5 * 2**n <= wait <= 11 * 2**n for n, wait in enumerate(waits))
    assert OpenWork.objects.get().tries == 4
