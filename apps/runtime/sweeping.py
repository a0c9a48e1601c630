"""The sweep: what is queued in the database but in no queue is published again, and so is what lost its worker."""

from __future__ import annotations

import datetime

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.conversations import leases
from apps.conversations.models import Run
from apps.runtime.publishing import publish

AT_ONCE = 500


def sweep() -> int:
    """Publish overdue runs again and say how many. It is safe to run it anywhere, at any time, twice."""
    long_ago = timezone.now() - datetime.timedelta(seconds=settings.SWEEP_SECONDS)
    unheard = Q(state=Run.State.QUEUED, queued_at__lt=long_ago) & (
        Q(published_at=None) | Q(published_at__lt=leases.from_now(-settings.SWEEP_SECONDS))
    )
    abandoned = Q(state=Run.State.RUNNING, lease_until__lt=Now())
    overdue = list(Run.objects.filter(unheard | abandoned).order_by("queued_at").values_list("pk", flat=True)[:AT_ONCE])
    Run.objects.filter(pk__in=overdue).update(published_at=Now())
    for run_id in overdue:
        publish(run_id)
    return len(overdue)
