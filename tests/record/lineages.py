"""What a conversation shows, for comparisons."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from django.db import connection

from apps.record import ledger, lineage, projection
from apps.record.events import EventType
from apps.record.models import Context


def shown(key: uuid.UUID) -> dict[str, Any]:
    """A conversation's log and derived rows."""
    context = Context.objects.get(pk=key)
    return {
        "events": [
            (event.index, event.type, event.task_id, event.run, event.payload, event.at)
            for event in lineage.events(context)
        ],
        "messages": [(row.pk, projection.row_values(row) | {"context_id": None}) for row in _messages(context)],
        "tasks": [projection.row_values(row) | {"context_id": None} for row in lineage.shown_tasks(context)],
        "artifacts": [projection.row_values(row) for row in lineage.artifacts(context).order_by("first_event")],
    }


def words(context: Context) -> list[str]:
    return [row.parts[0]["text"] for row in _messages(context)]


def place(context: Context, text: str) -> int:
    return next(row.index for row in _messages(context) if row.parts[0]["text"] == text)


def place_before(context: Context, text: str) -> int:
    """The index before this message."""
    return place(context, text) - 1


def rename(*contexts: uuid.UUID, title: str = "") -> None:
    for context in contexts:
        with ledger.writing(context) as log:
            log.add(EventType.SESSION_RENAMED, {"title": title or f"{log.context.last_event}"})


def started[T](threads: ThreadPoolExecutor, function: Callable[..., T], *args: Any) -> Future[T]:
    """A call in another thread, which closes its connection at the end."""

    def call() -> T:
        try:
            return function(*args)
        finally:
            connection.close()

    return threads.submit(call)


def _messages(context: Context) -> Any:
    return lineage.messages(context).order_by("index")
