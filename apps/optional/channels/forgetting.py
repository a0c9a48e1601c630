"""What of chats goes, and when: with sessions, with workspaces, and with time."""

from __future__ import annotations

import datetime

from apps.optional.channels.models import ChatAnswer, ChatChannel, ChatEvent, ChatThread
from parley.db import sql
from parley.db.sql import Keys

KEPT = datetime.timedelta(days=7)  # longer than any platform delivers again
SWEPT_AT_ONCE = 200


def erase(contexts: Keys) -> None:
    """Delete the contexts' threads, and what was asked and posted in them (`before_erasure`)."""
    ChatAnswer.objects.filter(session__in=contexts).delete()
    ChatThread.objects.filter(session__in=contexts).delete()


def sweep() -> int:
    """Deletes channels of deleted workspaces, with their secrets. Returns how many."""
    ended = ChatChannel.objects.filter(workspace__deleted_at__isnull=False)[:SWEPT_AT_ONCE]
    return len([channel.delete() for channel in ended])


def forget_events() -> int:
    """Deletes old events that are done."""
    old = ChatEvent.objects.filter(done_at__isnull=False, received_at__lt=sql.database_time() - KEPT)
    return sql.delete_in_batches(old)
