"""The worker and the periodic jobs inside the server's process, for the embedded profile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import current_app
from celery.beat import EmbeddedService
from celery.platforms import EX_OK
from celery.worker import state
from django.conf import settings

from apps.engine.sweep import sweep
from apps.engine.worker import close_this_process
from apps.record.hooks import hooks

NODE = "parley@embedded"
STOP_SECONDS = 10.0
LOOK_SECONDS = 0.1


@contextmanager
def worker(*, grace: float = 5.0) -> Iterator[None]:
    """A Celery worker and its beat in threads of this process; what they were at is given back at the end."""
    controller = current_app.WorkController(
        app=current_app, hostname=NODE, pool="threads", without_heartbeat=True, without_mingle=True,
        without_gossip=True, quiet=True,
    )  # fmt: skip
    if not _in_memory():
        controller.timer.call_repeatedly(LOOK_SECONDS, lambda: None)  # or its loop would sleep through `should_stop`
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
        beat.service.stop()  # it may sleep a while yet, but names nothing more
        _end(controller, threads[0])
        close_this_process(grace)


def _end(controller: Any, thread: threading.Thread) -> None:
    """Stop the worker. One that listens to a socket does so itself, for two threads must not read the same socket."""
    if _in_memory():
        controller.stop()
    else:
        state.should_stop = EX_OK
        thread.join(STOP_SECONDS)
        state.should_stop = None


def _in_memory() -> bool:
    return bool(settings.CELERY_BROKER_URL.startswith("memory://"))
