"""Celery tasks: deliver a webhook's queue, publish due webhooks, delete old deliveries."""

from __future__ import annotations

import uuid
from typing import Any

from celery import shared_task
from celery.signals import worker_shutdown

from apps.a2a import webhooks
from apps.a2a.webhooks import DELIVER_TASK, close_delivery_thread, delivery_thread, publish_due_webhooks


@shared_task(name=DELIVER_TASK)  # type: ignore[untyped-decorator]
def deliver(config: str) -> None:
    delivery_thread().wake(uuid.UUID(config))


@shared_task(name="a2a.sweep")  # type: ignore[untyped-decorator]
def sweep_webhooks() -> int:
    """Queues webhook deliveries that are due and that nobody has taken."""
    return publish_due_webhooks()


@shared_task(name="a2a.forget")  # type: ignore[untyped-decorator]
def delete_delivered() -> int:
    """Deletes old successful webhook deliveries."""
    return webhooks.delete_old_deliveries()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def close_worker(**_: Any) -> None:
    close_delivery_thread()
