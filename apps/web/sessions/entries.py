"""Events for a session page: entries with safe HTML, forms, and URLs instead of content.

Consecutive chunks of an artifact are one entry, with the last index. The finished artifact comes with its
`agent_complete`.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html

from apps.agents.models import Agent
from apps.record import lineage, wire
from apps.record.content import parts, rendering
from apps.record.events import JSON, EventType
from apps.record.models import TERMINAL_STATES, Context, Event, TaskState
from apps.web import questions
from apps.web.questions import outline_of
from apps.web.sessions import messages
from apps.web.sessions.artifacts import delivered_by
from apps.web.templatetags.parley import avatar

TOKENS = (EventType.AGENT_TOKEN_START, EventType.AGENT_TOKEN)
FORMAT = 5  # browsers drop cached entries of other versions
LONGEST_VALUE = 2000  # characters


def entries_of(context: Context, events: Sequence[Event], *, is_merged: bool = True) -> list[JSON]:
    """Entries of consecutive events; one for each event unless `is_merged`."""
    openings = messages.opening_texts(context, events)
    prefetched = _Prefetched(context, delivered_by(context, events), streamed_by(events), openings)
    authors = authors_of(context, events)
    entries: list[JSON] = []
    for event in events:
        entry = _entry(prefetched, event)
        if author := authors.get(event.index):
            entry["agent"] = author
        if not (is_merged and entries and _merge(entries[-1], entry)):
            entries.append(entry)
    return entries


def settled_events(context: Context, after: int, before: int) -> list[Event]:
    """The events between, without chunks of complete or discarded artifacts."""
    tasks, left = lineage.tasks(context), lineage.left_task_ids(context)
    over, made = tasks.filter(state__in=TERMINAL_STATES), tasks.filter(state=TaskState.COMPLETED).exclude(pk__in=left)
    chunks = Q(type=EventType.ARTIFACT_UPDATE) & (Q(task__in=over.values("pk")) | Q(task__in=left))
    tokens = Q(type__in=TOKENS, task__in=made.values("pk"))
    return list(lineage.events(context, after, before - 1).exclude(chunks).exclude(tokens))


@dataclass(frozen=True, slots=True)
class _Prefetched:
    """What entries show that is not in their events' payloads."""

    context: Context
    delivered: dict[uuid.UUID | None, list[JSON]]
    streamed: dict[int, str]
    openings: dict[uuid.UUID, str]


def _entry(prefetched: _Prefetched, event: Event) -> JSON:
    entry: JSON = {
        "index": event.index,
        "type": event.type,
        "at": wire.timestamp(event.at),
        "taskId": str(event.task_id) if event.task_id else None,
    }
    payload = event.payload
    match event.type:
        case EventType.USER_MESSAGE:
            entry |= {"message": _own_message(prefetched, event), "opensTask": "task" in payload}
        case EventType.AGENT_MESSAGE:
            entry["message"] = _message(prefetched, event)
        case EventType.AGENT_STATUS:
            entry |= _status(prefetched, event)
        case EventType.AGENT_START:
            entry |= {name: payload[name] for name in ("attempt", "turn", "messageId", "again") if name in payload}
        case EventType.AGENT_TOKEN_START | EventType.AGENT_TOKEN:
            entry |= {"artifactId": event.artifact_id, "text": payload.get("text", "")}
        case EventType.AGENT_TOKEN_END:
            entry |= {"artifactId": event.artifact_id, **_whole_text(prefetched.streamed[event.index])}
        case EventType.ARTIFACT_UPDATE:
            entry |= _artifact_chunk(event)
        case EventType.AGENT_THOUGHT:
            entry["text"] = payload["text"]
        case EventType.AGENT_TOOL_CALL:
            entry |= {"callId": payload["callId"], "name": payload["name"], "value": _shortened(payload["arguments"])}
        case EventType.AGENT_TOOL_RESULT:
            entry |= {"callId": payload["callId"], "name": payload["name"], "value": _shortened(payload["result"])}
            entry["isError"] = payload["isError"]
        case EventType.AGENT_COMPLETE:
            shown = ("taskId", "artifactId", "name", "parts")
            entry["artifacts"] = [{name: one[name] for name in shown} for one in prefetched.delivered[event.task_id]]
        case EventType.FEEDBACK:
            entry["rating"] = payload["rating"]
        case EventType.FORK:
            entry |= {"left": payload["left"], "leftAt": _left_at(prefetched.context, event)}
        case EventType.SESSION_RENAMED:
            entry["title"] = payload["title"]
    return entry


def _message(prefetched: _Prefetched, event: Event, *, marked_up: bool = True, without_last: bool = False) -> JSON:
    """`without_last`: the page shows the last part separately."""
    message = event.payload["message"]
    said = message["parts"][:-1] if without_last else message["parts"]
    labels = _labels(event) if any("data" in part for part in said) else {}
    names = ((prefetched.context.pk, event.index, number) for number in range(len(said)))
    shown = [
        messages.shown_part(part, reverse("web:message-file", args=name), marked_up=marked_up, labels=labels)
        for part, name in zip(said, names, strict=True)
    ]
    files = sum(part["kind"] == "file" for part in shown)
    entry = {"messageId": message["messageId"], "text": parts.words_of(said), "html": messages.message_html(shown)}
    return {**entry, "files": files} if files else entry


def _own_message(prefetched: _Prefetched, event: Event) -> JSON:
    message = _message(prefetched, event, marked_up=False)
    about = {task: prefetched.openings.get(task, "") for task in messages.referenced_tasks(event)}
    return {**message, "html": message["html"] + messages.own_message_footer(message["text"], about)}


def _left_at(context: Context, fork: Event) -> str:
    goes_on_from = lineage.events(context, fork.index - 2, fork.index - 1).first()
    return wire.timestamp((goes_on_from or fork).at)


def _labels(event: Event) -> dict[str, str]:
    before = Event.objects.filter(task=event.task_id, type=EventType.AGENT_STATUS, index__lt=event.index)
    asked = before.order_by("-index").first() if event.task_id else None
    return {field.name: field.label for field in questions.fields_of(asked.payload.get("slot") if asked else None)}


def _status(prefetched: _Prefetched, event: Event) -> JSON:
    payload = event.payload
    status: JSON = {"state": payload["state"]}
    if "progress" in payload:
        return status | {"progress": {"text": parts.words_of(payload["message"]["parts"]), **payload["progress"]}}
    wants = wanted_credential(payload)
    if "message" in payload:
        message = status["message"] = _message(prefetched, event, without_last=wants is not None)
        if payload["state"] == TaskState.COMPLETED:
            message["html"] += messages.artifact_chips(prefetched.delivered[event.task_id], message["text"])
    if wants is not None:
        return status | {"wantsCredential": True, "form": render_to_string("web/_credential.html", wants)}
    fields, outline = questions.fields_of(payload.get("slot")), outline_of(payload.get("slot"))
    if fields or outline:
        form = {"fields": fields, "outline": outline, "task": event.task_id, "asked": event.index}
        status["form"] = render_to_string("web/_question.html", form)
    return status


def wanted_credential(payload: JSON) -> JSON | None:
    """The credential that a status asks for, and the URL to give it; None if it asks for none."""
    if payload["state"] != TaskState.AUTH_REQUIRED or "service" not in payload.get("slot", {}):
        return None
    token = payload["message"]["metadata"]["url"].rpartition("/")[2]
    return {"service": payload["slot"]["service"], "href": reverse("web:credential", args=[token])}


def _whole_text(text: str) -> JSON:
    return {"text": text, "html": messages.prose_html(messages.with_copy_buttons(rendering.render_markdown(text)))}


def _artifact_chunk(event: Event) -> JSON:
    artifact = event.payload["artifact"]
    return {
        "artifactId": event.artifact_id,
        "name": artifact.get("name", ""),
        "begins": not event.payload["append"],
        "text": parts.words_of(artifact["parts"]),
        "size": sum(parts.size_of(part) or 0 for part in artifact["parts"]),
        "chunks": 1,
    }


def _merge(last: JSON, entry: JSON) -> bool:
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


def _shortened(value: Any) -> str:
    text = value if isinstance(value, str) else rendering.json_text(value)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"


LONGEST_MODEL = 80  # characters
SPOKEN_EVENTS = (EventType.AGENT_MESSAGE, EventType.AGENT_STATUS)


def agent_label(agent: Agent, models: str = "") -> JSON:
    """An agent's label at its messages: `mark` is HTML, with the models that wrote them."""
    by = format_html('<span class="model">{}</span>', models) if models else ""
    mark = format_html('{}<span class="who">{}</span>{}', avatar(agent), agent.name, by)
    return {"name": agent.name, "slug": agent.slug, "mark": mark}


def authors_of(context: Context, events: Sequence[Event]) -> dict[int, JSON]:
    """By index, the agents that events name. At most one query; two for old logs without names."""
    keys = {event.index: key for event in events if (key := _agent_key(event)) is not None}
    if unnamed := [event.index for event in events if event.index not in keys and _speaks(event)]:
        rows = lineage.messages(context).filter(index__in=unnamed, agent__isnull=False)
        keys |= dict(rows.values_list("index", "agent"))
    agents = Agent.objects.in_bulk(set(keys.values())) if keys else {}
    return {
        event.index: agent_label(agents[keys[event.index]], _models(event)) for event in events if event.index in keys
    }


def _models(event: Event) -> str:
    said: JSON = event.payload.get("message", {}).get("metadata", {}) if event.type in SPOKEN_EVENTS else {}
    models = said.get("models")
    names = [name for name in models if isinstance(name, str)] if isinstance(models, list) else []
    return ", ".join(names)[:LONGEST_MODEL]


def _agent_key(event: Event) -> int | None:
    payload: JSON = event.payload
    opened: JSON = payload.get("task") or {}
    key = opened.get("agent") if event.type == EventType.USER_MESSAGE else payload.get("agent")
    return key if isinstance(key, int) else None


def _speaks(event: Event) -> bool:
    return event.type in SPOKEN_EVENTS and "message" in event.payload and "progress" not in event.payload


def streamed_by(events: Iterable[Event]) -> dict[int, str]:
    """Complete streamed texts, by the index of the last event."""
    ends = [event for event in events if event.type == EventType.AGENT_TOKEN_END]
    if not ends:
        return {}
    pieces_of = Event.objects.filter(
        task__in={end.task_id for end in ends},
        artifact_id__in={end.artifact_id for end in ends},
        index__lte=max(end.index for end in ends),
    )
    pieces: defaultdict[tuple[uuid.UUID | None, str], list[Event]] = defaultdict(list)
    for piece in pieces_of.order_by("index"):
        pieces[piece.task_id, piece.artifact_id].append(piece)
    return {
        end.index: "".join(
            piece.payload.get("text", "") for piece in pieces[end.task_id, end.artifact_id] if piece.index <= end.index
        )
        for end in ends
    }
