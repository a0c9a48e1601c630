"""The Celery tasks of remote agents."""

from __future__ import annotations

from celery import shared_task

from apps.gateway.refreshing import refresh_due


@shared_task(name="gateway.refresh")  # type: ignore[untyped-decorator]
def refresh_cards() -> None:
    refresh_due()
