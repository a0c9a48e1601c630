from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.signals import worker_ready

import db
from apps.engine.jobs import EMBEDDED_NODE
from apps.features.health.monitoring import observe


@shared_task(name="health.observe")  # type: ignore[untyped-decorator]
def observe_agents() -> None:
    """Measures agents and says which of them are healthy."""
    observe()


@worker_ready.connect  # type: ignore[untyped-decorator]
def observe_at_the_start(sender: Any = None, **_: Any) -> None:
    """Observe agents without waiting for the first period. The embedded worker does so itself."""
    if getattr(sender, "hostname", "") != EMBEDDED_NODE:
        db.later(observe)
