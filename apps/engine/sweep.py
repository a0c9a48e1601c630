"""The sweep: what is queued in the database but in no queue is published again, and so is what lost its worker."""

from __future__ import annotations

import datetime

from django.conf import settings
from django.db.models import Q

from apps.engine import suspending
from apps.engine.queue import publish
from apps.record.hooks import hooks
from apps.record.models import Run
from db import statements

AT_ONCE = 500
REPUBLISH = datetime.timedelta(seconds=30)  # a backlog is not to fill the queue with its own wake-ups


def sweep() -> int:
    """Publish overdue runs again and say how many. It is safe to run it anywhere, at any time, twice."""
    now = statements.database_time()
    long_ago = now - datetime.timedelta(seconds=settings.SWEEP_SECONDS)
    unheard = Q(state=Run.State.QUEUED, queued_at__lt=long_ago) & (
        Q(published_at=None) | Q(published_at__lt=now - REPUBLISH)
    )
    abandoned = Q(state=Run.State.RUNNING, lease_until__lt=now)
    overdue = list(Run.objects.filter(unheard | abandoned).order_by("queued_at").values_list("pk", flat=True)[:AT_ONCE])
    Run.objects.filter(pk__in=overdue).update(published_at=now)
    for run_id in overdue:
        publish(run_id)
    suspending.sweep()
    for further in hooks("SWEEPS"):
        further()
    return len(overdue)
