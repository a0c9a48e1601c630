"""The Celery tasks of remote agents."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.signals import worker_shutdown

from apps.remote import canceling
from apps.remote.checker import close_this_process, this_process
from apps.remote.refreshing import refresh_due


@shared_task(name="remote.refresh")  # type: ignore[untyped-decorator]
def refresh_cards() -> None:
    refresh_due()


@shared_task(name="remote.check")  # type: ignore[untyped-decorator]
def check_agents() -> None:
    """Look after the remote agents that are due. The job names nobody and returns at once."""
    this_process().look()


@shared_task(name="remote.cancel")  # type: ignore[untyped-decorator]
def pass_cancels_on() -> None:
    """Tell remote agents what is not wanted any more and what nobody told them yet."""
    canceling.sweep()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def stop_checking(**_: Any) -> None:
    close_this_process()
