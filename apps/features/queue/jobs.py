import asyncio
import uuid

from celery import shared_task

from apps.engine.queue import SEND_QUEUED
from apps.features.queue.messages import send_due


@shared_task(name=SEND_QUEUED)  # type: ignore[untyped-decorator]
def send_queued(context_id: str) -> None:
    asyncio.run(send_due(uuid.UUID(context_id)))
