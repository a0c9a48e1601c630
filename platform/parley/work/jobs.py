"""Celery's jobs: one for each list of work, and those that run at intervals (`periodic_jobs`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from celery import shared_task

from parley.registry import added
from parley.work.lists import work_lists
from parley.work.running import run


@cache
def register() -> None:
    """Make them known to Celery."""
    for one in work_lists():
        # What is lost with its worker, the sweep finds: no broker need wait for the end of long work.
        add_job(one.job, partial(run, one), one.work.__doc__, acks_late=False)
    for name, (_seconds, function) in added["periodic_jobs"].items():
        add_job(name, function, function.__doc__)


def add_job(name: str, function: Callable[..., Any], does: str | None, **options: Any) -> None:
    def job(*args: str) -> Any:
        return function(*args)

    job.__doc__ = does
    shared_task(name=name, **options)(job)


def schedule() -> dict[str, dict[str, Any]]:
    """When beat sends the periodic jobs. What it sends expires with the next."""
    return {
        name: {"task": name, "schedule": seconds, "options": {"expires": seconds}}
        for name, (seconds, _function) in added["periodic_jobs"].items()
    }


def is_run_by_beat(name: str) -> bool:
    """Does beat run this job itself, instead of sending it to a worker?"""
    _seconds, function = added["periodic_jobs"].get(name, (0, None))
    return function in added["run_by_beat"]
