"""Records what platforms send: checked, once, and answered before anything is done."""

from __future__ import annotations

import datetime
import hashlib
import uuid
from collections.abc import Iterable

from django.db import transaction

from apps.optional.channels.acting import EVENTS_TO_ACT_ON
from apps.optional.channels.models import ChatChannel, ChatEvent
from apps.optional.channels.platforms import Inbound
from apps.record.content import strict_json
from parley.db import sql
from parley.db.sql import write_transaction

KEPT = datetime.timedelta(days=7)  # longer than any platform delivers again
LONGEST_ID = 200


def find_channel(key: uuid.UUID) -> ChatChannel | None:
    """The channel at this address, unless it is paused or its owner is gone."""
    rows = ChatChannel.objects.select_related("agent", "owner")
    return rows.filter(pk=key, owner__is_active=True).first()


def record(channel: ChatChannel, events: Iterable[Inbound]) -> int:
    """Have workers do what came in. What came before is left out; returns how many are new."""
    events = [] if channel.paused_at else list(events)
    now = sql.database_time()
    rows = [
        ChatEvent(
            channel=channel, event_id=_bounded(one.event_id), received_at=now, next_try_at=now,
            body=strict_json.to_storable(one.to_json(), repair=True),
        )
        for one in events
    ]  # fmt: skip
    if not rows:
        return 0
    with write_transaction():
        known = set(
            ChatEvent.objects.filter(channel=channel, event_id__in=[row.event_id for row in rows]).values_list(
                "event_id", flat=True
            )
        )
        new = [row for row in rows if row.event_id not in known]
        # Another process may record the same now.
        ChatEvent.objects.bulk_create(new, ignore_conflicts=True)
        ChatChannel.objects.filter(pk=channel.pk).update(last_event_at=now)
        ids = [row.event_id for row in new]
        keys = list(ChatEvent.objects.filter(channel=channel, event_id__in=ids).values_list("pk", flat=True))
        transaction.on_commit(lambda: EVENTS_TO_ACT_ON.publish(*keys))
    return len(new)


def _bounded(event_id: str) -> str:
    return event_id if len(event_id) <= LONGEST_ID else hashlib.sha256(event_id.encode()).hexdigest()


def forget_events() -> int:
    """Deletes old events that are done."""
    old = ChatEvent.objects.filter(done_at__isnull=False, received_at__lt=sql.database_time() - KEPT)
    return sql.delete_in_batches(old)
