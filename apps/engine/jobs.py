"""The Celery tasks: a wake-up names a run; the sweep finds what wake-ups and workers lost."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from celery import shared_task
from celery.exceptions import Reject
from celery.signals import worker_shutdown

from apps.engine.embedded import NODE
from apps.engine.queue import EXECUTE
from apps.engine.sweep import sweep
from apps.engine.worker import close_this_process, this_process

log = logging.getLogger("parley.engine")

DRAIN_SECONDS = 8.0


def taking_up(_task: Any, _app: Any, consumer: Any) -> Callable[..., None]:
    """How a worker handles the wake-ups that come in (`Task.Strategy`): there and then, without a thread of its pool.

    A wake-up is acknowledged when its run is claimed, or is not to be had; a full process gives it back.
    """

    def arrived(message: Any, _payload: Any, ack: Callable[..., None], reject: Callable[..., None], _: Any) -> None:
        def settle(claiming: Future[bool]) -> None:
            if error := claiming.exception():
                log.error("a run could not be claimed; it waits for the sweep", exc_info=error)
            if error or claiming.result():
                ack(log, consumer.connection_errors)
            else:
                reject(log, consumer.connection_errors, True)

        this_process().offering(uuid.UUID(message.headers["id"])).add_done_callback(settle)

    return arrived


@shared_task(name=EXECUTE, Strategy=f"{__name__}:taking_up")  # type: ignore[untyped-decorator]
def execute_run(run_id: str) -> None:
    """Take up a run in this process, or leave its wake-up to another."""
    if not this_process().offer(uuid.UUID(run_id)):
        raise Reject("this process is full", requeue=True)


@shared_task(name="engine.sweep")  # type: ignore[untyped-decorator]
def sweep_runs() -> None:
    sweep()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def give_leases_back(sender: Any = None, **_: Any) -> None:
    """SIGTERM: what is running may end, the rest is given back. The embedded worker sees to that itself."""
    if getattr(sender, "hostname", "") != NODE:
        close_this_process(DRAIN_SECONDS)
