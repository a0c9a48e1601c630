"""Records what a handler says: the first emission at once, the rest in batches.

Tokens are coalesced (about `TOKEN_SECONDS` or `MAX_TOKEN_LENGTH` per event); artifact chunks never are.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError

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
from agentkit.llm import mcp_apps
from apps.engine.finish import ANSWER, StreamedText, progress_status
from apps.engine.turns.assignment import Assignment
from apps.engine.turns.emitted import labels_of, parts_of, with_labels, with_parts
from apps.engine.turns.guards import Guard, Stream, Verdict, Way
from apps.engine.turns.output import NewEvent, OutputLimits, clean, clean_emission, run_values, with_large_parts_stored
from apps.record import ledger, runs
from apps.record.events import JSON, EventType
from apps.record.models import Event, TaskState
from apps.record.runs import UsageTotals
from parley import db
from parley.telemetry import metrics

BATCH_SIZE = 100
MAX_WAITING = 400  # emissions; more make the handler wait
YIELD_EVERY = 50  # tokens after which other coroutines get a turn
TOKEN_SECONDS = 0.04
MAX_TOKEN_LENGTH = 2048  # characters of one token event
LONG_TEXT = 10_000  # characters that a guard searches in a thread


@dataclass(slots=True)
class TokenBuffer:
    texts: list[str]
    size: int
    is_taken: bool = False

    def take(self, text: str) -> bool:
        """Add a token, unless the buffer is full or being recorded."""
        if self.is_taken or self.size >= MAX_TOKEN_LENGTH:
            return False
        self.texts.append(text)
        self.size += len(text)
        return True


type Waiting = Emission | TokenBuffer | NewEvent | asyncio.Future[None]
"""A future is done when everything before it is stored."""


async def _fed(stream: Stream, text: str) -> str:
    """What of a text passes now. A long one is searched in a thread."""
    return stream.feed(text) if len(text) < LONG_TEXT else await asyncio.to_thread(stream.feed, text)


async def _rest(stream: Stream) -> list[Any]:
    return [{"text": rest}] if (rest := await asyncio.to_thread(stream.end)) else []


class RecordLost(Exception):
    """The database stayed away; the run is executed again later."""


class Recorder:
    """Records a handler's emissions in order.

    If recording fails, it ends; the next `emit` and `close` raise the error.

    Attributes:
        has_spoken: has the handler said anything?
        streamed: has anything been said that becomes an artifact?
        is_written: is anything stored that was said?
        unwritten: after `close`, the last events, which are to be recorded with the turn's end.
        guard: what checks all that is recorded.
        held: what waits until the guard has checked all of it.
        blocked: why nothing more may pass the guard; "" if it may.
    """

    def __init__(self, assignment: Assignment) -> None:
        self.has_spoken = False
        self.streamed = False
        self.is_written = False
        self.unwritten: list[NewEvent] = []
        self.usage = UsageTotals.of([assignment.usage]) if assignment.usage else UsageTotals()
        self.limits = OutputLimits()
        self.guard: Guard | None = None
        self.held: list[Emission] = []
        self.blocked = ""
        self._guarded: list[JSON] = []  # decisions of the guard
        self._streams: dict[str, tuple[Stream, Chunk]] = {}  # the texts of artifacts that come in pieces
        self._checked: dict[str, tuple[list[JSON], list[JSON]]] = {}  # what of artifacts is no text, and as it may pass
        self._stream: Stream | None = None  # the text that comes in tokens
        self._is_closed = False
        self._is_late = False
        self._has_progress = False
        self._assignment = assignment
        self._redaction = assignment.redaction
        self._waiting: asyncio.Queue[Waiting | None] = asyncio.Queue(MAX_WAITING)
        self._writer: asyncio.Task[None] | None = None
        self._newest_tokens: TokenBuffer | None = None
        self._token_artifact = ""
        self._token_text: list[str] = []
        self._pending_text = ""
        self._tokens_at = 0.0

    async def emit(self, emission: Emission) -> None:
        """Record an emission soon; waits while too many are waiting. Ignored after the turn's end.

        Raises ValueError for what JSON cannot hold, and output.TooLarge.
        """
        if self._is_closed:
            if not self._is_late:
                self._is_late = True
                note = "What the agent said after its end was ignored."
                db.later(runs.add_note, self._assignment.lease.run_id, note)
            return
        self.has_spoken = True
        self.limits.admit(emission)
        if isinstance(emission, ToolResult) and emission.app:
            emission = replace(emission, app=emission.app | {"agent": self._assignment.agent.pk})
        if isinstance(emission, Usage):
            self.note_usage(clean_emission(emission))
            return
        if isinstance(emission, Thought) and not self._assignment.agent.keep_thoughts:
            return
        self._has_progress |= isinstance(emission, Progress)
        if self._is_checked:
            await self._record_checked(emission)
            return
        await self.pass_on([emission])

    def note_usage(self, usage: Usage) -> None:
        """Count a use of a language model for the run."""
        counts = self.usage.add(usage)
        self._assignment.cost += counts.get("cost", 0.0)
        self._assignment.tokens += counts["inputTokens"] + counts["outputTokens"]
        count_usage(str(usage.model), counts)

    def note_verdict(self, verdict: Verdict) -> None:
        """Keep the decisions about what the agent says until its turn ends, and count what they cost."""
        self._guarded += verdict.decisions
        for one in verdict.used:
            self.note_usage(one)

    async def pass_on(self, emissions: Iterable[Emission]) -> None:
        """Record what need not be checked any more."""
        for one in emissions:
            await self._pass_on(one)

    async def _pass_on(self, emission: Emission) -> None:
        tokens = self._newest_tokens
        if isinstance(emission, Token) and tokens is not None and tokens.take(clean(emission.text)):
            if len(tokens.texts) % YIELD_EVERY == 0:
                await asyncio.sleep(0)
            return
        await self._record_soon(emission)

    @property
    def _is_checked(self) -> bool:
        return self.guard is not None and Way.OUT in self.guard.ways

    async def _record_checked(self, emission: Emission) -> None:
        """Record what of an emission passes the guard; what must wait is held."""
        assert self.guard is not None
        if self.blocked:
            return
        if self.guard.holds and not (isinstance(emission, Progress) and not self.guard.judges):
            self.held.append(clean_emission(emission, self._assignment.stored_file))
        elif isinstance(emission, Token):
            self._stream = self._stream or self.guard.stream()
            if text := await _fed(self._stream, clean(emission.text)):
                await self._pass_on(Token(text))
            self.blocked = self._stream.blocked
        elif (found := await self.checked(emission)) is not None:
            await self._pass_on(found)

    async def checked[E: Emission](self, emission: E) -> E | None:
        """The emission as it may be recorded; None if it may not. Without a guard, it is cleaned alone."""
        cleaned = self._redaction(clean_emission(emission, self._assignment.stored_file))
        if not self._is_checked or self.guard is None:
            return cleaned
        if isinstance(cleaned, WholeAnswer) and self._stream is not None:
            await self._end_stream(self._stream)
            self._stream = None
        elif isinstance(cleaned, Chunk):
            if not cleaned.append and cleaned.artifact_id in self._streams:  # it is replaced
                await self._end_stream(self._streams.pop(cleaned.artifact_id)[0])
            if cleaned.append or not cleaned.last:
                return await self._streamed(cleaned)
        passed = await self._passed(parts_of(cleaned))
        return with_parts(cleaned, passed) if passed is not None else None

    async def _passed(self, parts: list[JSON]) -> list[JSON] | None:
        """The parts as the guard lets them pass; None if it does not."""
        assert self.guard is not None
        verdict = await self.guard.check(Way.OUT, parts)
        self.note_verdict(verdict)
        if verdict.blocked and not self.guard.holds:
            self.blocked = self.blocked or verdict.blocked
        return None if verdict.blocked or verdict.asks else verdict.parts

    async def _streamed[E: Emission](self, chunk: E) -> E | None:
        """A piece of an artifact, without the end of its text that a pattern may still match."""
        assert isinstance(chunk, Chunk)
        assert self.guard is not None
        labels: list[JSON] = labels_of(chunk)
        beside: list[JSON] = [{**part, "text": ""} if "text" in part else {**part} for part in chunk.parts]
        passed = await self._passed_once(chunk.artifact_id, labels + beside)
        if passed is None:
            return None
        stream = self._streams[chunk.artifact_id][0] if chunk.artifact_id in self._streams else self.guard.stream()
        chunk = with_labels(chunk, passed[: len(labels)])
        self._streams[chunk.artifact_id] = stream, chunk
        parts: list[Any] = []
        for part, other in zip(chunk.parts, passed[len(labels) :], strict=True):
            if "text" in part:
                parts.append({**other, "text": await _fed(stream, part["text"])})
            else:
                parts += [*(await _rest(stream)), other]
        if chunk.last:
            parts += await _rest(stream)
            await self._end_stream(self._streams.pop(chunk.artifact_id)[0])
        return replace(chunk, parts=parts)

    async def _passed_once(self, artifact: str, parts: list[JSON]) -> list[JSON] | None:
        """What of an artifact's chunk is no text, as it may pass. It is checked again only if it is not as before."""
        if all(part == {"text": ""} for part in parts):
            return parts
        if (known := self._checked.get(artifact)) is not None and known[0] == parts:
            return known[1]
        passed = await self._passed(parts)
        if passed is not None:
            self._checked[artifact] = parts, passed
        return passed

    async def _end_stream(self, stream: Stream) -> None:
        self._guarded += await asyncio.to_thread(lambda: stream.decisions)
        self.blocked = self.blocked or stream.blocked

    async def end_guarded(self) -> list[JSON]:
        """Record the ends of texts that came in pieces. Returns what the guard decided about all that was said."""
        for stream, last in list(self._streams.values()):
            if rest := await _rest(stream):
                await self._pass_on(replace(last, parts=rest, append=True, joined=True, last=False))
            await self._end_stream(stream)
        self._streams.clear()
        if self._stream is not None:
            for rest in await _rest(self._stream):
                await self._pass_on(Token(rest["text"]))
            await self._end_stream(self._stream)
            self._stream = None
        return self._guarded

    async def relay(self, progress: Progress) -> None:
        """Record a child's progress, unless the handler reports its own."""
        self.has_spoken = True
        if not (self._has_progress or self._is_closed):
            if self._is_checked:
                await self._record_checked(progress)
            else:
                await self._record_soon(progress)

    async def _record_soon(self, emission: Emission) -> None:
        cleaned = self._redaction(clean_emission(emission, self._assignment.stored_file))
        await self.record(TokenBuffer([cleaned.text], len(cleaned.text)) if isinstance(cleaned, Token) else cleaned)

    async def record(self, waiting: Waiting) -> None:
        """Record something in order with the emissions, such as the platform's own event."""
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())
        await self._put(self._writer, waiting)
        self._newest_tokens = waiting if isinstance(waiting, TokenBuffer) and not waiting.is_taken else None

    async def record_now(self, event: NewEvent) -> None:
        """Record an event, and wait until it is stored. Raises LeaseLost, RecordLost."""
        self.has_spoken = True
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self.record(event)
        await self.record(stored)
        assert self._writer is not None
        await asyncio.wait({stored, self._writer}, return_when=asyncio.FIRST_COMPLETED)
        if not stored.done():
            await self._writer

    async def close(self) -> StreamedText | None:
        """Record what waits, but for `unwritten`. Returns the streamed text; its rest is recorded with the turn's end.

        Raises LeaseLost, RecordLost.
        """
        self._is_closed = True
        if self._writer is not None:
            await self._put(self._writer, None)
            await self._writer
        if not self._token_artifact:
            return None
        text = self._redaction("".join(self._token_text))
        return StreamedText(self._token_artifact, text, self._redaction(self._pending_text))

    async def _put(self, writer: asyncio.Task[None], waiting: Waiting | None) -> None:
        """Enqueue it. Raises the recording's error if it ends meanwhile."""
        if not (writer.done() or self._waiting.full()):
            self._waiting.put_nowait(waiting)
            return
        putting = asyncio.ensure_future(self._waiting.put(waiting))
        try:
            await asyncio.wait({putting, writer}, return_when=asyncio.FIRST_COMPLETED)
            if writer.done():
                await writer
        finally:
            putting.cancel()

    def abandon(self) -> None:
        if self._writer is not None and not self._writer.cancel() and not self._writer.cancelled():
            self._writer.exception()  # retrieved, or asyncio would log it

    async def _write(self) -> None:
        while True:
            batch = await self._next_batch()
            is_end = None in batch
            events = [event for waiting in batch if waiting is not None for event in self._events_of(waiting)]
            if is_end and not self._token_artifact:
                events += self._token_events(whole=True)
            elif not is_end and self._seconds_to_tokens() == 0.0:
                events += self._token_events()
            if is_end and not any(isinstance(one, asyncio.Future) for one in batch):
                self.unwritten = events
            elif events:
                self.is_written = True
                try:
                    await db.persist(EventBatch(self._assignment, events).write)
                except (OperationalError, InterfaceError) as error:
                    raise RecordLost from error
            for one in batch:
                if isinstance(one, asyncio.Future) and not one.done():
                    one.set_result(None)
            if is_end:
                return

    async def _next_batch(self) -> list[Waiting | None]:
        try:
            async with asyncio.timeout(self._seconds_to_tokens()):
                batch = [await self._waiting.get()]
        except TimeoutError:
            return []
        while len(batch) < BATCH_SIZE and not self._waiting.empty():
            batch.append(self._waiting.get_nowait())
        for one in batch:
            if isinstance(one, TokenBuffer):
                one.is_taken = True
        return batch

    def _seconds_to_tokens(self) -> float | None:
        if not self._safe_length:
            return None
        return max(0.0, self._tokens_at + TOKEN_SECONDS - asyncio.get_running_loop().time())

    def _events_of(self, waiting: Waiting) -> list[NewEvent]:
        if isinstance(waiting, asyncio.Future):
            return []
        if isinstance(waiting, TokenBuffer):
            text = "".join(waiting.texts)
            self._token_text.append(text)
            self._pending_text += text
            return self._token_events() if len(self._pending_text) >= MAX_TOKEN_LENGTH else []
        if isinstance(waiting, WholeAnswer):
            return self._whole_answer(waiting.text)
        if isinstance(waiting, Chunk):
            self.streamed = True
        return [*self._token_events(), waiting if isinstance(waiting, NewEvent) else event_of(waiting)]

    def _whole_answer(self, text: str) -> list[NewEvent]:
        key = self._token_artifact or str(uuid.uuid4())
        artifact = {"artifactId": key, "name": ANSWER, "parts": [{"text": text}]}
        self.streamed, self._token_artifact, self._pending_text = True, "", ""
        self._token_text.clear()
        payload = {"artifact": artifact, "append": False, "lastChunk": True}
        return [NewEvent(EventType.ARTIFACT_UPDATE, payload, key)]

    @property
    def _safe_length(self) -> int:
        """How many characters of the pending tokens cannot begin a secret."""
        return len(self._pending_text) - self._redaction.held_back(self._pending_text)

    def _token_events(self, *, whole: bool = False) -> list[NewEvent]:
        """The pending tokens as one event. The first also starts the artifact."""
        length = len(self._pending_text) if whole else self._safe_length
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
    """Events of a run, written in one transaction, once even if retried."""

    assignment: Assignment
    events: Sequence[NewEvent]
    _tried_after: int | None = None

    def write(self) -> None:
        """Write them, unless an earlier try was committed and only its reply was lost. Raises LeaseLost, TooLarge."""
        workspace = self.assignment.task.workspace_id
        stored = [with_large_parts_stored(event, workspace) for event in self.events]
        if self._tried_after is None:
            ledger.unless_stale(partial(self._write, stored))
        else:
            self._write(stored, True)

    def _write(self, events: Sequence[NewEvent], lock: bool) -> None:
        assignment, context = self.assignment, self.assignment.task.context
        lease, task = assignment.lease, assignment.task.pk
        with ledger.writing(context, lease=lease, lease_values=run_values(events), lock=lock) as log:
            if lock and self._tried_after is not None:
                newer = Event.objects.filter(context=log.context, index__gt=self._tried_after)
                if newer.filter(run=lease.run_id).exists():  # only the run's holder writes its events
                    return
            self._tried_after = context.last_event
            for event in events:
                log.add(event.type, event.payload, task=task, artifact_id=event.artifact_id)


def count_usage(model: str, counts: JSON) -> None:
    metrics.MODEL_CALLS[model].inc(counts["requests"])
    metrics.MODEL_TOKENS[model, "input"].inc(counts["inputTokens"])
    metrics.MODEL_TOKENS[model, "output"].inc(counts["outputTokens"])
    if "cost" in counts:
        metrics.MODEL_COST[model, settings.CURRENCY].inc(counts["cost"])


def event_of(emission: Emission) -> NewEvent:
    match emission:
        case Progress():
            return NewEvent(EventType.AGENT_STATUS, progress_status(emission))
        case Chunk():
            artifact: dict[str, Any] = {"artifactId": emission.artifact_id, "parts": list(emission.parts)}
            optional = {name: getattr(emission, name) for name in ("name", "description", "metadata", "extensions")}
            artifact |= {name: value for name, value in optional.items() if value}
            payload = {"artifact": artifact, "append": emission.append, "lastChunk": emission.last}
            if emission.joined:
                payload["joined"] = True
            return NewEvent(EventType.ARTIFACT_UPDATE, payload, emission.artifact_id)
        case Thought():
            return NewEvent(EventType.AGENT_THOUGHT, {"text": emission.text})
        case ToolCall():
            called = {"callId": emission.call_id, "name": emission.name, "arguments": emission.arguments}
            return NewEvent(EventType.AGENT_TOOL_CALL, called)
        case ToolResult():
            result = {"callId": emission.call_id, "name": emission.name, "result": emission.result}
            shown = {"app": _app_payload(emission.app)} if emission.app else {}
            return NewEvent(EventType.AGENT_TOOL_RESULT, result | {"isError": emission.is_error} | shown)
        case SkillChosen():
            return NewEvent(EventType.AGENT_STATUS, {"state": TaskState.WORKING, "skill": emission.skill})
        case Foreign():
            return NewEvent(EventType.AGENT_STATUS, {"state": TaskState.WORKING, "kept": emission.said})
        case Token() | WholeAnswer() | Usage():
            raise AssertionError("tokens are coalesced and usage is added up before")


def _app_payload(app: JSON) -> JSON:
    payload = {name: app[name] for name in ("server", "digest", "uri", "ui", "problem", "agent") if name in app}
    if "html" not in app:
        return payload | {"parts": []}
    shown = {"data": {name: app[name] for name in ("arguments", "result")}}
    return payload | {"parts": [{"text": app["html"], "mediaType": mcp_apps.MEDIA_TYPE}, shown]}
