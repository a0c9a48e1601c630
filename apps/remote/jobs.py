from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.signals import worker_shutdown

from apps.remote.execution import cancellation
from apps.remote.federation.sync import sync_peers
from apps.remote.health_checks import close_process_checker, process_checker
from apps.remote.identity.artifact_verification import verify_due
from apps.remote.registration import refresh_due_cards


@shared_task(name="remote.refresh")  # type: ignore[untyped-decorator]
def refresh_cards() -> int:
    """Reads the cards of remote agents again."""
    return refresh_due_cards()


@shared_task(name="remote.check")  # type: ignore[untyped-decorator]
def check_agents() -> None:
    """Starts the health checks of remote agents that are due."""
    process_checker().check_due()


@shared_task(name="remote.verify")  # type: ignore[untyped-decorator]
def verify_signatures() -> int:
    """Verifies signatures of remote agents whose keys could not be fetched before."""
    return verify_due()


@shared_task(name="remote.sync_peers")  # type: ignore[untyped-decorator]
def refresh_peers() -> int:
    """Refreshes the keys and agents of paired installations."""
    return sync_peers()


@shared_task(name="remote.cancel")  # type: ignore[untyped-decorator]
def send_cancels() -> int:
    """Tells remote agents which tasks were canceled."""
    return cancellation.send_due_cancels()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def stop_checking(**_: Any) -> None:
    close_process_checker()
