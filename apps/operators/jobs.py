"""METRICS_PORT in Celery's processes."""

from __future__ import annotations

import threading
from typing import Any

from celery.signals import beat_init, worker_ready
from django.conf import settings

from apps.engine.jobs import EMBEDDED_NODE
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
