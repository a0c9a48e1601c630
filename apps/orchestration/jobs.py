"""The Celery tasks of plans: a wake-up names a run; the sweep finds those that nobody looked at."""

from __future__ import annotations

import uuid

from celery import shared_task

from apps.orchestration import looking, sweeping
from apps.orchestration.waking import ADVANCE


@shared_task(name=ADVANCE)  # type: ignore[untyped-decorator]
def advance_run(run: str) -> None:
    looking.look(uuid.UUID(run))


@shared_task(name="orchestration.sweep")  # type: ignore[untyped-decorator]
def sweep_runs() -> None:
    sweeping.sweep()
