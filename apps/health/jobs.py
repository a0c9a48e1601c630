from __future__ import annotations

from typing import Any

from celery.signals import worker_ready

from apps.engine.jobs import EMBEDDED_NODE
from apps.health.monitoring import observe
from parley import db


@worker_ready.connect  # type: ignore[untyped-decorator]
def observe_at_the_start(sender: Any = None, **_: Any) -> None:
    """Observe agents without waiting for the first period. The embedded worker does so itself."""
    if getattr(sender, "hostname", "") != EMBEDDED_NODE:
        db.later(observe)
