"""What crosses the HTTP border, in three parts, in this order:

1. A2A 1.0 JSON: messages, artifacts, tasks, and stream responses of events.
2. Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html): `EventStream` to `sse_frame`.
3. Signed cursors of paged lists.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import uuid
import weakref
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.core import signing
from django.db import InterfaceError, OperationalError
from django.http import StreamingHttpResponse
from django.urls import reverse

from apps.accounts import revocation
from apps.agents import cards
from apps.record.content import blobs
from apps.record.content.strict_json import timestamp as timestamp
from apps.record.events import DELIVERED, JSON, EventType
from apps.record.models import Artifact, Context, Event, Message, Task, TaskState
from apps.record.reading.feed import running_hub
from apps.record.sql import ARTIFACTS_IN_STATE, ARTIFACTS_OF_TASKS, MESSAGES_OF_TASKS, NEWEST_MESSAGES
from parley import db

MAX_INLINE_BYTES = 4 * 1024 * 1024  # a larger stored part is sent as a link


def part(stored: JSON, context_id: object) -> JSON:
    """A part for the wire: the content of a stored file inline, or a link if it is large or lost."""
    if "stored" not in stored:
        return stored
    if stored["stored"]["size"] <= MAX_INLINE_BYTES:
        with suppress(FileNotFoundError):
            return blobs.inline(stored)
    rest = {name: value for name, value in stored.items() if name != "stored"}
    return {"url": settings.PUBLIC_BASE_URL + download_path(stored, context_id), **rest}


def download_path(stored: JSON, context_id: object) -> str:
    """The download path of a stored part, for callers who may see its context."""
    return reverse("file", args=[context_id, stored["stored"]["sha256"]])


def with_content(stored: JSON, context_id: object) -> JSON:
    """A message or an artifact with the content of its stored parts."""
    return {**stored, "parts": [part(one, context_id) if "stored" in one else one for one in stored["parts"]]}


def message(row: Message, context: Context) -> JSON:
    return with_content(row.stored(context), context.pk)


def artifact(row: Artifact, context_key: object) -> JSON:
    return with_content(stored_artifact(row), context_key)


def stored_artifact(row: Artifact) -> JSON:
    """The artifact with its signature, and with stored parts left as references to files."""
    shown: JSON = {"artifactId": row.artifact_id, "parts": row.parts}
    optional = {name: getattr(row, name) for name in ("name", "description", "metadata", "extensions", "signature")}
    return with_signature(shown | {name: value for name, value in optional.items() if value})


def with_signature(shown: JSON) -> JSON:
    """An artifact with its `signature` in its metadata."""
    signature = shown.pop("signature", None)
    metadata = {cards.signature_extension_uri(): signature} if signature else {}
    return shown | ({"metadata": shown.get("metadata", {}) | metadata} if metadata else {})


def status(
    state: str, at: datetime.datetime, said: JSON | None, context: Context, slot: Mapping[str, Any] | None = None
) -> JSON:
    """A TaskStatus, without a message that artifacts have. The message of a question has its slot in its metadata."""
    shown: JSON = {"state": TaskState(state).wire, "timestamp": timestamp(at)}
    if not said or DELIVERED in said:
        return shown
    return shown | {"message": with_slot(with_content(said, context.pk), slot)}


def with_slot(message: JSON, slot: Mapping[str, Any] | None) -> JSON:
    """A question's message with its slot (name and JSON Schema) as `slot` in its metadata."""
    return message | {"metadata": {**message.get("metadata", {}), "slot": _public_slot(slot)}} if slot else message


def _public_slot(slot: Mapping[str, Any]) -> JSON:
    """The slot without the agent's own data."""
    return {name: value for name, value in slot.items() if name != "value"}


def task(row: Task, *, history: Sequence[Message] | None, artifacts: Sequence[Artifact]) -> JSON:
    """A Task with this history and these artifacts; None omits the history. Reads `row.context`."""
    shown: JSON = {
        "id": str(row.pk),
        "contextId": row.context.context_id,
        "status": status(row.state, row.status_at, row.status_message, row.context, row.slot),
        "artifacts": [artifact(one, row.context_id) for one in artifacts],
    }
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
    return shown | {"history": [one.stored(row.context) for one in said]}


def load_task(row: Task, *, history_length: int | None = None, up_to: int | None = None) -> JSON:
    """A Task with its delivered artifacts and newest messages (A2A 1.0 §3.2.4), up to event `up_to`.

    `history_length`: None is the platform's default, 0 omits the field. `row.context` should be loaded.
    `task_json` gives the newest state as text.
    """
    length = settings.DEFAULT_HISTORY_LENGTH if history_length is None else history_length
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
            said, slot = payload.get("message"), payload.get("slot")
            update = ids | {"status": status(payload["state"], event.at, said, context, slot)}
            return {"statusUpdate": update | ({"metadata": hints} if (hints := _status_metadata(payload)) else {})}
        case EventType.ARTIFACT_UPDATE:
            chunk = with_content(event.payload["artifact"], context.pk)
            flags = {"append": event.payload["append"], "lastChunk": event.payload["lastChunk"]}
            return {"artifactUpdate": ids | {"artifact": {**chunk, "parts": chunk["parts"] or [{"text": ""}]}} | flags}
        case EventType.AGENT_TOKEN | EventType.AGENT_TOKEN_END:
            return {"artifactUpdate": ids | _token_update(event)}
        case _:
            return None


def _status_metadata(payload: JSON) -> JSON:
    """Our extensions of a status: progress, and the slot that asks for an answer."""
    hints = {"progress": payload.get("progress"), "slot": _public_slot(payload.get("slot") or {})}
    return {name: value for name, value in hints.items() if value}


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


HEARTBEAT_SECONDS = 15.0
BEATS_IN_HEARTBEAT = 15  # how often it is asked in that time whose heartbeat is due
PIECE_BYTES = 64 * 1024  # written at once, unless one frame is larger
RECHECK_SECONDS = 45.0  # between checks of the caller's access
STREAM_STARTED = b": begun\n\n"  # makes proxies send the response's head at once
HEARTBEAT = b": still here\n\n"
HEARTBEAT_WITH_ID = b": still here\nid: %b\n\n"  # where the next connection continues


class EventStream(StreamingHttpResponse):
    """A response of frames as they come. It holds no thread while it waits.

    `ended` is called when it closes, even if it never started. Once its head is sent, `frames` and `ended` are all that
    a server needs of it.
    """

    def __init__(
        self, frames: AsyncGenerator[bytes], ended: Callable[[], None], headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(frames, content_type="text/event-stream", headers=headers)
        self["Cache-Control"] = "no-store"
        self["X-Accel-Buffering"] = "no"
        self.frames, self.ended = frames, ended

    def close(self) -> None:
        super().close()
        self.ended()


class Sleeper:
    """A stream that waits: for what wakes it, or until it is time for a heartbeat."""

    __slots__ = ("beats_at", "caller", "woken")

    def __init__(self) -> None:
        self.caller = db.caller.get() or "somebody"
        self.beats_at = 0.0  # by the event loop's clock
        self.woken: asyncio.Future[None] | None = None

    def wake(self, _: object = None) -> None:
        if self.woken is not None and not self.woken.done():
            self.woken.set_result(None)

    def sleep(self) -> asyncio.Future[None]:
        """Is done when it wakes."""
        loop = asyncio.get_running_loop()
        self.woken, self.beats_at = loop.create_future(), loop.time() + HEARTBEAT_SECONDS
        return self.woken


class Pulse:
    """Wakes the streams of an event loop whose heartbeat is due, a few at a time: one timer for all of them."""

    def __init__(self) -> None:
        self._sleepers: set[Sleeper] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, sleeper: Sleeper) -> None:
        self._sleepers.add(sleeper)
        if self._timer is None:
            self._wait()

    def discard(self, sleeper: Sleeper) -> None:
        self._sleepers.discard(sleeper)
        if not self._sleepers and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS / BEATS_IN_HEARTBEAT, self._beat)

    def _beat(self) -> None:
        self._wait()
        before_next = asyncio.get_running_loop().time() + HEARTBEAT_SECONDS / BEATS_IN_HEARTBEAT
        due = {one.woken: one.caller for one in self._sleepers if one.woken is not None and one.beats_at < before_next}
        running_hub().turns.wake({woken: caller for woken, caller in due.items() if not woken.done()})


_pulses: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Pulse] = weakref.WeakKeyDictionary()


async def with_heartbeats[T](
    batches: AsyncGenerator[T],
    say: Callable[[T], Iterable[bytes]],
    alive: Callable[[], bytes] = lambda: HEARTBEAT,
    check: AccessCheck | None = None,
    last_words: Callable[[Exception], bytes] = lambda _: b"",
    first: Sequence[bytes] = (),
) -> AsyncGenerator[bytes]:
    """The `first` frames, those of each batch, and `alive` after silence. Closes `batches` at the end.

    It ends with `last_words` when `check` finds that the caller lost access, for example by a sign-out.
    """
    sleeper, pulse = Sleeper(), _pulses.setdefault(asyncio.get_running_loop(), Pulse())
    coming: asyncio.Task[tuple[T] | None] | None = None
    pulse.add(sleeper)
    if check is not None:
        check.sleepers.add(sleeper)
    try:
        for frame in first:
            yield frame
        while True:
            if coming is None:
                coming = asyncio.ensure_future(_next(batches))
                coming.add_done_callback(sleeper.wake)
            if not (coming.done() or (check is not None and check.changed.done())):
                await sleeper.sleep()
            if not coming.done():
                pieces = iter((alive(),))
            elif (came := coming.result()) is not None:
                pieces, coming, came = _pieces(say(came[0])), None, None
            else:
                return
            for piece in pieces:
                if check is not None and (refusal := await check.refusal()):
                    yield last_words(refusal)
                    return
                yield piece
                await asyncio.sleep(0)  # others have their turn
            piece, pieces = b"", iter(())  # what was sent is not kept while the stream waits
    finally:
        pulse.discard(sleeper)
        if check is not None:
            check.sleepers.discard(sleeper)
        await _close(batches, coming)


def _pieces(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Frames joined up to PIECE_BYTES, made as they are read."""
    waiting, size = list[bytes](), 0
    for frame in frames:
        waiting.append(frame)
        size += len(frame)
        if size >= PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


class AccessCheck:
    """Whether a caller still has access; asked for all streams together that give the same key.

    `find_refusal` runs on a database thread every RECHECK_SECONDS at most, and when something changed for the caller
    (`changed`). Database errors change nothing.
    """

    def __init__(self, find_refusal: Callable[[], Exception | None]) -> None:
        self._find_refusal = find_refusal
        self._sender = db.caller.get()
        self.sleepers: set[Sleeper] = set()
        self._watch(revocation.next_change(self._sender))
        self._asked_at = asyncio.get_running_loop().time()
        self._asking: asyncio.Future[Exception | None] | None = None
        self._has_refused = False

    @classmethod
    def shared(cls, key: Hashable, find_refusal: Callable[[], Exception | None]) -> AccessCheck:
        key = asyncio.get_running_loop(), key
        check = _access_checks.get(key)
        if check is None or check._has_refused:
            check = _access_checks[key] = cls(find_refusal)
        return check

    def _watch(self, changed: asyncio.Future[None]) -> None:
        self.changed, wake = changed, partial(_wake, self.sleepers)
        changed.add_done_callback(wake)
        weakref.finalize(self, changed.remove_done_callback, wake)  # others may watch it for longer

    async def refusal(self) -> Exception | None:
        """Why the caller has no access any more."""
        now = asyncio.get_running_loop().time()
        if self.changed.done() or now - self._asked_at >= RECHECK_SECONDS:
            self._asked_at = now
            if (changed := revocation.next_change(self._sender)) is not self.changed:
                self._watch(changed)
            self._asking = asyncio.ensure_future(db.run_for_stream(self._find_refusal))
        if self._asking is not None:
            with suppress(OperationalError, InterfaceError):
                refusal = await asyncio.shield(self._asking)
                self._has_refused = refusal is not None
                return refusal
        return None


_access_checks: weakref.WeakValueDictionary[Hashable, AccessCheck] = weakref.WeakValueDictionary()


def _wake(sleepers: set[Sleeper], _: object) -> None:
    for sleeper in sleepers:
        sleeper.wake()


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
    return text_frame(json_text(value), id_=id_, event=event)


def json_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def text_frame(data: str, *, id_: object = None, event: str = "") -> bytes:
    """One event; its data and `id_` must be one line each."""
    name = f"event: {event}\n" if event else ""
    key = f"id: {id_}\n" if id_ is not None else ""
    return f"{name}{key}data: {data}\n\n".encode()


class SharedJSON:
    """JSON that several streams send: written once, and once in each other form."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._forms: dict[Hashable, SharedJSON] = {}

    @cached_property
    def text(self) -> str:
        return json_text(self.value)

    def in_form(self, name: Hashable, convert: Callable[[Any], Any]) -> SharedJSON:
        """What `convert` makes of it; the same for the same name."""
        if name not in self._forms:
            self._forms[name] = SharedJSON(convert(self.value))
        return self._forms[name]


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
