"""Recording what a handler says: in batches, the first at once; tokens are coalesced, artifact chunks never."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import InterfaceError, OperationalError

import db
from agentkit import (
    Chunk,
    Emission,
    Foreign,
    Progress,
    SkillChosen,
    Thought,
    Token,
    ToolCall,
    ToolResult,
    Usage,
    WholeAnswer,
)
from apps.engine.assignment import Assignment
from apps.engine.finish import ANSWER, Tokens, progress_status
from apps.engine.output import OutputLimits, clean, clean_emission
from apps.record import ledger, runs
from apps.record.content import blobs
from apps.record.events import JSON, EventType
from apps.record.models import Context, Event, TaskState
from apps.record.runs import Lease, UsageTotals

BATCH_SIZE = 100  # emissions recorded in one transaction
MAX_WAITING = 400  # emissions that may wait before the handler has to
YIELD_EVERY = 50  # tokens that are taken without a look at what others do
TOKEN_SECONDS = 0.04
TOKEN_BYTES = 2048


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be."""

    type: EventType
    payload: JSON
    artifact_id: str = ""


@dataclass(slots=True)
class TokenBuffer:
    """Tokens that wait together: what is said faster than it is recorded costs next to nothing."""

    texts: list[str]
    size: int
    is_taken: bool = False

    def take(self, text: str) -> bool:
        """One more, unless these are being recorded or are enough for an event."""
        if self.is_taken or self.size >= TOKEN_BYTES:
            return False
        self.texts.append(text)
        self.size += len(text)
        return True


type Queued = Emission | TokenBuffer | NewEvent


class RecordLost(Exception):
    """The database stayed away: what was said could not be recorded, and the run is taken up again later."""


class Recorder:
    """Takes in what a handler says (`emit`) and records it in order, on behalf of a run.

    An error of the record ends the recording; it is raised by the next `emit` and by `close`.
    """

    def __init__(self, assignment: Assignment) -> None:
        self.has_spoken = False  # has the handler said anything?
        self.streamed = False  # has anything that becomes an artifact been said?
        self.spent = UsageTotals.of([assignment.usage])
        self.bounds = OutputLimits()
        self._is_closed = False
        self._is_late = False  # was anything said after the end?
        self._has_progress = False  # has the handler told any itself?
        self._assignment = assignment
        self._redaction = assignment.redaction
        self._queue: asyncio.Queue[Queued | None] = asyncio.Queue(MAX_WAITING)
        self._writer: asyncio.Task[None] | None = None
        self._tail: TokenBuffer | None = None  # the newest of what is queued, if it is of tokens
        self._token_artifact = ""
        self._token_text: list[str] = []
        self._pending_text = ""
        self._tokens_at = 0.0

    async def emit(self, emission: Emission) -> None:
        """Record an emission soon; waits while too many are waiting.

        What comes after the turn's end is ignored. Raises ValueError for what JSON cannot say, and output.TooLarge.
        """
        if self._is_closed:
            self._note_late()
            return
        self.has_spoken = True
        self.bounds.admit(emission)
        if isinstance(emission, Usage):
            self.spent.add(clean_emission(emission))
            return
        if isinstance(emission, Thought) and not self._assignment.agent.keep_thoughts:
            return
        self._has_progress |= isinstance(emission, Progress)
        if isinstance(emission, Token) and self._tail is not None and self._tail.take(clean(emission.text)):
            if len(self._tail.texts) % YIELD_EVERY == 0:
                await asyncio.sleep(0)  # all others have their turn, however much is said
            return
        await self._record_soon(emission)

    async def relay(self, progress: Progress) -> None:
        """Record the progress of a child, unless the handler tells progress itself."""
        self.has_spoken = True
        if not (self._has_progress or self._is_closed):
            await self._record_soon(progress)

    async def record(self, line: NewEvent) -> None:
        """Record an event of the platform's own, in its order among what the handler says."""
        await self._queued(line)

    async def _record_soon(self, emission: Emission) -> None:
        cleaned = self._redaction(clean_emission(emission, self._assignment.given))
        await self._queued(TokenBuffer([cleaned.text], len(cleaned.text)) if isinstance(cleaned, Token) else cleaned)

    async def _queued(self, queued: Queued) -> None:
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())
        await self._put(self._writer, queued)
        self._tail = queued if isinstance(queued, TokenBuffer) and not queued.is_taken else None

    async def close(self) -> Tokens | None:
        """Record what waits; gives the tokens that were streamed, whose last piece belongs to the turn's end.

        Raises LeaseLost, and whatever else kept it from being recorded.
        """
        self._is_closed = True
        if self._writer is not None:
            await self._put(self._writer, None)
            await self._writer
        if not self._token_artifact:
            return None
        text = self._redaction("".join(self._token_text))
        return Tokens(self._token_artifact, text, self._redaction(self._pending_text))

    async def _put(self, writer: asyncio.Task[None], emission: Queued | None) -> None:
        """Queue it, unless the recording has ended or ends while there is no room: then its error is raised."""
        if not (writer.done() or self._queue.full()):
            self._queue.put_nowait(emission)
            return
        putting = asyncio.ensure_future(self._queue.put(emission))
        try:
            await asyncio.wait({putting, writer}, return_when=asyncio.FIRST_COMPLETED)
            if writer.done():
                await writer
        finally:
            putting.cancel()

    def _note_late(self) -> None:
        if not self._is_late:
            self._is_late = True
            db.later(runs.add_note, self._assignment.lease.run_id, "What the agent said after its end was ignored.")

    def abandon(self) -> None:
        """Record no more."""
        if self._writer is not None and not self._writer.cancel() and not self._writer.cancelled():
            self._writer.exception()  # retrieved, so that asyncio does not report it as overlooked

    async def _write(self) -> None:
        while True:
            batch = await self._next_batch()
            ended = None in batch
            lines = [line for emission in batch if emission is not None for line in self._lines(emission)]
            if not ended:
                lines += self._due_tokens()
            elif not self._token_artifact:
                lines += self._token_lines(whole=True)
            if lines:
                await self._record(lines)
            if ended:
                return

    async def _record(self, lines: Sequence[NewEvent]) -> None:
        try:
            await db.persist(EventBatch(self._assignment, lines).write)
        except (OperationalError, InterfaceError) as error:
            raise RecordLost from error

    async def _next_batch(self) -> list[Queued | None]:
        """What is there, at least one; nothing when it is time for waiting tokens."""
        try:
            async with asyncio.timeout(self._token_wait()):
                batch = [await self._queue.get()]
        except TimeoutError:
            return []
        while len(batch) < BATCH_SIZE and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        for one in batch:
            if isinstance(one, TokenBuffer):
                one.is_taken = True
        return batch

    def _token_wait(self) -> float | None:
        if not self._sayable:
            return None
        return max(0.0, self._tokens_at + TOKEN_SECONDS - asyncio.get_running_loop().time())

    def _lines(self, emission: Queued) -> list[NewEvent]:
        if isinstance(emission, TokenBuffer):
            text = "".join(emission.texts)
            self._token_text.append(text)
            self._pending_text += text
            return self._token_lines() if len(self._pending_text) >= TOKEN_BYTES else []
        if isinstance(emission, WholeAnswer):
            return self._whole_answer(emission.text)
        if isinstance(emission, Chunk):
            self.streamed = True
        return [*self._token_lines(), emission if isinstance(emission, NewEvent) else event_of(emission)]

    def _whole_answer(self, text: str) -> list[NewEvent]:
        """Replace the streamed artifact by the full text, and close it."""
        key = self._token_artifact or str(uuid.uuid4())
        artifact = {"artifactId": key, "name": ANSWER, "parts": [{"text": text}]}
        self.streamed, self._token_artifact, self._pending_text = True, "", ""
        self._token_text.clear()
        payload = {"artifact": artifact, "append": False, "lastChunk": True}
        return [NewEvent(EventType.ARTIFACT_UPDATE, payload, key)]

    def _due_tokens(self) -> list[NewEvent]:
        return self._token_lines() if self._token_wait() == 0.0 else []

    @property
    def _sayable(self) -> int:
        """How many characters of the waiting tokens are sure not to begin a secret."""
        return len(self._pending_text) - self._redaction.held_back(self._pending_text)

    def _token_lines(self, *, whole: bool = False) -> list[NewEvent]:
        """The waiting tokens as one event; the first begins the artifact that they will be."""
        length = len(self._pending_text) if whole else self._sayable
        text, self._pending_text = self._redaction(self._pending_text[:length]), self._pending_text[length:]
        if not text:
            return []
        self._tokens_at = asyncio.get_running_loop().time()
        token = {"artifactId": self._token_artifact, "name": ANSWER, "text": text}
        if self._token_artifact:
            return [NewEvent(EventType.AGENT_TOKEN, token, self._token_artifact)]
        self.streamed = True
        self._token_artifact = token["artifactId"] = str(uuid.uuid4())
        start = {"artifactId": self._token_artifact, "name": ANSWER}
        return [
            NewEvent(EventType.AGENT_TOKEN_START, start, self._token_artifact),
            NewEvent(EventType.AGENT_TOKEN, {**token, "first": True}, self._token_artifact),
        ]


@dataclass(slots=True)
class EventBatch:
    """Lines to be written on behalf of a run, in one transaction, once however often it is tried."""

    assignment: Assignment
    lines: Sequence[NewEvent]
    _tried_after: int | None = None  # the context's newest event when it was tried before

    def write(self) -> None:
        """Write them, unless an earlier try was committed and only its answer got lost. Raises LeaseLost."""
        lease, task = self.assignment.lease, self.assignment.task.pk
        stored = [_with_large_parts_stored(line) for line in self.lines]
        with ledger.writing(self.assignment.task.context, lease=lease) as log:
            if self._tried_after is not None and _has_said_more(log.context, lease, self._tried_after):
                return
            self._tried_after = log.context.last_event
            for line in stored:
                log.add(line.type, line.payload, task=task, artifact_id=line.artifact_id)


def _has_said_more(context: Context, lease: Lease, after: int) -> bool:
    """Are there events of the run after this one? While the run is held, nobody but its recorder writes them."""
    return Event.objects.filter(context=context, run=lease.run_id, index__gt=after).exists()


def _with_large_parts_stored(line: NewEvent) -> NewEvent:
    if line.type != EventType.ARTIFACT_UPDATE:
        return line
    artifact = line.payload["artifact"]
    parts = blobs.store_large(artifact["parts"])
    return NewEvent(line.type, {**line.payload, "artifact": {**artifact, "parts": parts}}, line.artifact_id)


def event_of(emission: Emission) -> NewEvent:
    """The event that says what an emission says."""
    match emission:
        case Progress():
            return NewEvent(EventType.AGENT_STATUS, progress_status(emission))
        case Chunk():
            return _chunk_event(emission)
        case Thought():
            return NewEvent(EventType.AGENT_THOUGHT, {"text": emission.text})
        case ToolCall():
            called = {"callId": emission.call_id, "name": emission.name, "arguments": emission.arguments}
            return NewEvent(EventType.AGENT_TOOL_CALL, called)
        case ToolResult():
            result = {"callId": emission.call_id, "name": emission.name, "result": emission.result}
            return NewEvent(EventType.AGENT_TOOL_RESULT, result | {"isError": emission.is_error})
        case SkillChosen():
            return NewEvent(EventType.AGENT_STATUS, {"state": TaskState.WORKING, "skill": emission.skill})
        case Foreign():
            return NewEvent(EventType.AGENT_STATUS, {"state": TaskState.WORKING, "kept": emission.said})
        case Token() | WholeAnswer() | Usage():
            raise AssertionError("tokens are coalesced before, and usage is added up")


def _chunk_event(emission: Chunk) -> NewEvent:
    artifact: dict[str, Any] = {"artifactId": emission.artifact_id, "parts": list(emission.parts)}
    about = {name: getattr(emission, name) for name in ("name", "description", "metadata", "extensions")}
    artifact |= {name: value for name, value in about.items() if value}
    payload = {"artifact": artifact, "append": emission.append, "lastChunk": emission.last}
    return NewEvent(EventType.ARTIFACT_UPDATE, payload, emission.artifact_id)
