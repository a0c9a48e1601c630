"""What agents delivered as a conversation page shows it: artifacts by name, type, size and address; texts whole."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.urls import reverse
from django.utils.html import format_html

from apps.record import lineage
from apps.record.events import EventType
from apps.record.lifecycle import TaskState
from apps.record.models import Artifact, Context, Event
from apps.web import parts
from apps.web.messages import inside_chip

JSON = dict[str, Any]

PICTURES = frozenset(f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "avif", "svg+xml"))
HEAVY = 2_000_000  # bytes of a picture that is named and not shown


def delivered_artifact(context: Context, row: Artifact) -> JSON:
    """An artifact with its files, for the panel."""
    joined = parts.pieces_joined(row.parts)
    files = [file_of(part, context, row, number) for number, part in enumerate(joined)]
    return {
        "taskId": str(row.task_id),
        "artifactId": row.artifact_id,
        "name": row.name,
        "description": row.description,
        "firstEvent": row.first_event,
        "isSigned": bool(row.signature),
        "parts": files,
        "chip": _chip(row.name, files),
        "look": address_of(context, row, "artifact-look"),
        "words": _words(joined),
    }


def _chip(name: str, files: list[JSON]) -> str:
    """What stands below an answer for an artifact: its sign, or the picture itself, its name and size. Safe HTML."""
    first: JSON = files[0] if files else {"mediaType": "", "size": None}
    sign = ""
    if (small := _thumbnail(files)) is not None:
        sign = format_html('<img class="thumbnail" src="{}" alt="" loading="lazy" decoding="async">', small)
    return inside_chip(name, first["mediaType"], first["size"], sign)


def _thumbnail(files: list[JSON]) -> str | None:
    """Where an artifact that begins with a picture of ours, and no heavy one, is to be seen small."""
    match files:
        case [{"mediaType": media_type, "size": int(size), "href": href, **rest}, *_] if "elsewhere" not in rest:
            return f"{href}?look" if media_type in PICTURES and size <= HEAVY else None
    return None


def _words(joined: list[JSON]) -> str:
    """What an artifact says that is nothing but words: a page need not name it below the same words."""
    return joined[0].get("text", "") if len(joined) == 1 and not joined[0].get("filename") else ""


def artifacts_before(context: Context, index: int) -> list[JSON]:
    """The delivered artifacts that were begun before this index, oldest first."""
    rows = lineage.artifacts(context).filter(first_event__lt=index)
    return [delivered_artifact(context, row) for row in rows.select_related("task").order_by("first_event")]


def delivered_by(context: Context, events: Iterable[Event]) -> dict[uuid.UUID | None, list[JSON]]:
    """The artifacts of the tasks that these events complete, by task."""
    finished = [event.task_id for event in events if _completes(event)]
    found: dict[uuid.UUID | None, list[JSON]] = {task: [] for task in finished}
    if finished:
        for row in Artifact.objects.delivered().filter(task__in=finished).order_by("first_event"):
            found[row.task_id].append(delivered_artifact(context, row))
    return found


def _completes(event: Event) -> bool:
    """Does the event name the artifacts of its task, or say its answer?"""
    is_answer = event.type == EventType.AGENT_STATUS and event.payload["state"] == TaskState.COMPLETED
    return is_answer or event.type == EventType.AGENT_COMPLETE


def streamed_by(events: Iterable[Event]) -> dict[int, str]:
    """The whole texts whose streams end with these events, by the events' indexes."""
    ends = [event for event in events if event.type == EventType.AGENT_TOKEN_END]
    if not ends:
        return {}
    told = Event.objects.filter(
        task__in={end.task_id for end in ends},
        artifact_id__in={end.artifact_id for end in ends},
        index__lte=max(end.index for end in ends),
    )
    pieces: defaultdict[tuple[uuid.UUID | None, str], list[Event]] = defaultdict(list)
    for piece in told.order_by("index"):
        pieces[piece.task_id, piece.artifact_id].append(piece)
    return {
        end.index: "".join(
            piece.payload.get("text", "") for piece in pieces[end.task_id, end.artifact_id] if piece.index <= end.index
        )
        for end in ends
    }


def file_of(part: JSON, context: Context, row: Artifact, number: int) -> JSON:
    """A part as a file with its address; that of a link is elsewhere."""
    if "url" in part:
        return {**parts.described_file(part), "href": parts.web_address(part["url"]), "elsewhere": True}
    return {**parts.described_file(part), "href": address_of(context, row, "artifact-file", number)}


def address_of(context: Context, row: Artifact, view: str, *part: int) -> str:
    """Where a view shows an artifact, or a part of it."""
    return reverse(f"web:{view}", args=[context.pk, row.task_id, row.artifact_id, *part])
