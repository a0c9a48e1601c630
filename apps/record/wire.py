"""The record as A2A 1.0 shows it: tasks, messages and artifacts, and events as stream responses."""

from __future__ import annotations

import datetime
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from django.conf import settings
from django.urls import reverse

from apps.agents import cards
from apps.record import blobs
from apps.record.events import JSON, EventType
from apps.record.lifecycle import TaskState
from apps.record.models import Artifact, Context, Event, Message, Task
from db.selections import Among, Selection

ROLES = {Message.Role.USER: "ROLE_USER", Message.Role.AGENT: "ROLE_AGENT"}
DELIVERED = Selection(
    lambda state, task: Artifact.objects.filter(state=state, task=task), Artifact.State.DELIVERED, uuid.UUID(int=0)
)
SAID = Among(lambda: Message.objects.order_by("index"), "task")
MADE = Among(lambda: Artifact.objects.order_by("first_event"), "task")
INLINE_AT_EDGE = 4 * 1024 * 1024  # bytes of a stored part that still travels inside an answer; larger ones are links


def timestamp(at: datetime.datetime) -> str:
    """A time in the form of ProtoJSON, in UTC with milliseconds."""
    return at.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def part(stored: JSON, context_id: object) -> JSON:
    """A part for the wire: content that is kept in a file comes inline, or as a link where it is very large."""
    if "stored" not in stored:
        return stored
    if stored["stored"]["size"] <= INLINE_AT_EDGE:
        return blobs.inline(stored)
    rest = {name: value for name, value in stored.items() if name != "stored"}
    return {"url": settings.PUBLIC_BASE_URL + download_path(stored, context_id), **rest}


def download_path(stored: JSON, context_id: object) -> str:
    """Where the content of a stored part is to be had by who may see its context."""
    return reverse("file", args=[context_id, stored["stored"]["sha256"]])


def _parts(parts: Iterable[JSON], context_id: object) -> list[JSON]:
    return [part(one, context_id) for one in parts]


def message(row: Message, context: Context) -> JSON:
    return _sent_message(stored_message(row, context), context)


def stored_message(row: Message, context: Context) -> JSON:
    """A message whose large parts still say where their content is kept."""
    shown = {
        "messageId": row.message_id,
        "contextId": context.context_id,
        "role": ROLES[Message.Role(row.role)],
        "parts": row.parts,
    }
    optional = {
        "taskId": str(row.task_id) if row.task_id else None,
        "metadata": row.metadata,
        "extensions": row.extensions,
        "referenceTaskIds": row.references,
    }
    return shown | {name: value for name, value in optional.items() if value}


def _sent_message(sent: JSON, context: Context) -> JSON:
    """A message as an event's payload has it."""
    return {**sent, "parts": _parts(sent["parts"], context.pk)}


def artifact(row: Artifact, context_key: object) -> JSON:
    stored = stored_artifact(row)
    return {**stored, "parts": _parts(stored["parts"], context_key)}


def stored_artifact(row: Artifact) -> JSON:
    """An artifact whose large parts still say where their content is kept, with its signature if it has one."""
    shown: JSON = {"artifactId": row.artifact_id, "parts": row.parts}
    signature = {cards.signature_extension(): row.signature} if row.signature else {}
    optional = {
        "name": row.name,
        "description": row.description,
        "metadata": {**row.metadata, **signature},
        "extensions": row.extensions,
    }
    return shown | {name: value for name, value in optional.items() if value}


def status(state: str, at: datetime.datetime, said: JSON | None, context: Context) -> JSON:
    shown: JSON = {"state": TaskState(state).wire, "timestamp": timestamp(at)}
    return shown | ({"message": _sent_message(said, context)} if said else {})


def task(
    row: Task,
    *,
    history: Sequence[Message] | None,
    artifacts: Sequence[Artifact] | None,
) -> JSON:
    """A Task with the given history and artifacts; None leaves the field out. `row.context` is used."""
    shown: JSON = {
        "id": str(row.pk),
        "contextId": row.context.context_id,
        "status": status(row.state, row.status_at, row.status_message, row.context),
    }
    if artifacts is not None:
        shown["artifacts"] = [artifact(one, row.context_id) for one in artifacts]
    if history is not None:
        shown["history"] = [message(one, row.context) for one in history]
    if row.metadata:
        shown["metadata"] = row.metadata
    return shown


def stored_tasks(rows: Sequence[Task], left_at: Mapping[uuid.UUID, int] = MappingProxyType({})) -> list[JSON]:
    """Tasks with their whole history and their artifacts; large parts still say where their content is kept.

    `left_at` says of some the event after which a fork left them behind: there they ended with that, and nothing came
    of them. `row.context` should be loaded. However many there are, it takes two queries.
    """
    said: dict[uuid.UUID | None, list[Message]] = defaultdict(list)
    keys = [row.pk for row in rows]
    for message in SAID.all(keys):
        said[message.task_id].append(message)
    made: dict[uuid.UUID, list[Artifact]] = defaultdict(list)
    for artifact in MADE.all(keys):
        if artifact.state == Artifact.State.DELIVERED:
            made[artifact.task_id].append(artifact)
    return [_stored(row, said[row.pk], made[row.pk], left_at.get(row.pk)) for row in rows]


def _stored(row: Task, said: Sequence[Message], made: Sequence[Artifact], left_at: int | None) -> JSON:
    shown: JSON = {"id": str(row.pk), "contextId": row.context.context_id}
    if left_at is not None:
        said = [one for one in said if one.index <= left_at]
        shown |= {"status": {"state": TaskState.CANCELED.wire}}
    else:
        shown |= {"status": {"state": TaskState(row.state).wire}, "artifacts": [stored_artifact(one) for one in made]}
    return shown | {"history": [stored_message(one, row.context) for one in said]}


def load_task(row: Task, *, history_length: int | None = None, up_to: int | None = None) -> JSON:
    """A Task with its delivered artifacts and the newest messages of its history (A2A 1.0 §3.2.4).

    `history_length` of None is the platform's default, 0 leaves the field out. Messages come as far as event `up_to`,
    by default as far as the row itself stands. `row.context` should be loaded; what was read along is not read again.
    """
    length = settings.DEFAULT_HISTORY_LENGTH if history_length is None else history_length
    if (shown := row.shown) and shown.length == length and up_to is None:
        return task(row, history=shown.history if length else None, artifacts=shown.artifacts)
    newest = row.context.last_event if up_to is None else up_to
    history = _newest_messages(length).all(row.pk, newest)[::-1] if length else None
    artifacts = DELIVERED.all(Artifact.State.DELIVERED, row.pk) if row.is_finished else []
    return task(row, history=history, artifacts=artifacts)


@lru_cache
def _newest_messages(number: int) -> Selection[Message]:
    """The newest messages of a task as far as an event, newest first."""
    return Selection(
        lambda task, up_to: Message.objects.filter(task=task, index__lte=up_to).order_by("-index")[:number],
        uuid.UUID(int=0),
        0,
    )


def stream_response(event: Event, context: Context) -> JSON | None:
    """The StreamResponse of an event: a status or artifact update; None for what does not cross the A2A border."""
    ids: JSON = {"taskId": str(event.task_id), "contextId": context.context_id}
    match event.type:
        case EventType.AGENT_STATUS if "kept" not in event.payload:
            payload = event.payload
            update = ids | {"status": status(payload["state"], event.at, payload.get("message"), context)}
            return {"statusUpdate": update | ({"metadata": hints} if (hints := _hints(payload)) else {})}
        case EventType.ARTIFACT_UPDATE:
            chunk = event.payload["artifact"]
            parts = _parts(chunk["parts"], context.pk) or [{"text": ""}]
            flags = {"append": event.payload["append"], "lastChunk": event.payload["lastChunk"]}
            return {"artifactUpdate": ids | {"artifact": {**chunk, "parts": parts}} | flags}
        case EventType.AGENT_TOKEN | EventType.AGENT_TOKEN_END:
            return {"artifactUpdate": ids | _token_update(event)}
        case _:
            return None


def _hints(payload: JSON) -> JSON:
    """What a status says beyond A2A: how far the work is, and the form of the answer that is asked for."""
    hints = {name: payload[name] for name in ("progress", "slot") if payload.get(name)}
    if "value" in hints.get("slot", {}):  # the agent's own
        hints["slot"] = {name: value for name, value in hints["slot"].items() if name != "value"}
    return hints


def _token_update(event: Event) -> JSON:
    payload = event.payload
    return {
        "artifact": {
            "artifactId": payload["artifactId"],
            "name": payload["name"],
            "parts": [{"text": payload["text"]}],
        },
        "append": not payload.get("first", False),
        "lastChunk": event.type == EventType.AGENT_TOKEN_END,
    }
