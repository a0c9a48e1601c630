"""Events: the lines of a session's log, with what is the house's own business left out."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from django.db.models import QuerySet

from apps.api.shapes.naming import JSON, Slugs, parts_json, slugs_of, timestamp
from apps.record.models import Event


@dataclass(slots=True)
class Line:
    """What is shown of an event. For thousands at once: a row takes several times as long to make."""

    index: int
    type: str
    task_id: uuid.UUID | None
    run: uuid.UUID | None
    payload: JSON
    at: datetime.datetime

    @classmethod
    def of(cls, events: QuerySet[Event]) -> list[Self]:
        return [cls(*values) for values in events.values_list(*cls.__slots__)]


def event_json(session: uuid.UUID, event: Event) -> JSON:
    """An event of a session or of its past."""
    return events_json(session, [event])[0]


def events_json(session: uuid.UUID, events: Sequence[Event | Line]) -> list[JSON]:
    """Events of a session or of its past. One query at most."""
    slugs = slugs_of(key for event in events for key in _agents_in(event.payload))
    name = str(session)
    return [
        {
            "id": f"{name}:{event.index}",
            "sessionId": name,
            "index": event.index,
            "type": event.type,
            "taskId": str(event.task_id) if event.task_id else None,
            "runId": str(event.run) if event.run else None,
            "payload": _payload(event.payload, session, slugs),
            "timestamp": timestamp(event.at),
        }
        for event in events
    ]


def _agents_in(payload: JSON) -> Iterator[int]:
    for holder in (payload, payload.get("opens"), payload.get("task")):
        if holder and isinstance(key := holder.get("agent"), int):
            yield key


def _payload(payload: JSON, session: uuid.UUID, slugs: Slugs) -> JSON:
    if "kept" in payload:
        return {}
    shown = dict(payload)
    if "agent" in shown:
        shown["agent"] = slugs.get(shown["agent"])
    if "opens" in shown:
        opens = {name: value for name, value in shown["opens"].items() if name not in ("owner", "workspace")}
        shown["opens"] = {**opens, "agent": slugs.get(opens["agent"])}
    if "task" in shown:
        shown["task"] = {**shown["task"], "agent": slugs.get(shown["task"]["agent"])}
    if "slot" in shown:
        shown["slot"] = asked(shown["slot"])
    for holder in ("message", "artifact"):
        if holder in shown:
            shown[holder] = {**shown[holder], "parts": parts_json(shown[holder]["parts"], session)}
    return shown


def asked(slot: JSON) -> JSON:
    """What a task asks for, without what its agent keeps for itself."""
    return {name: value for name, value in slot.items() if name != "value"}
