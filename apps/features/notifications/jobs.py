"""Celery tasks: send a channel's notifications, publish due ones, delete old ones."""

from __future__ import annotations

import uuid
from typing import Any

from celery import shared_task
from celery.signals import worker_shutdown

from apps.features.notifications import sending
from apps.features.notifications.sending import SEND_TASK


@shared_task(name=SEND_TASK)  # type: ignore[untyped-decorator]
def send(channel: str) -> None:
    sending.send_thread().wake(uuid.UUID(channel))


@shared_task(name="notifications.sweep")  # type: ignore[untyped-decorator]
def sweep() -> int:
    """Queues notifications that are due, and frees those whose worker stopped."""
    return sending.publish_due()


@shared_task(name="notifications.forget")  # type: ignore[untyped-decorator]
def forget() -> int:
    """Deletes old notifications that were sent or skipped."""
    return sending.delete_old()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def close_worker(**_: Any) -> None:
    sending.close_send_thread()
