from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.signals import worker_shutdown

from apps.remote.execution import cancellation
from apps.remote.health_checks import close_process_checker, process_checker
from apps.remote.registration import refresh_due_cards


@shared_task(name="remote.refresh")  # type: ignore[untyped-decorator]
def refresh_cards() -> None:
    refresh_due_cards()


@shared_task(name="remote.check")  # type: ignore[untyped-decorator]
def check_agents() -> None:
    """Start the checks that are due; returns at once."""
    process_checker().check_due()


@shared_task(name="remote.cancel")  # type: ignore[untyped-decorator]
def send_cancels() -> None:
    cancellation.send_due_cancels()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def stop_checking(**_: Any) -> None:
    close_process_checker()
