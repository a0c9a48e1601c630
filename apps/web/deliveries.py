"""Delivered artifacts as a conversation page lists them: by name, type, size and address."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from django.urls import reverse

from apps.conversations import wire
from apps.conversations.events import EventType
from apps.conversations.models import Artifact, Context, Event
from apps.web import parts

JSON = dict[str, Any]

LONGEST_WORDS = 2000  # characters


def delivered_artifact(context: Context, row: Artifact) -> JSON:
    """An artifact with its files, for the panel."""
    joined = parts.pieces_joined(row.parts)
    return {
        "taskId": str(row.task_id),
        "artifactId": row.artifact_id,
        "name": row.name,
        "description": row.description,
        "firstEvent": row.first_event,
        "at": wire.timestamp(row.created_at),
        "parts": [
            {**_file(part, context, row, number), "preview": _address(context, row, number, "artifact-preview")}
            for number, part in enumerate(joined)
        ],
        "words": _words(joined),
    }


def _words(joined: list[JSON]) -> str:
    """What a short artifact says that is nothing but words: a page need not name it below the same words."""
    words = joined[0].get("text", "") if len(joined) == 1 and not joined[0].get("filename") else ""
    return words if len(words) <= LONGEST_WORDS else ""


def artifacts_before(context: Context, index: int) -> list[JSON]:
    """The delivered artifacts that were begun before this index, oldest first."""
    rows = Artifact.objects.delivered().filter(task__context=context, first_event__lt=index)
    return [delivered_artifact(context, row) for row in rows.select_related("task").order_by("first_event")]


def delivered_by(events: Iterable[Event]) -> dict[uuid.UUID | None, list[Artifact]]:
    """The artifacts of the tasks that these events complete, by task."""
    finished = [event.task_id for event in events if event.type == EventType.AGENT_COMPLETE]
    found: dict[uuid.UUID | None, list[Artifact]] = {task: [] for task in finished}
    if finished:
        for row in Artifact.objects.delivered().filter(task__in=finished).order_by("first_event"):
            found[row.task_id].append(row)
    return found


def _file(part: JSON, context: Context, row: Artifact, number: int) -> JSON:
    href = _address(context, row, number, "artifact-file")
    if "url" in part:
        href = parts.web_address(part["url"])
    return {**parts.described_file(part), "href": href}


def _address(context: Context, row: Artifact, number: int, view: str) -> str:
    return reverse(f"web:{view}", args=[context.pk, row.task_id, row.artifact_id, number])
