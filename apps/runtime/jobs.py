"""The Celery tasks: a wake-up names a run; the sweep finds what wake-ups and workers lost."""

from __future__ import annotations

import uuid
from typing import Any

from celery import shared_task
from celery.exceptions import Reject
from celery.signals import worker_ready, worker_shutdown

import bridge
from apps.runtime.credential_requests import forget_ended
from apps.runtime.embedded import NODE
from apps.runtime.observing import observe
from apps.runtime.process import close_this_process, this_process
from apps.runtime.publishing import EXECUTE
from apps.runtime.sweeping import sweep

DRAIN_SECONDS = 8.0


@shared_task(name=EXECUTE)  # type: ignore[untyped-decorator]
def execute_run(run_id: str) -> None:
    """Take up a run in this process, or leave its wake-up to another."""
    if not this_process().offer(uuid.UUID(run_id)):
        raise Reject("this process is full", requeue=True)


@shared_task(name="runtime.sweep")  # type: ignore[untyped-decorator]
def sweep_runs() -> None:
    sweep()
    forget_ended()


@shared_task(name="runtime.observe")  # type: ignore[untyped-decorator]
def observe_agents() -> None:
    observe()


@worker_ready.connect  # type: ignore[untyped-decorator]
def observe_at_the_start(sender: Any = None, **_: Any) -> None:
    """What this process can load is known before the first period is over. The embedded worker does so itself."""
    if getattr(sender, "hostname", "") != NODE:
        bridge.later(observe)


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def give_leases_back(sender: Any = None, **_: Any) -> None:
    """SIGTERM: what is running may end, the rest is given back. The embedded worker sees to that itself."""
    if getattr(sender, "hostname", "") != NODE:
        close_this_process(DRAIN_SECONDS)
