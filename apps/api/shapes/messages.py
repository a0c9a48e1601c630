"""Messages: what was said, who said it, and what was done for it."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Q

from apps.api.shapes.naming import JSON, Slugs, parts_json, slugs_of, timestamp
from apps.record import authors, lineage, prose
from apps.record.authors import Author
from apps.record.events import EventType
from apps.record.models import Context, Event, Message
from apps.record.parts import words_of

TOOLS = (EventType.AGENT_TOOL_CALL, EventType.AGENT_TOOL_RESULT)


def messages_json(context: Context, rows: Sequence[Message], upto: int | None = None) -> list[JSON]:
    """Messages of a session or of its past, as they were after event `upto`. At most three queries, beside segments."""
    if not rows:
        return []
    events = _told_of(rows)
    wrote = authors.read(event for event in events if event.type in authors.SPEAKING)
    called, edits = _tool_calls(events, rows), _edits(context, upto)
    slugs = slugs_of(author.agent for author in wrote.values())
    nobody = Author()
    shown = []
    for row in rows:
        author, calls, edited = wrote.get(row.index, nobody), called.get(row.index, []), edits.get(str(row.pk), [])
        shown.append(_said(context.pk, row, author, slugs, calls, edited))
    return shown


def _said(
    session: uuid.UUID, row: Message, author: Author, slugs: Slugs, called: list[JSON], edits: list[JSON]
) -> JSON:
    words = words_of(row.parts)
    return {
        "id": str(row.pk),
        "sessionId": str(session),
        "index": row.index,
        "role": row.role,
        "content": words,
        "parts": parts_json(row.parts, session),
        "html": prose.laid_out(words) if words and row.role == Message.Role.AGENT else "",
        "timestamp": timestamp(row.created_at),
        "metadata": {
            "agentRunId": str(author.run) if author.run else None,
            "agent": slugs.get(author.agent),
            "agentVersion": author.version,
            "taskId": str(row.task_id) if row.task_id else None,
            "messageId": row.message_id,
            "toolCalls": called,
            "isEdited": bool(edits),
            "editHistory": edits,
        },
    }


def _told_of(rows: Sequence[Message]) -> list[Event]:
    """The events of agents' turns that say who wrote these messages and which tools were called, in their order."""
    by_agents = [row for row in rows if row.role == Message.Role.AGENT]
    alone: dict[uuid.UUID, list[int]] = defaultdict(list)
    for row in by_agents:
        if row.task_id is None:
            alone[row.context_id].append(row.index)
    if not by_agents:
        return []
    # Chunks and tokens, of which there are most, have an artifact: the index of a task's events passes them over.
    tasks = {row.task_id for row in by_agents if row.task_id}
    wanted = Q(task__in=tasks, artifact_id="", type__in=(*authors.SPEAKING, *TOOLS))
    for source, indexes in alone.items():
        wanted |= Q(context=source, index__in=indexes)
    # A task of a fork's past may go on where it is, under the indexes that the fork's own messages have.
    place = {row.index: row.context_id for row in rows}
    found = Event.objects.filter(wanted).order_by("index")
    return [event for event in found if place.get(event.index, event.context_id) == event.context_id]


def _tool_calls(events: Iterable[Event], rows: Sequence[Message]) -> dict[int, list[JSON]]:
    """By the index of an agent's message, the calls of the same run since its message before."""
    said = {row.index for row in rows}
    found: dict[int, list[JSON]] = {}
    open_calls: dict[Any, list[JSON]] = defaultdict(list)
    for event in events:
        if event.type == EventType.AGENT_TOOL_CALL:
            open_calls[event.run].append(_called(event))
        elif event.type == EventType.AGENT_TOOL_RESULT:
            _take_result(open_calls[event.run], event)
        elif event.index in said:
            found[event.index] = open_calls.pop(event.run, [])
    return found


def _called(event: Event) -> JSON:
    payload = event.payload
    return {
        "callId": payload["callId"],
        "name": payload["name"],
        "arguments": payload["arguments"],
        "result": None,
        "isError": False,
    }


def _take_result(calls: list[JSON], event: Event) -> None:
    for call in reversed(calls):
        if call["callId"] == event.payload["callId"]:
            call["result"], call["isError"] = event.payload["result"], event.payload["isError"]
            return


def _edits(context: Context, upto: int | None) -> dict[str, list[JSON]]:
    """By the id of a message, the sessions in which it was said anew."""
    found: dict[str, list[JSON]] = defaultdict(list)
    for event in lineage.events(context, upto=upto).filter(type=EventType.EDIT):
        edit = {"sessionId": event.payload["session"], "index": event.index, "timestamp": timestamp(event.at)}
        found[event.payload["messageId"]].append(edit)
    return found
