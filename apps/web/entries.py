"""Events as a conversation page gets them: with safe HTML, forms, and addresses instead of content.

Chunks of one artifact that follow each other come as one entry, under the index of the last; the finished artifact
comes with the `agent_complete` that delivers it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.template.loader import render_to_string
from django.urls import reverse

from apps.record import lineage, prose, wire
from apps.record.events import EventType
from apps.record.lifecycle import TERMINAL, TaskState
from apps.record.models import Context, Event
from apps.web import messages, parts, questions
from apps.web.authors import authors_of
from apps.web.deliveries import delivered_by, streamed_by
from apps.web.outlines import outline_of

JSON = dict[str, Any]

TOKENS = (EventType.AGENT_TOKEN_START, EventType.AGENT_TOKEN)
FORMAT = 5  # of entries; browsers forget what they kept in another one
LONGEST_VALUE = 2000  # characters of a tool's arguments or result


def entries_of(context: Context, events: Sequence[Event], *, is_merged: bool = True) -> list[JSON]:
    """The entries of some events that follow each other; one for each event, where they are not to be merged."""
    around, authors = _around(context, events), authors_of(context, events)
    entries: list[JSON] = []
    for event in events:
        entry = _entry(around, event)
        if author := authors.get(event.index):
            entry["agent"] = author
        if not (is_merged and entries and _merged(entries[-1], entry)):
            entries.append(entry)
    return entries


def settled_events(context: Context, after: int, before: int) -> list[Event]:
    """The events between `after` and `before`, without the pieces of what is whole by now, or came to nothing."""
    tasks, left = lineage.tasks(context), lineage.left(context)
    over, made = tasks.filter(state__in=TERMINAL), tasks.filter(state=TaskState.COMPLETED).exclude(pk__in=left)
    chunks = Q(type=EventType.ARTIFACT_UPDATE) & (Q(task__in=over.values("pk")) | Q(task__in=left))
    tokens = Q(type__in=TOKENS, task__in=made.values("pk"))
    return list(lineage.events(context, after, before - 1).exclude(chunks).exclude(tokens))


@dataclass(frozen=True, slots=True)
class _Around:
    """What is told of some events beside what they say, read for all of them at once."""

    context: Context
    delivered: dict[uuid.UUID | None, list[JSON]]
    streamed: dict[int, str]
    openings: dict[uuid.UUID, str]


def _around(context: Context, events: Sequence[Event]) -> _Around:
    return _Around(context, delivered_by(context, events), streamed_by(events), messages.openings(context, events))


def _entry(around: _Around, event: Event) -> JSON:
    entry: JSON = {
        "index": event.index,
        "type": event.type,
        "at": wire.timestamp(event.at),
        "taskId": str(event.task_id) if event.task_id else None,
    }
    payload = event.payload
    match event.type:
        case EventType.USER_MESSAGE:
            entry |= {"message": _own_message(around, event), "opensTask": "task" in payload}
        case EventType.AGENT_MESSAGE:
            entry["message"] = _message(around, event)
        case EventType.AGENT_STATUS:
            entry |= _status(around, event)
        case EventType.AGENT_START:
            entry |= {name: payload[name] for name in ("attempt", "turn", "messageId", "again") if name in payload}
        case EventType.AGENT_TOKEN_START | EventType.AGENT_TOKEN:
            entry |= {"artifactId": event.artifact_id, "text": payload.get("text", "")}
        case EventType.AGENT_TOKEN_END:
            entry |= {"artifactId": event.artifact_id, **_laid_out(around.streamed[event.index])}
        case EventType.ARTIFACT_UPDATE:
            entry |= _chunk(event)
        case EventType.AGENT_THOUGHT:
            entry["text"] = payload["text"]
        case EventType.AGENT_TOOL_CALL:
            entry |= {"callId": payload["callId"], "name": payload["name"], "value": _short(payload["arguments"])}
        case EventType.AGENT_TOOL_RESULT:
            entry |= {"callId": payload["callId"], "name": payload["name"], "value": _short(payload["result"])}
            entry["isError"] = payload["isError"]
        case EventType.AGENT_COMPLETE:
            entry["artifacts"] = [_named(one) for one in around.delivered[event.task_id]]
        case EventType.FEEDBACK:
            entry["rating"] = payload["rating"]
        case EventType.FORK:
            entry |= {"left": payload["left"], "leftAt": _left_at(around.context, event)}
        case EventType.SESSION_RENAMED:
            entry["title"] = payload["title"]
    return entry


def _message(around: _Around, event: Event, *, marked_up: bool = True, without_last: bool = False) -> JSON:
    """`without_last`: that part is said in another way."""
    message = event.payload["message"]
    said = message["parts"][:-1] if without_last else message["parts"]
    labels = _labels(event) if any("data" in part for part in said) else {}
    names = ((around.context.pk, event.index, number) for number in range(len(said)))
    shown = [
        parts.shown(part, reverse("web:message-file", args=name), marked_up=marked_up, labels=labels)
        for part, name in zip(said, names, strict=True)
    ]
    files = sum(part["kind"] == "file" for part in shown)
    entry = {"messageId": message["messageId"], "text": parts.words_of(said), "html": messages.said(shown)}
    return {**entry, "files": files} if files else entry


def _own_message(around: _Around, event: Event) -> JSON:
    message = _message(around, event, marked_up=False)
    about = {task: around.openings.get(task, "") for task in messages.references_of(event)}
    return {**message, "html": message["html"] + messages.own(message["text"], about)}


def _left_at(context: Context, fork: Event) -> str:
    """When what a fork leaves behind was last heard of in it: at the event that it goes on from."""
    goes_on_from = lineage.events(context, fork.index - 2, fork.index - 1).first()
    return wire.timestamp((goes_on_from or fork).at)


def _labels(event: Event) -> dict[str, str]:
    """What the fields of the question are called that a message answers."""
    before = Event.objects.filter(task=event.task_id, type=EventType.AGENT_STATUS, index__lt=event.index)
    asked = before.order_by("-index").first() if event.task_id else None
    return {field.name: field.label for field in questions.fields_of(asked.payload.get("slot") if asked else None)}


def _status(around: _Around, event: Event) -> JSON:
    payload = event.payload
    status: JSON = {"state": payload["state"]}
    if "progress" in payload:
        return status | {"progress": {"text": parts.words_of(payload["message"]["parts"]), **payload["progress"]}}
    wants = wanted_credential(payload)
    if "message" in payload:
        message = status["message"] = _message(around, event, without_last=wants is not None)
        if payload["state"] == TaskState.COMPLETED:
            message["html"] += messages.deliveries(around.delivered[event.task_id], message["text"])
    if wants is not None:
        return status | {"wantsCredential": True, "form": render_to_string("web/_credential.html", wants)}
    fields, outline = questions.fields_of(payload.get("slot")), outline_of(payload.get("slot"))
    if fields or outline:
        form = {"fields": fields, "outline": outline, "task": event.task_id, "asked": event.index}
        status["form"] = render_to_string("web/_question.html", form)
    return status


def wanted_credential(payload: JSON) -> JSON | None:
    """Which credential a status asks for, and where it is given; None for any other status."""
    if payload["state"] != TaskState.AUTH_REQUIRED or "service" not in payload.get("slot", {}):
        return None
    token = payload["message"]["metadata"]["url"].rpartition("/")[2]
    return {"service": payload["slot"]["service"], "href": reverse("web:credential", args=[token])}


def _laid_out(text: str) -> JSON:
    """A whole text: it takes the place of what streamed."""
    return {"text": text, "html": messages.prose(messages.with_copies(prose.laid_out(text)))}


def _chunk(event: Event) -> JSON:
    artifact = event.payload["artifact"]
    return {
        "artifactId": event.artifact_id,
        "name": artifact.get("name", ""),
        "begins": not event.payload["append"],
        "text": parts.words_of(artifact["parts"]),
        "size": sum(parts.size_of(part) or 0 for part in artifact["parts"]),
        "chunks": 1,
    }


def _merged(last: JSON, entry: JSON) -> bool:
    """Let `last` say what `entry` says too, where both are pieces of one artifact."""
    if (last["taskId"], last.get("artifactId")) != (entry["taskId"], entry.get("artifactId")):
        return False
    if last["type"] == entry["type"] == EventType.ARTIFACT_UPDATE and not entry["begins"]:
        last |= {name: last[name] + entry[name] for name in ("text", "size", "chunks")}
    elif entry["type"] == EventType.AGENT_TOKEN and last["type"] in (
        EventType.AGENT_TOKEN,
        EventType.AGENT_TOKEN_START,
    ):
        last["text"] += entry["text"]
    else:
        return False
    last["index"] = entry["index"]
    return True


def _named(artifact: JSON) -> JSON:
    return {name: artifact[name] for name in ("taskId", "artifactId", "name", "parts")}


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else prose.json_text(value)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"
