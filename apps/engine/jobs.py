"""The consumer of run messages, the sweep for lost messages and workers, and the worker inside the server's process."""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import current_app, shared_task
from celery.beat import EmbeddedService
from celery.platforms import EX_OK
from celery.signals import after_task_publish, task_postrun, task_prerun, worker_shutdown
from celery.worker import state
from django.conf import settings
from django.db.models import Q

from apps.engine import activity
from apps.engine.queue import PUBLISH_WAITING, publish
from apps.engine.turns import delegation
from apps.engine.worker import close_current_worker
from apps.record.execution import Run
from parley.db import sql
from parley.registry import added
from parley.telemetry import metrics

log = logging.getLogger("parley.engine")

DRAIN_SECONDS = 8.0


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def give_leases_back(sender: Any = None, **_: Any) -> None:
    """On SIGTERM, let runs end or release them. `embedded_worker` does so itself."""
    if getattr(sender, "hostname", "") != EMBEDDED_NODE:
        close_current_worker(DRAIN_SECONDS)


RUNS_PER_SWEEP = 500
REPUBLISH_AFTER = datetime.timedelta(seconds=30)  # so that a backlog does not fill the queue


def sweep() -> int:
    """Queues runs again that the queue lost or whose worker is gone.

    It may run anywhere, at any time, twice. Returns their number.
    """
    now = sql.database_time()
    long_ago = now - datetime.timedelta(seconds=settings.SWEEP_SECONDS)
    unpublished = Q(state=Run.State.QUEUED, queued_at__lt=long_ago) & (
        Q(published_at=None) | Q(published_at__lt=now - REPUBLISH_AFTER)
    )
    abandoned = Q(state=Run.State.RUNNING, lease_until__lt=now)
    found = activity.startable(Run.objects.filter(unpublished | abandoned)).order_by("queued_at")
    states = dict(found.values_list("pk", "state")[:RUNS_PER_SWEEP])
    overdue = list(states)
    Run.objects.filter(pk__in=overdue).update(published_at=now)
    for run_id, state_of_run in states.items():
        publish(run_id)
        metrics.SWEPT["lost_runs" if state_of_run == Run.State.RUNNING else "unclaimed_runs"].inc()
    delegation.sweep_suspensions()
    for further in added["sweeps"]:
        try:
            further()
        except Exception:
            log.exception("%s failed; it is tried again with the next sweep", further.__qualname__)
    return len(overdue)


@shared_task(name=PUBLISH_WAITING)  # type: ignore[untyped-decorator]
def publish_waiting() -> int:
    """Publishes the runs of resumed agents. It may run twice: a worker claims a run once."""
    return activity.publish_waiting()


@after_task_publish.connect  # type: ignore[untyped-decorator]
def count_sent_job(sender: str = "", **_: Any) -> None:
    metrics.JOBS_SENT[sender].inc()


@task_prerun.connect  # type: ignore[untyped-decorator]
def note_job(task: Any = None, **_: Any) -> None:
    task.request.began_at = time.monotonic()


@task_postrun.connect  # type: ignore[untyped-decorator]
def count_job(task: Any = None, state: str | None = None, **_: Any) -> None:
    """The states that end a job are Celery's, such as SUCCESS and FAILURE."""
    metrics.JOBS[task.name, (state or "unknown").lower()].inc()
    metrics.JOB_SECONDS[task.name].observe(time.monotonic() - task.request.began_at)


EMBEDDED_NODE = "parley@embedded"
WORKER_START_SECONDS = 10.0
WORKER_STOP_SECONDS = 10.0
POLL_SECONDS = 0.1


@contextmanager
def embedded_worker(*, grace: float = 5.0) -> Iterator[None]:
    """A Celery worker and its beat in threads of this process. Its runs are released at the end."""
    has_started = threading.Event()
    controller = current_app.WorkController(
        app=current_app, hostname=EMBEDDED_NODE, pool="threads", without_heartbeat=True, without_mingle=True,
        without_gossip=True, quiet=True, ready_callback=lambda consumer: has_started.set(),
    )  # fmt: skip
    if not _uses_memory_broker():
        controller.timer.call_repeatedly(POLL_SECONDS, lambda: None)  # or its loop would miss `should_stop`
    beat = EmbeddedService(current_app, thread=True, scheduler_cls=current_app.conf.beat_scheduler)
    threads = [
        threading.Thread(target=controller.start, name="celery-worker", daemon=True),
        threading.Thread(target=beat.run, name="celery-beat", daemon=True),
    ]
    sweep()
    for prepare in added["before_work"]:
        prepare()
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        beat.service.stop()  # it may still sleep for a while
        has_started.wait(WORKER_START_SECONDS)  # a controller that is told to stop earlier starts all the same
        _stop_worker(controller, threads[0])
        close_current_worker(grace)


def _stop_worker(controller: Any, thread: threading.Thread) -> None:
    """With a socket the worker stops itself, because two threads must not read one socket."""
    if _uses_memory_broker():
        controller.stop()
    else:
        state.should_stop = EX_OK
        thread.join(WORKER_STOP_SECONDS)
        state.should_stop = None


def _uses_memory_broker() -> bool:
    return bool(settings.CELERY_BROKER_URL.startswith("memory://"))
