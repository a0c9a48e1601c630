"""Records what platforms send: checked, once, and answered before anything is done."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from django.db import transaction

from apps.optional.channels.acting import EVENTS_TO_ACT_ON
from apps.optional.channels.models import ChatChannel, ChatEvent, bounded
from apps.optional.channels.platforms import Inbound
from apps.record.content import strict_json
from parley.db import sql
from parley.db.sql import write_transaction

LONGEST_ID = 200


def find_channel(key: uuid.UUID) -> ChatChannel | None:
    """The channel at this address, unless its owner or its workspace is gone."""
    rows = ChatChannel.objects.select_related("agent", "owner")
    return rows.filter(pk=key, owner__is_active=True, workspace__deleted_at=None).first()


def record(channel: ChatChannel, events: Iterable[Inbound], refused: Mapping[str, str] = {}) -> int:
    """Have workers do what came in. What came before is left out; returns how many are new.

    `refused`: why something is not taken, by its event id.
    """
    if channel.paused_at:
        return 0
    now = sql.database_time()
    rows = [
        ChatEvent(
            channel=channel, event_id=bounded(one.event_id, LONGEST_ID), received_at=now, next_try_at=now,
            body=strict_json.to_storable(one.to_json(), repair=True),
        )
        for one in events
    ]  # fmt: skip
    rows += [
        ChatEvent(
            channel=channel, event_id=bounded(key, LONGEST_ID), received_at=now, next_try_at=now, done_at=now,
            problem=why[:300],
        )
        for key, why in refused.items()
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
        ids = [row.event_id for row in new if row.done_at is None]
        keys = list(ChatEvent.objects.filter(channel=channel, event_id__in=ids).values_list("pk", flat=True))
        transaction.on_commit(lambda: EVENTS_TO_ACT_ON.publish(*keys))
    return len(new)
