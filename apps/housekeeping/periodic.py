"""Periodic jobs: what each does, its last run, and a run at once.

Every worker records the `periodic_jobs` that it runs, wherever beat is. A job that runs every few seconds
is written once in WRITE_SECONDS, unless its result changes or it begins or ceases to fail.
"""

from __future__ import annotations

import datetime
import inspect
import math
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from celery import current_app
from celery.signals import task_postrun, task_prerun
from django.db import InterfaceError, OperationalError
from django.db.models import F
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from apps.accounts.models import User
from apps.housekeeping import processes
from apps.housekeeping.models import PeriodicJob
from parley.registry import added

WRITE_SECONDS = 30.0
RUN_NOW = "now-"  # begins the id of a Celery task that an operator asked for
RUN_NOW_SECONDS = 600.0  # it may wait for a worker
MAX_PROBLEM_LENGTH = 2_000


class CannotRun(Exception):
    """`str()` is a sentence for operators."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run that has ended. `failures` are those since the last write, this one included."""

    name: str
    started_at: datetime.datetime
    seconds: float
    result: str
    problem: str = ""  # of the last failure
    has_failed: bool = False
    failures: int = 0
    failed_at: datetime.datetime | None = None
    was_asked_for: bool = False


class Recorder:
    """Remembers a process's runs, and decides which are written. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._written: dict[str, tuple[float, JobRun]] = {}
        self._unwritten_failures: dict[str, JobRun] = {}

    def due(self, run: JobRun, *, may_write: bool = True) -> JobRun | None:
        """The run with failures that were not written yet, if it is to be written now."""
        with self._lock:
            run = self._with_earlier_failures(run)
            written_at, last = self._written.get(run.name, (float("-inf"), None))
            is_news = last is None or (run.has_failed, run.result) != (last.has_failed, last.result)
            is_old = self._clock() - written_at >= WRITE_SECONDS
            if may_write and (is_news or is_old or run.was_asked_for):
                self._written[run.name] = (self._clock(), run)
                self._unwritten_failures.pop(run.name, None)
                return run
            if run.failures:
                self._unwritten_failures[run.name] = run
            return None

    def _with_earlier_failures(self, run: JobRun) -> JobRun:
        earlier = self._unwritten_failures.get(run.name)
        if earlier is None:
            return run
        if run.has_failed:
            return replace(run, failures=run.failures + earlier.failures)
        return replace(run, failures=earlier.failures, failed_at=earlier.failed_at, problem=earlier.problem)


_recorder = Recorder()
_begun: dict[str, tuple[float, datetime.datetime]] = {}


@task_prerun.connect  # type: ignore[untyped-decorator]
def begin(task_id: str = "", task: Any = None, **_: Any) -> None:
    if task.name in added["periodic_jobs"]:
        _begun[task_id] = time.monotonic(), timezone.now()


@task_postrun.connect  # type: ignore[untyped-decorator]
def end(task_id: str = "", task: Any = None, retval: Any = None, **_: Any) -> None:
    """Record the run, without waiting for the database. `retval` is the exception of a run that failed."""
    if (begun := _begun.pop(task_id, None)) is None:
        return
    run = _job_run(task.name, *begun, retval, was_asked_for=task_id.startswith(RUN_NOW))
    is_database_away = isinstance(retval, OperationalError | InterfaceError)  # writing would only wait for it
    if (due := _recorder.due(run, may_write=not is_database_away)) is not None:
        processes.write_later(record, due)


def _job_run(name: str, clock: float, started_at: datetime.datetime, returned: Any, *, was_asked_for: bool) -> JobRun:
    seconds = time.monotonic() - clock
    if not isinstance(returned, BaseException):
        return JobRun(name, started_at, seconds, _result(returned), was_asked_for=was_asked_for)
    problem = f"{type(returned).__name__}: {returned}"[:MAX_PROBLEM_LENGTH]
    return JobRun(
        name, started_at, seconds, "", problem, True, failures=1, failed_at=timezone.now(), was_asked_for=was_asked_for
    )


def _result(returned: Any) -> str:
    match returned:
        case None:
            return "Done"
        case int():
            return f"{returned:,} handled" if returned else "Nothing to do"
        case _:
            return str(returned)[:200]


def record(run: JobRun) -> None:
    """Write the job's row."""
    values: dict[str, Any] = {
        "started_at": run.started_at, "seconds": run.seconds, "result": run.result, "has_failed": run.has_failed,
    }  # fmt: skip
    if run.failures:
        values |= {"failures": F("failures") + run.failures, "failed_at": run.failed_at, "problem": run.problem}
    if run.was_asked_for:
        values["asked_at"] = None
    row = PeriodicJob.objects.filter(name=run.name)
    if not row.update(**values):
        PeriodicJob.objects.get_or_create(name=run.name)
        row.update(**values)


def run_now(name: str, by: User) -> PeriodicJob:
    """Queue a run of the job. Its end is recorded in any case. Raises CannotRun."""
    if name not in added["periodic_jobs"]:
        raise CannotRun(f"There is no periodic job {name}.")
    asked = {"asked_at": timezone.now(), "asked_by": by}
    row, _ = PeriodicJob.objects.update_or_create(name=name, defaults=asked)
    try:
        current_app.send_task(name, task_id=f"{RUN_NOW}{uuid.uuid4()}", expires=RUN_NOW_SECONDS)
    except (BrokerError, OSError):
        PeriodicJob.objects.filter(name=name).update(asked_at=None)
        raise CannotRun(f"{name} could not be queued: the broker cannot be reached.") from None
    return row


@dataclass(frozen=True, slots=True)
class Job:
    """A periodic job for operators. `row` is None until it has run; `next_at` is None while no beat is seen."""

    name: str
    does: str
    every: float  # seconds
    row: PeriodicJob | None
    next_at: datetime.datetime | None

    @property
    def is_asked_for(self) -> bool:
        """Does a run wait that an operator asked for?"""
        if self.row is None or self.row.asked_at is None:
            return False
        return timezone.now() - self.row.asked_at < datetime.timedelta(seconds=RUN_NOW_SECONDS)


def jobs() -> list[Job]:
    """Every job of the schedule, the rarest last."""
    rows, next_runs = PeriodicJob.objects.select_related("asked_by").in_bulk(), processes.next_runs()
    found = []
    for name, (every, _function) in added["periodic_jobs"].items():
        found.append(Job(name, _does(name), every, rows.get(name), _to_come(next_runs.get(name), every)))
    return sorted(found, key=lambda job: (job.every, job.name))


def _to_come(at: datetime.datetime | None, every: float) -> datetime.datetime | None:
    """The next time that is not over: beat wrote `at` some seconds ago."""
    if at is None or (late := (timezone.now() - at).total_seconds()) < 0:
        return at
    return at + datetime.timedelta(seconds=every * math.ceil(late / every))


@cache
def _does(name: str) -> str:
    """The first paragraph of the task's docstring."""
    if name not in current_app.tasks:
        current_app.loader.import_default_modules()  # a web process may not have loaded all jobs
    task = current_app.tasks.get(name)
    text = inspect.getdoc(task.run) if task is not None else None
    return " ".join((text or "").split("\n\n")[0].split())
