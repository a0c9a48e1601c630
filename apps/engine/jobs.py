"""The consumer of run messages, the sweep for lost messages and workers, and the worker inside the server's process."""

from __future__ import annotations

import datetime
import logging
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from celery import bootsteps, current_app, shared_task
from celery.beat import EmbeddedService
from celery.platforms import EX_OK
from celery.signals import worker_shutdown
from celery.worker import state
from django.conf import settings
from django.db.models import Q
from kombu import Consumer

from apps.engine import delegation
from apps.engine.queue import publish, run_queue
from apps.engine.worker import close_current_worker, current_worker
from apps.record.hooks import hooks
from apps.record.models import Run
from db import sql

log = logging.getLogger("parley.engine")

DRAIN_SECONDS = 8.0
PREFETCH = 32


class RunConsumer(bootsteps.ConsumerStep):  # type: ignore[misc]
    """Consumes run messages in each worker, beside Celery's own consumer.

    It acknowledges a message when the run is claimed or gone; a full process returns it to the queue. Both happen in
    Celery's consumer thread, because only that may use the broker's connection.
    https://docs.celeryq.dev/en/stable/userguide/extending.html#custom-message-consumers
    """

    def start(self, c: Any) -> None:
        self._consumer = c
        super().start(c)

    def get_consumers(self, channel: Any) -> list[Consumer]:
        consumer = Consumer(
            channel,
            [run_queue()],
            callbacks=[self.claim],
            on_decode_error=lambda message, _: message.reject(),
            accept=["json"],
            prefetch_count=PREFETCH,
        )
        return [consumer]

    def claim(self, body: Any, message: Any) -> None:
        """Claim the run without waiting, then acknowledge or reject its message."""
        try:
            run_id = uuid.UUID(body["run"])
        except (KeyError, TypeError, ValueError, AttributeError):
            log.warning("a message that names no run is dropped")
            message.reject()
            return

        def settle(claiming: Future[bool]) -> None:
            if claiming.cancelled():
                return
            if error := claiming.exception():
                log.error("a run could not be claimed; it waits for the sweep", exc_info=error)
            errors, call_soon_ack = self._consumer.connection_errors, self._consumer.call_soon_ack
            if error or claiming.result():
                call_soon_ack(message.ack_log_error, log, errors)
            else:
                call_soon_ack(message.reject_log_error, log, errors, True)

        current_worker().claim_soon(run_id).add_done_callback(settle)


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def give_leases_back(sender: Any = None, **_: Any) -> None:
    """On SIGTERM, let runs end or release them. `embedded_worker` does so itself."""
    if getattr(sender, "hostname", "") != EMBEDDED_NODE:
        close_current_worker(DRAIN_SECONDS)


RUNS_PER_SWEEP = 500
REPUBLISH_AFTER = datetime.timedelta(seconds=30)  # so that a backlog does not fill the queue


@shared_task(name="engine.sweep")  # type: ignore[untyped-decorator]
def sweep() -> int:
    """Publish overdue runs again and return their number. It may run anywhere, at any time, twice."""
    now = sql.database_time()
    long_ago = now - datetime.timedelta(seconds=settings.SWEEP_SECONDS)
    unpublished = Q(state=Run.State.QUEUED, queued_at__lt=long_ago) & (
        Q(published_at=None) | Q(published_at__lt=now - REPUBLISH_AFTER)
    )
    abandoned = Q(state=Run.State.RUNNING, lease_until__lt=now)
    overdue = list(
        Run.objects.filter(unpublished | abandoned).order_by("queued_at").values_list("pk", flat=True)[:RUNS_PER_SWEEP]
    )
    Run.objects.filter(pk__in=overdue).update(published_at=now)
    for run_id in overdue:
        publish(run_id)
    delegation.sweep_suspensions()
    for further in hooks("SWEEPS"):
        try:
            further()
        except Exception:
            log.exception("%s failed; it is tried again with the next sweep", further.__qualname__)
    return len(overdue)


EMBEDDED_NODE = "parley@embedded"
WORKER_STOP_SECONDS = 10.0
POLL_SECONDS = 0.1


@contextmanager
def embedded_worker(*, grace: float = 5.0) -> Iterator[None]:
    """A Celery worker and its beat in threads of this process. Its runs are released at the end."""
    controller = current_app.WorkController(
        app=current_app, hostname=EMBEDDED_NODE, pool="threads", without_heartbeat=True, without_mingle=True,
        without_gossip=True, quiet=True,
    )  # fmt: skip
    if not _uses_memory_broker():
        controller.timer.call_repeatedly(POLL_SECONDS, lambda: None)  # or its loop would miss `should_stop`
    beat = EmbeddedService(current_app, thread=True, scheduler_cls=current_app.conf.beat_scheduler)
    threads = [
        threading.Thread(target=controller.start, name="celery-worker", daemon=True),
        threading.Thread(target=beat.run, name="celery-beat", daemon=True),
    ]
    sweep()
    for prepare in hooks("BEFORE_WORK"):
        prepare()
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        beat.service.stop()  # it may still sleep for a while
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
