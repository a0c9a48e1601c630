"""The Celery tasks: a wake-up names a webhook; the sweep finds what wake-ups and couriers lost."""

from __future__ import annotations

import uuid
from typing import Any

from celery import shared_task
from celery.signals import worker_shutdown

from apps.a2a.webhooks import queues
from apps.a2a.webhooks.courier import close_this_process, this_process
from apps.a2a.webhooks.publishing import DELIVER, sweep


@shared_task(name=DELIVER)  # type: ignore[untyped-decorator]
def deliver(config: str) -> None:
    this_process().offer(uuid.UUID(config))


@shared_task(name="a2a.sweep")  # type: ignore[untyped-decorator]
def sweep_webhooks() -> None:
    sweep()


@shared_task(name="a2a.forget")  # type: ignore[untyped-decorator]
def forget_delivered() -> None:
    queues.forget_delivered()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def stop_calling(**_: Any) -> None:
    close_this_process()
