"""What crosses the HTTP border, in four parts, in this order:

1. A2A 1.0 JSON: messages, artifacts, tasks, and stream responses of events.
2. The newest messages of many tasks in one query, for lists of tasks.
3. Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html): `EventStream` to `sse_frame`.
4. Signed cursors of paged lists.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.core import signing
from django.db import InterfaceError, OperationalError, connection
from django.http import StreamingHttpResponse
from django.urls import reverse

import db
from apps.agents import cards
from apps.record.content import blobs
from apps.record.events import JSON, EventType
from apps.record.models import Artifact, Context, Event, Message, Task, TaskState
from apps.record.sql import ARTIFACTS_IN_STATE, ARTIFACTS_OF_TASKS, MESSAGES_OF_TASKS, NEWEST_MESSAGES
from db.sql import execute, quote

ROLES = {Message.Role.USER: "ROLE_USER", Message.Role.AGENT: "ROLE_AGENT"}
MAX_INLINE_BYTES = 4 * 1024 * 1024  # a larger stored part is sent as a link


def timestamp(at: datetime.datetime) -> str:
    """The time as ProtoJSON, in UTC with milliseconds."""
    return at.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def part(stored: JSON, context_id: object) -> JSON:
    """A part for the wire: the content of a stored file inline, or a link if it is large."""
    if "stored" not in stored:
        return stored
    if stored["stored"]["size"] <= MAX_INLINE_BYTES:
        return blobs.inline(stored)
    rest = {name: value for name, value in stored.items() if name != "stored"}
    return {"url": settings.PUBLIC_BASE_URL + download_path(stored, context_id), **rest}


def download_path(stored: JSON, context_id: object) -> str:
    """The download path of a stored part, for callers who may see its context."""
    return reverse("file", args=[context_id, stored["stored"]["sha256"]])


def _with_content(stored: JSON, context_id: object) -> JSON:
    """A message or an artifact with the content of its stored parts."""
    return {**stored, "parts": [part(one, context_id) if "stored" in one else one for one in stored["parts"]]}


def message(row: Message, context: Context) -> JSON:
    return _with_content(stored_message(row, context), context.pk)


def stored_message(row: Message, context: Context) -> JSON:
    """The message with stored parts left as references to files."""
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


def artifact(row: Artifact, context_key: object) -> JSON:
    return _with_content(stored_artifact(row), context_key)


def stored_artifact(row: Artifact) -> JSON:
    """The artifact with its signature, and with stored parts left as references to files."""
    shown: JSON = {"artifactId": row.artifact_id, "parts": row.parts}
    signature = {cards.signature_extension_uri(): row.signature} if row.signature else {}
    optional = {
        "name": row.name,
        "description": row.description,
        "metadata": {**row.metadata, **signature},
        "extensions": row.extensions,
    }
    return shown | {name: value for name, value in optional.items() if value}


def status(state: str, at: datetime.datetime, said: JSON | None, context: Context) -> JSON:
    shown: JSON = {"state": TaskState(state).wire, "timestamp": timestamp(at)}
    return shown | ({"message": _with_content(said, context.pk)} if said else {})


def task(
    row: Task,
    *,
    history: Sequence[Message] | None,
    artifacts: Sequence[Artifact] | None,
) -> JSON:
    """A Task with this history and these artifacts; None omits the field. Reads `row.context`."""
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
    """Tasks with their whole history and artifacts, in two queries; stored parts stay references to files.

    `left_at`: for a task that a fork left behind, the event at which it ended there. `row.context` should be loaded.
    """
    said: dict[uuid.UUID | None, list[Message]] = defaultdict(list)
    keys = [row.pk for row in rows]
    for message in MESSAGES_OF_TASKS.all(keys):
        said[message.task_id].append(message)
    made: dict[uuid.UUID, list[Artifact]] = defaultdict(list)
    for artifact in ARTIFACTS_OF_TASKS.all(keys):
        if artifact.state == Artifact.State.DELIVERED:
            made[artifact.task_id].append(artifact)
    return [_stored_task(row, said[row.pk], made[row.pk], left_at.get(row.pk)) for row in rows]


def _stored_task(row: Task, said: Sequence[Message], made: Sequence[Artifact], left_at: int | None) -> JSON:
    shown: JSON = {"id": str(row.pk), "contextId": row.context.context_id}
    if left_at is not None:
        said = [one for one in said if one.index <= left_at]
        shown |= {"status": {"state": TaskState.CANCELED.wire}}
    else:
        shown |= {"status": {"state": TaskState(row.state).wire}, "artifacts": [stored_artifact(one) for one in made]}
    return shown | {"history": [stored_message(one, row.context) for one in said]}


def load_task(row: Task, *, history_length: int | None = None, up_to: int | None = None) -> JSON:
    """A Task with its delivered artifacts and newest messages (A2A 1.0 §3.2.4), up to event `up_to`.

    `history_length`: None is the platform's default, 0 omits the field. `row.context` should be loaded; `row.shown`
    saves the queries.
    """
    length = settings.DEFAULT_HISTORY_LENGTH if history_length is None else history_length
    if (shown := row.shown) and shown.length == length and up_to is None:
        return task(row, history=shown.history if length else None, artifacts=shown.artifacts)
    newest = row.context.last_event if up_to is None else up_to
    history = NEWEST_MESSAGES.all(row.pk, newest, length)[::-1] if length else None
    artifacts = ARTIFACTS_IN_STATE.all(row.pk, Artifact.State.DELIVERED) if row.is_finished else []
    return task(row, history=history, artifacts=artifacts)


def stream_response(event: Event, context: Context) -> JSON | None:
    """The StreamResponse of an event: a status or artifact update; None if A2A has none for it."""
    ids: JSON = {"taskId": str(event.task_id), "contextId": context.context_id}
    match event.type:
        case EventType.AGENT_STATUS if "kept" not in event.payload:
            payload = event.payload
            update = ids | {"status": status(payload["state"], event.at, payload.get("message"), context)}
            return {"statusUpdate": update | ({"metadata": hints} if (hints := _status_metadata(payload)) else {})}
        case EventType.ARTIFACT_UPDATE:
            chunk = _with_content(event.payload["artifact"], context.pk)
            flags = {"append": event.payload["append"], "lastChunk": event.payload["lastChunk"]}
            return {"artifactUpdate": ids | {"artifact": {**chunk, "parts": chunk["parts"] or [{"text": ""}]}} | flags}
        case EventType.AGENT_TOKEN | EventType.AGENT_TOKEN_END:
            return {"artifactUpdate": ids | _token_update(event)}
        case _:
            return None


def _status_metadata(payload: JSON) -> JSON:
    """Our extensions of a status: progress, and the slot that asks for an answer."""
    hints = {name: payload[name] for name in ("progress", "slot") if payload.get(name)}
    if "value" in hints.get("slot", {}):  # private to the agent
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


HISTORY_FIELD_NAMES = ("task", "role", "message_id", "parts", "references", "extensions", "metadata")
HISTORY_FIELDS: list[Any] = [Message._meta.get_field(name) for name in HISTORY_FIELD_NAMES]
TASK_FIELD = HISTORY_FIELDS[0]
EMPTY_JSON = {"[]": list, "{}": dict}  # most fields of most messages: no need to parse them


def newest_messages_by_task(tasks: Sequence[uuid.UUID], length: int) -> dict[uuid.UUID, list[Message]]:
    """Each task's newest `length` messages, oldest first, with HISTORY_FIELDS only."""
    found: dict[uuid.UUID, list[Message]] = defaultdict(list)
    if not tasks:
        return found
    keys = [TASK_FIELD.get_db_prep_value(task, connection) for task in tasks]
    rows = execute(_newest_messages_sql(len(keys)), [*keys, length]).fetchall()
    names = [field.attname for field in HISTORY_FIELDS]
    for task, role, message_id, *values in rows:
        key = task if isinstance(task, uuid.UUID) else uuid.UUID(task)
        row = Message.from_db(connection.alias, names, [key, role, message_id, *map(_json_value, values)])
        found[key].append(row)
    return found


def _newest_messages_sql(tasks: int) -> str:
    table, index = quote(Message._meta.db_table), quote("index")
    columns = ", ".join(quote(field.column) for field in HISTORY_FIELDS)
    of_tasks = f"{quote(TASK_FIELD.column)} IN ({', '.join(['%s'] * tasks)})"
    rank = f"ROW_NUMBER() OVER (PARTITION BY {quote(TASK_FIELD.column)} ORDER BY {index} DESC)"
    ranked = f"SELECT {columns}, {index}, {rank} AS place FROM {table} WHERE {of_tasks}"  # noqa: S608
    return f"SELECT {columns} FROM ({ranked}) AS ranked WHERE place <= %s ORDER BY {index}"  # noqa: S608


def _json_value(text: str) -> object:
    """The value of a JSON column, which raw cursors give as text."""
    empty = EMPTY_JSON.get(text)
    return empty() if empty else json.loads(text)


HEARTBEAT_SECONDS = 15.0
RECHECK_SECONDS = 45.0  # between checks of the caller's access
STREAM_STARTED = b": begun\n\n"  # makes proxies send the response's head at once
HEARTBEAT = b": still here\n\n"
HEARTBEAT_WITH_ID = b": still here\nid: %b\n\n"  # where the next connection continues


class EventStream(StreamingHttpResponse):
    """A response of frames as they come. It holds no thread while it waits.

    `ended` is called when it closes, even if it never started.
    """

    def __init__(
        self, frames: AsyncGenerator[bytes], ended: Callable[[], None], headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(frames, content_type="text/event-stream", headers=headers)
        self["Cache-Control"] = "no-store"
        self["X-Accel-Buffering"] = "no"
        self._ended = ended

    def close(self) -> None:
        super().close()
        self._ended()


async def with_heartbeats[T](
    batches: AsyncGenerator[T], say: Callable[[T], bytes], alive: Callable[[], bytes] = lambda: HEARTBEAT
) -> AsyncGenerator[bytes]:
    """`say` of each batch, and `alive` after silence. Closes `batches` at the end."""
    coming: asyncio.Task[tuple[T] | None] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(batches))
            done, _ = await asyncio.wait({coming}, timeout=HEARTBEAT_SECONDS)
            if not done:
                yield alive()
                continue
            if (came := coming.result()) is None:
                return
            coming = None
            yield say(came[0])
    finally:
        await _close(batches, coming)


async def until_revoked(frames: AsyncGenerator[bytes], last_words: Callable[[], bytes | None]) -> AsyncGenerator[bytes]:
    """The frames, until the caller loses access, for example by a sign-out.

    `last_words` runs on a database thread when a frame comes, at most every RECHECK_SECONDS. It gives the final frame,
    or None to continue. Database errors do not end the stream.
    """
    clock = asyncio.get_running_loop().time
    checked = clock()
    async with aclosing(frames):
        async for frame in frames:
            if clock() - checked >= RECHECK_SECONDS:
                checked = clock()
                last = None
                with suppress(OperationalError, InterfaceError):
                    last = await db.run(last_words)
                if last is not None:
                    yield last
                    return
            yield frame


async def _next[T](batches: AsyncGenerator[T]) -> tuple[T] | None:
    try:
        return (await anext(batches),)
    except StopAsyncIteration:
        return None


async def _close[T](batches: AsyncGenerator[T], coming: asyncio.Task[tuple[T] | None] | None) -> None:
    """Stop following, even in the middle of waiting."""
    if coming is not None:
        coming.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await coming
    await batches.aclose()


def sse_frame(value: Any, *, id_: object = None, event: str = "") -> bytes:
    """One event with JSON data; `id_` must be one line."""
    name = f"event: {event}\n" if event else ""
    key = f"id: {id_}\n" if id_ is not None else ""
    data = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return f"{name}{key}data: {data}\n\n".encode()


class InvalidCursor(Exception):
    """The text is not a cursor of this list for this caller."""


def binding(*bound: Any) -> str:
    """The salt that binds a cursor to these values; their `repr` must differ where they differ."""
    return "page." + hashlib.sha256(repr(bound).encode()).hexdigest()


def encode_cursor(place: list[Any], bound: str) -> str:
    """A place in a list (JSON values) as signed text."""
    return signing.dumps(place, salt=bound, compress=False)


def decode_cursor(text: str, bound: str) -> list[Any]:
    """The place of a cursor. Raises InvalidCursor."""
    try:
        place: list[Any] = signing.loads(text, salt=bound)
    except signing.BadSignature:
        raise InvalidCursor from None
    return place
