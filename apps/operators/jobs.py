"""Celery tasks of operators' bulk actions, and METRICS_PORT in Celery's processes."""

from __future__ import annotations

import threading
import uuid
from typing import Any

from celery import shared_task
from celery.signals import beat_init, worker_ready
from django.conf import settings
from django.contrib.admin import autodiscover

from apps.engine.jobs import EMBEDDED_NODE
from apps.operators import bulk
from apps.operators.metrics import MetricsServer, log


@worker_ready.connect
@beat_init.connect
def listen(sender: Any = None, **_: Any) -> None:
    """The numbers of an embedded worker and beat, which run in threads, are the web server's."""
    is_embedded = threading.current_thread() is not threading.main_thread()
    if not settings.METRICS_PORT or is_embedded or getattr(sender, "hostname", "") == EMBEDDED_NODE:
        return
    try:
        MetricsServer(settings.HOST, settings.METRICS_PORT)
    except OSError as error:
        log.error("no metrics of this process: cannot listen at %s:%s: %s", settings.HOST, settings.METRICS_PORT, error)


@shared_task(name=bulk.WORK)
def work_off(key: str) -> None:
    autodiscover()  # admin's pages register the actions
    bulk.work_off(uuid.UUID(key))


@shared_task(name="operators.sweep")
def sweep() -> int:
    """Continue actions whose worker died or whose message was lost, and delete old ones. Returns the continued ones."""
    overdue = bulk.overdue()
    for key in overdue:
        bulk.publish(key)
    bulk.delete_old()
    return len(overdue)
