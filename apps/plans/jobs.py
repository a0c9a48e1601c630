"""The Celery tasks of plans: a wake-up names a run; the sweep finds those that nobody looked at."""

from __future__ import annotations

import uuid
from typing import Any

from celery import shared_task
from celery.signals import worker_init, worker_shutdown

from apps.plans import looking, sweeping
from apps.plans.waking import ADVANCE


@shared_task(name=ADVANCE)  # type: ignore[untyped-decorator]
def advance_run(run: str) -> None:
    looking.look(uuid.UUID(run))


@shared_task(name="plans.sweep")  # type: ignore[untyped-decorator]
def sweep_runs() -> None:
    sweeping.sweep()


@worker_init.connect  # type: ignore[untyped-decorator]
def look_in_this_process(**_: Any) -> None:
    looking.begin()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def look_no_more(**_: Any) -> None:
    looking.end()
