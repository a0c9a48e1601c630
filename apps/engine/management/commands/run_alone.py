"""`./manage.py run_alone RUN WORKER FD`: the child process of `engine.turns.isolation`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandParser

from apps.engine.jobs import DRAIN_SECONDS
from apps.engine.turns.isolation import ENDED, Told
from apps.engine.worker import RunSlots, WorkerProcess
from parley.faces.commands import QuickCommand

DEAD = 70  # the exit code of a process whose event loop does not answer: EX_SOFTWARE


class ToldSlots(RunSlots):
    """One slot; the parent hears when it is released for a while."""

    def __init__(self, told: Told) -> None:
        super().__init__(1)
        self._told = told

    @contextmanager
    def released_for_a_while(self) -> Generator[None]:
        with self._told.waiting():
            yield


class Command(QuickCommand):
    help = "Executes one run alone in this process. Workers start it; there is no need to."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=uuid.UUID, help="its id")
        parser.add_argument("worker", help="the name under which it is reserved")
        parser.add_argument("told", type=int, metavar="FD", help="the pipe to the worker")

    def handle(self, *args: Any, run: uuid.UUID, worker: str, told: int, **options: Any) -> None:
        ended, parent = threading.Event(), Told(told)
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
        process = WorkerProcess(ToldSlots(parent), on_dead=lambda: os._exit(DEAD))
        process.execute_alone(run, worker).add_done_callback(lambda _: ended.set())
        ended.wait()
        process.close(DRAIN_SECONDS)
        parent.say(ENDED)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # whatever threads the agent left
