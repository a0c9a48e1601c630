"""From the log to the webhooks: a ledger listener, so that what is recorded and what is to be told are one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.db import transaction
from django.db.models.functions import Coalesce, Now

from apps.a2a.models import Delivery, PushConfig
from apps.a2a.webhooks.publishing import publish
from apps.record.events import EventType
from apps.record.models import Context, Event
from db.selections import Selection

CONFIGS = Selection(
    lambda task: PushConfig.objects.select_for_update().filter(task=task).order_by("pk").only("pk", "task_id"),
    uuid.UUID(int=0),
)


def queue_deliveries(context: Context, events: Sequence[Event]) -> None:
    """Queue what the webhooks of these events' tasks are to be told. Called for watched contexts alone."""
    told = [event for event in events if is_told(event)]
    if not told:
        return
    # The lock keeps a courier from finding the queue empty, and leaving it, while this is not yet committed.
    tasks = {event.task_id for event in told}
    configs = [config for task in tasks for config in CONFIGS.all(task)]
    waiting = [(config, event) for config in configs for event in told if event.task_id == config.task_id]
    if not waiting:
        return
    Delivery.objects.bulk_create([Delivery(config=config, event_index=event.index) for config, event in waiting])
    keys = {config.pk for config, _ in waiting}
    PushConfig.objects.filter(pk__in=keys).update(due_at=Coalesce("due_at", Now()))
    transaction.on_commit(lambda: publish(keys))


def is_told(event: Event) -> bool:
    """Every status, and the last chunk of every artifact."""
    match event.type:
        case EventType.AGENT_TOKEN_END:
            return True
        case EventType.AGENT_STATUS:
            return "kept" not in event.payload
        case EventType.ARTIFACT_UPDATE:
            return bool(event.payload["lastChunk"])
        case _:
            return False


def waits(context: Context) -> str:
    """Why the context has to stay in the tables (`COLD_OBSTACLES`)."""
    waiting = Delivery.objects.filter(config__task__context=context, state=Delivery.State.WAITING)
    return "A webhook is still to be told of it." if waiting.exists() else ""
