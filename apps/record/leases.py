"""Leases by the database's clock, which all worker processes share, and who is at work under them."""

import datetime
import uuid
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Q

from apps.record.models import Run
from db.selections import Selection

AT_WORK = Selection(
    lambda task, queued, running: Run.objects.only("id").filter(Q(state=queued) | Q(state=running), task=task),
    uuid.UUID(int=0),
    Run.State.QUEUED,
    Run.State.RUNNING,
)


class LeaseLost(Exception):
    """The run is no longer this worker's: its lease ran out, or the task has ended."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A worker's claim to a run: good while the run's fence is still this number and its lease lasts."""

    run_id: uuid.UUID
    fence: int


def end(now: datetime.datetime) -> datetime.datetime:
    """When a lease that is taken or extended at `now`, by the database's clock, ends."""
    return now + datetime.timedelta(seconds=settings.RUN_LEASE_SECONDS)


def is_at_work(task: uuid.UUID) -> bool:
    """Has a task a run that works at it, or waits for a worker?"""
    return AT_WORK.one(task, Run.State.QUEUED, Run.State.RUNNING) is not None
