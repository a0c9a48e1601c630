"""Telling the workers which webhooks have something waiting; the sweep finds those whose message was lost."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable

from celery import current_app
from django.db.models import Q
from kombu.exceptions import OperationalError

from apps.a2a.models import PushConfig
from db import statements

log = logging.getLogger("parley.webhooks")

DELIVER = "a2a.deliver"
AT_ONCE = 500


def publish(configs: Iterable[uuid.UUID]) -> None:
    """Name webhooks to the workers. Call it after the commit; a broker that is away is logged, and no error."""
    try:
        for key in configs:
            current_app.send_task(DELIVER, (str(key),))
    except (OperationalError, ConnectionError, OSError) as error:
        log.warning("the broker is away; webhooks wait for the sweep: %s", error)


def sweep() -> int:
    """Publish the webhooks that are due and in nobody's hands, and say how many. Safe anywhere, at any time, twice."""
    now = statements.database_time()
    unheld = Q(lease_until=None) | Q(lease_until__lt=now)
    waiting = PushConfig.objects.filter(unheld, due_at__lte=now).order_by("due_at")
    due = list(waiting.values_list("pk", flat=True)[:AT_ONCE])
    publish(due)
    return len(due)
