"""What follows a sent message, in pieces that other protocols can translate.

An agent's answer is the text of its artifacts as it comes, then its last message unless that repeats them; files are
named at the end. Thoughts do not leave the platform.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from mimetypes import guess_extension
from typing import Any

from agentkit.clients import calls_in
from agentkit.content.emissions import CUT_OFF, FINISH_REASON
from agentkit.outcomes import NO_ANSWER
from apps.a2a.tasks import is_private_again
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import cancel
from apps.engine.finish import default_text
from apps.engine.repeats import Sent
from apps.record import lineage
from apps.record.content import blobs
from apps.record.content.parts import is_file, media_type_of
from apps.record.errors import Refusal
from apps.record.events import JSON, EventType
from apps.record.models import Artifact, Context, Event, TaskState
from apps.record.reading import feed
from parley import db

SHOWN_TYPES = ("text/plain", "text/markdown")
BETWEEN = "\n\n"
LAST_WORDS = "\n"  # no artifact's id


@dataclass(frozen=True, slots=True)
class Text:
    """The next characters of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """What the agent does now. `done` and `total` are in any unit."""

    text: str
    done: float | None = None
    total: float | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: JSON


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of the call `id`, as JSON."""

    id: str
    name: str
    result: Any
    is_error: bool


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A tool that the client is to run. Its result answers the task's question (see `doors.clients`)."""

    id: str
    name: str
    arguments: JSON


@dataclass(frozen=True, slots=True)
class File:
    """Part `number` of a delivered artifact, or of the agent's message if `artifact` is "". A link has a `url`."""

    task: uuid.UUID
    artifact: str
    number: int
    name: str
    media_type: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """The turn has settled. `code` says why it failed; `slot` is what the task asks for.

    `usage` is as in `record.runs.UsageTotals`: `inputTokens`, `outputTokens` and more, or empty.
    """

    state: TaskState
    message: JSON | None = None
    slot: JSON | None = None
    code: str = ""
    usage: JSON = field(default_factory=dict)

    @property
    def words(self) -> str:
        return words_of(self.message or {"parts": []})

    @property
    def is_cut_off(self) -> bool:
        """Did a limit of tokens cut the answer off?"""
        return bool((self.message or {}).get("metadata", {}).get(FINISH_REASON) == CUT_OFF)


Piece = Text | Progress | ToolCall | ToolResult | ClientCall | File | End
Pieces = AsyncGenerator[list[tuple[int, Piece]]]
"""In batches, each with its event's index."""


async def follow(sent: Sent, *, is_of_others: bool = False) -> Pieces:
    """The pieces of what follows, each with its event's index, until the turn has settled. Close it (`aclosing`).

    `is_of_others`: it ends when the session is private again.
    """
    if sent.task is None:
        yield [(sent.index, piece) for piece in _direct(sent.answer or {"parts": []})]
        return
    turn = Turn(sent.task)
    async with aclosing(feed.follow(sent.context, sent.index, since=sent.since)) as batches:
        async for events in batches:
            if is_of_others and any(is_private_again(event) for event in events):
                return
            own = [event for event in events if event.task_id == sent.task]
            if blobs.stored_parts(own) or turn.needs_rows(own):
                pieces = await db.run_for_stream(turn.read, own)
            else:
                pieces = turn.read(own)
            if pieces:
                yield pieces
            if turn.has_ended:
                return


async def at_once(pieces: Pieces) -> Pieces:
    """The pieces after an empty batch, so that a stream begins before its agent says something."""
    yield []
    async with aclosing(pieces):
        async for batch in pieces:
            yield batch


async def stopping(pieces: Pieces, principal: Principal, agent: Agent, task: uuid.UUID | None) -> Pieces:
    """The pieces as they are. If nobody reads them to their end, the task, if any is given, is canceled."""
    has_ended = False
    try:
        async with aclosing(pieces) as batches:
            async for batch in batches:
                has_ended = bool(batch) and isinstance(batch[-1][1], End)
                yield batch
    finally:
        if task is not None and not has_ended:
            db.later(_stop, principal, agent, task)


def _stop(principal: Principal, agent: Agent, task: uuid.UUID) -> None:
    with suppress(Refusal):
        cancel.cancel_by_id(principal, agent, str(task))


def recorded(context: Context, task: uuid.UUID, after: int) -> list[tuple[int, Piece]]:
    """The pieces of what is recorded so far; without an `End` if the turn has not settled."""
    return Turn(task).read(lineage.events(context, after).filter(task=task).order_by("index"))


def _direct(answer: JSON) -> Iterator[Piece]:
    yield Text(words_of(answer))
    yield End(TaskState.COMPLETED, answer)


class Turn:
    """Makes pieces of a task's events, in order."""

    def __init__(self, task: uuid.UUID) -> None:
        self.has_ended = False
        self._task = task
        self._texts: dict[str, str] = {}  # what was said of each artifact
        self._names: dict[str, str] = {}
        self._newest = ""  # the artifact whose text came last
        self._with_files: set[str] = set()
        self._usage: JSON = {}
        self._code = ""
        self._end_state = TaskState.WORKING

    def needs_rows(self, events: Sequence[Event]) -> bool:
        """Whether `read` asks the database."""
        if not any(event.settles for event in events):
            return False
        return bool(self._with_files) or any(_file_parts(event) for event in events)

    def read(self, events: Sequence[Event] | Any) -> list[tuple[int, Piece]]:
        """The pieces of the next events, up to the one that settles the turn."""
        pieces: list[tuple[int, Piece]] = []
        for event in events:
            if self.has_ended:
                if event.type == EventType.USER_MESSAGE or self._end_state.is_terminal:
                    break
                # It went on without a message: a credential or an approval came.
                pieces = [one for one in pieces if not isinstance(one[1], End)]
                self.has_ended = False
            pieces += [(event.index, piece) for piece in self._pieces(event)]
        return pieces

    def _pieces(self, event: Event) -> Iterator[Piece]:
        payload = event.payload
        match event.type:
            case EventType.AGENT_TOKEN | EventType.AGENT_TOKEN_END:
                yield from self._say(payload["artifactId"], payload["name"], payload["text"], append=True)
            case EventType.ARTIFACT_UPDATE:
                yield from self._artifact(payload["artifact"], append=payload["append"])
            case EventType.AGENT_TOOL_CALL:
                yield ToolCall(payload["callId"], payload["name"], payload["arguments"])
            case EventType.AGENT_TOOL_RESULT:
                yield ToolResult(payload["callId"], payload["name"], payload["result"], payload["isError"])
            case EventType.AGENT_MESSAGE:  # what an earlier turn of the task ended with
                yield from self._last_words(words_of(payload["message"]))
            case EventType.AGENT_COMPLETE:
                self._usage = payload.get("usage", {})
            case EventType.AGENT_FAILED:
                self._code = payload["code"]
            case EventType.AGENT_STATUS if "kept" not in payload:
                yield from self._status(event)

    def _artifact(self, artifact: JSON, *, append: bool) -> Iterator[Piece]:
        key, name = artifact["artifactId"], artifact.get("name", "")
        self._names.setdefault(key, name)
        shown = [part for part in artifact["parts"] if is_shown(part)]
        if len(shown) < len(artifact["parts"]):
            self._with_files.add(key)
        if shown:
            text = "".join(blobs.inline(part)["text"] for part in shown)
            yield from self._say(key, name, text, append=append)

    def _say(self, key: str, name: str, text: str, *, append: bool) -> Iterator[Piece]:
        """The text's part that was not said yet. What was said cannot be taken back."""
        self._names.setdefault(key, name)
        said = self._texts.get(key, "")
        whole = said + text if append else text
        news = whole.removeprefix(said) if whole.startswith(said) else BETWEEN + whole
        self._texts[key] = whole
        if not news:
            return
        if self._newest not in ("", key):
            news = BETWEEN + news
        self._newest = key
        yield Text(news)

    def _status(self, event: Event) -> Iterator[Piece]:
        payload = event.payload
        state = TaskState(payload["state"])
        message = payload.get("message")
        if not state.is_settled:
            if message and (progress := payload.get("progress")) is not None:
                yield Progress(words_of(message), progress.get("done"), progress.get("total"))
            return
        self.has_ended, self._end_state = True, state
        calls = calls_in(payload.get("slot")) if state.is_interrupted else []
        for call in calls:
            yield ClientCall(f"call_{self._task.hex}_{call.id}", call.name, {**call.arguments})
        if (state == TaskState.COMPLETED or state.is_interrupted) and not calls:
            silent = NO_ANSWER if state == TaskState.COMPLETED and not self._names else ""
            yield from self._last_words(words_of(message) if message else silent)
        if state == TaskState.COMPLETED and self._with_files:
            yield from self._files()
        yield End(state, message, payload.get("slot"), self._code, self._usage)

    def _last_words(self, words: str) -> Iterator[Piece]:
        said = {text.strip() for text in self._texts.values()}
        names = [name for name in self._names.values() if name]
        if not words or words.strip() in said or (said and words == default_text(names)):
            return
        yield Text(BETWEEN + words if self._newest else words)
        self._newest = LAST_WORDS

    def _files(self) -> Iterator[Piece]:
        rows = Artifact.objects.filter(task=self._task, artifact_id__in=self._with_files).order_by("first_event")
        for row in rows.filter(state=Artifact.State.DELIVERED):
            for number, part in enumerate(row.parts):
                if not is_shown(part):
                    media_type = media_type_of(part)
                    name = part.get("filename") or row.name or f"file{guess_extension(media_type) or ''}"
                    yield File(self._task, row.artifact_id, number, name, media_type, part.get("url", ""))


def is_shown(part: JSON) -> bool:
    """Is it text for people, not a file?"""
    if part.keys() == {"text"}:  # as nearly all are that are streamed
        return True
    kind = part["stored"]["kind"] if "stored" in part else "text" if "text" in part else ""
    return kind == "text" and not is_file(part) and media_type_of(part) in SHOWN_TYPES


def _file_parts(event: Event) -> bool:
    return event.type == EventType.ARTIFACT_UPDATE and any(not is_shown(part) for part in event.parts)


def words_of(message: JSON) -> str:
    """A message as text: links and data too."""
    shown = []
    for part in map(blobs.inline, message["parts"]):
        if "text" in part:
            shown.append(part["text"])
        elif "url" in part:
            shown.append(part["url"])
        elif "data" in part:
            shown.append(f"```json\n{json.dumps(part['data'], ensure_ascii=False, indent=2)}\n```")
    return "\n".join(shown)
