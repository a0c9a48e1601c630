from __future__ import annotations

from celery import shared_task

from apps.features.housekeeping import heartbeats, periodic, processes

__all__ = ["heartbeats", "periodic"]  # importing them connects their signals


@shared_task(name="housekeeping.forget")  # type: ignore[untyped-decorator]
def delete_gone_processes() -> int:
    """Deletes the rows of processes that were not seen for a day."""
    return processes.delete_gone()
