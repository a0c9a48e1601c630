"""What Celery calls to keep the rows of processes: a step of each worker, and the scheduler of beat.

Both write from where they do their work, so a worker that has lost the broker or whose event loop is dead and a beat
that hangs are not seen. What restarts stuck processes (`tell_alive`) learns nothing of the broker and the database:
runs go on without them.
"""

from __future__ import annotations

import atexit
import datetime
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from celery import bootsteps
from celery.beat import Scheduler
from celery.signals import beat_init, worker_shutdown
from django.conf import settings
from django.utils import timezone

from apps.engine.worker import call_on_loop, current_load
from apps.housekeeping import processes
from apps.housekeeping.models import ServerProcess
from parley import db
from parley.work.jobs import is_run_by_beat

log = logging.getLogger("parley.housekeeping")

LEAVE_SECONDS = 2.0
STUCK_SECONDS = 60.0  # without a beat of Celery's timer
_is_noted = False
_own_work: dict[str, threading.Thread] = {}  # beat's, if it is in this process, by the names of jobs


class Heartbeat(bootsteps.StartStopStep):  # type: ignore[misc]
    """Writes the worker's row while its timer runs."""

    requires = {"celery.worker.components:Timer"}
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._is_stopped = threading.Event()
        self._repeated: Any = None
        # Without an event loop Celery's timer is a thread, too, and takes a second to stop.
        self._has_timer = not settings.CELERY_BROKER_URL.startswith("memory://")
        self._noted_at = self.clock()

    def start(self, parent: Any) -> None:
        self._note()
        if self._has_timer:
            self._repeated = parent.timer.call_repeatedly(processes.HEARTBEAT_SECONDS, self._note)
        threading.Thread(target=self._repeat, args=[parent], name="heartbeat", daemon=True).start()

    def stop(self, parent: Any) -> None:
        self._is_stopped.set()
        if self._repeated is not None:
            self._repeated.cancel()
            self._repeated = None

    def _repeat(self, parent: Any) -> None:
        while True:
            if not self.is_stuck(parent.consumer):
                call_on_loop(tell_alive)
            if self._is_stopped.wait(processes.HEARTBEAT_SECONDS):
                return
            if not self._has_timer:
                self._note()

    def is_stuck(self, consumer: Any) -> bool:
        """Does Celery's timer stand still? While it connects to the broker, it has to."""
        is_connected = getattr(consumer, "connection", None) is not None
        return is_connected and self.clock() - self._noted_at > STUCK_SECONDS

    def _note(self) -> None:
        self._noted_at = self.clock()
        call_on_loop(lambda: _note(ServerProcess.Kind.WORKER, load=current_load()))


class BeatScheduler(Scheduler):  # type: ignore[misc]
    """Celery's scheduler in memory, whose ticks write beat's row and the times of the next runs.

    It runs some jobs itself (`run_by_beat`): beat has a processor to spare where a worker's runs would wait for Python.
    """

    _noted_at = float("-inf")

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        delay = super().tick(*args, **kwargs)
        if time.monotonic() - self._noted_at >= processes.HEARTBEAT_SECONDS:
            self._noted_at = time.monotonic()
            _note(ServerProcess.Kind.BEAT, due=self._due())
            tell_alive()
        return delay

    @cached_property
    def producer(self) -> Any:
        """What sends jobs. It waits for the broker, as long as that is away."""
        with telling(tell_alive):
            return super().producer

    def apply_async(self, entry: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_run_by_beat(entry.task):
            return super().apply_async(entry, *args, **kwargs)
        last = _own_work.get(entry.task)
        if last is None or not last.is_alive():
            task = self.app.tasks[entry.task]
            _own_work[entry.task] = threading.Thread(target=_run_here, args=[task], name=entry.task, daemon=True)
            _own_work[entry.task].start()
        else:
            log.warning("%s takes longer than until its next run", entry.task)
        return None

    def _due(self) -> dict[str, str]:
        now = timezone.now()
        return {
            entry.task: (now + datetime.timedelta(seconds=entry.is_due()[1])).isoformat()
            for entry in self.schedule.values()
        }


def tell_alive() -> None:
    """Touch ALIVE_FILE for probes of containers, and tell systemd's watchdog."""
    if settings.ALIVE_FILE:
        try:
            Path(settings.ALIVE_FILE).touch()
        except OSError as error:
            log.warning("ALIVE_FILE cannot be written: %s", error)
    tell_watchdog()


def tell_watchdog() -> None:
    """Tell systemd's watchdog."""
    if "WATCHDOG_USEC" in os.environ and (address := os.environ.get("NOTIFY_SOCKET")):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:  # sd_notify(3)
            systemd.sendto(b"WATCHDOG=1", f"\0{address[1:]}" if address.startswith("@") else address)


@contextmanager
def telling(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` at once and every HEARTBEAT_SECONDS, while this thread waits for a service that is away."""
    is_over = threading.Event()

    def repeat() -> None:
        tell()
        while not is_over.wait(processes.HEARTBEAT_SECONDS):
            tell()

    threading.Thread(target=repeat, name="waiting", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def _run_here(task: Any) -> None:
    try:
        task.apply()
    finally:
        db.forget_connection()


def _note(kind: ServerProcess.Kind, **values: Any) -> None:
    """Without waiting: the caller is a timer."""
    global _is_noted
    _is_noted = True
    processes.write_later(processes.note_heartbeat, kind, **values)


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def leave(**_: Any) -> None:
    global _is_noted
    if _is_noted:
        _is_noted = False
        processes.write_later(processes.note_end)
    _finish_own_work()
    processes.finish_writing(LEAVE_SECONDS)


@beat_init.connect  # type: ignore[untyped-decorator]
def leave_at_exit(**_: Any) -> None:
    """Celery has no signal for beat's end. `db` ends its threads after this."""
    atexit.unregister(_leave_now)
    atexit.register(_leave_now)


def _finish_own_work() -> None:
    while _own_work:
        _own_work.popitem()[1].join(LEAVE_SECONDS)


def _leave_now() -> None:
    _finish_own_work()
    if _is_noted:
        with suppress(Exception):  # without the database the row stays, and is deleted after a day
            processes.note_end()
