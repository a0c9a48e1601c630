"""Makes what agents say and keep fit for the record: cleans it, limits its size, redacts secrets."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from agentkit import (
    AgentFailure,
    Chunk,
    Completed,
    Credential,
    Emission,
    HandlerError,
    InvalidAnswer,
    Outcome,
    Part,
    Progress,
    Token,
    ToolResult,
    WholeAnswer,
)
from agentkit.errors import Escaped
from apps.agents.models import Agent
from apps.engine.turns import payments
from apps.record.content import blobs
from apps.record.content.composing import standard_base64
from apps.record.content.strict_json import UNSTORABLE, check_scalar
from apps.record.errors import StorageFull
from apps.record.events import JSON, EventType
from apps.record.ledger import Ledger
from apps.record.models import Task
from apps.record.projection import AUTHOR_KEY

CONTENT_FIELDS = ("text", "raw", "url", "data", "stored")
LABEL_TYPES: dict[str, type] = {"filename": str, "mediaType": str, "metadata": dict}
FindStored = Callable[[str], JSON | None]
"""Gives the stored content of a SHA-256 that the agent may pass on; None for any other."""


REPLACEMENT = "\ufffd"


def clean(value: Any) -> Any:
    """Replace U+0000 and lone surrogates by U+FFFD. Raises ValueError for what JSON cannot hold."""
    if isinstance(value, str):
        return value if value.isascii() and "\0" not in value else UNSTORABLE.sub(REPLACEMENT, value)
    if isinstance(value, dict):
        return {
            UNSTORABLE.sub(REPLACEMENT, str(name)): inner
            if type(inner) is str and inner.isascii() and "\0" not in inner
            else clean(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [clean(inner) for inner in value]
    check_scalar(value)
    return value


def no_stored_file(sha256: str) -> None:
    """For agents without stored content."""


def clean_parts(parts: Iterable[Mapping[str, Any]], find_stored: FindStored = no_stored_file) -> list[Part]:
    """The cleaned parts, with A2A's fields only. Raises ValueError.

    An agent may pass on only stored content that it received; knowing a digest is not enough.
    """
    cleaned: list[Any] = []
    for given in parts:
        part: JSON = clean(dict(given))
        kinds = [kind for kind in CONTENT_FIELDS if kind in part]
        if len(kinds) != 1:
            raise ValueError("A part has exactly one of text, raw, url and data.")
        kind, content = kinds[0], part[kinds[0]]
        labels = {name: part[name] for name in LABEL_TYPES if part.get(name)}
        for name, value in labels.items():
            if not isinstance(value, LABEL_TYPES[name]):
                raise ValueError(f"The {name} of a part cannot be a {type(value).__name__}.")
        if kind == "stored":
            digest = content.get("sha256") if isinstance(content, dict) else None
            content = find_stored(digest) if isinstance(digest, str) else None
            if content is None:
                raise ValueError("Stored content can be passed on only by an agent that was given it in this turn.")
        elif kind != "data" and not isinstance(content, str):
            raise ValueError(f"The {kind} of a part must be a string.")
        elif kind == "raw":
            content = standard_base64(content)
        cleaned.append({kind: content, **labels})
    return cleaned


def clean_emission[E: Emission](emission: E, find_stored: FindStored = no_stored_file) -> E:
    values = {name: clean(value) for name, value in vars(emission).items() if name != "parts"}
    if isinstance(emission, Chunk | Progress):
        values["parts"] = clean_parts(emission.parts, find_stored)
    return type(emission)(**values)


def clean_outcome(outcome: Outcome, find_stored: FindStored = no_stored_file) -> Outcome:
    if not isinstance(outcome.metadata, dict):
        raise ValueError(f"The metadata of an outcome must be a dict, not a {type(outcome.metadata).__name__}.")
    words = clean_parts(outcome.parts, find_stored) or None
    if not isinstance(outcome, Completed):
        values: dict[str, Any] = {name: clean(value) for name, value in vars(outcome).items() if name != "message"}
        return type(outcome)(words, **values)
    artifacts = []
    for artifact in outcome.artifacts:
        labels = {name: getattr(artifact, name) for name in ("name", "description", "metadata")}
        labels = {name: clean(value) for name, value in labels.items() if value}
        artifacts.append(dataclasses.replace(artifact, parts=clean_parts(artifact.parts, find_stored), **labels))
    return Completed(words, artifacts, clean(outcome.metadata) if outcome.metadata else {})


TOKEN_ARTIFACT = ""


class TooLarge(AgentFailure):
    """An agent said too much. The turn fails, even if the handler catches this."""


def store_large(workspace_id: int | None, parts: Iterable[JSON], inline: int | None = None) -> list[JSON]:
    """As `blobs.store_large`, for what an agent made. Raises TooLarge if the workspace has no room."""
    stored = blobs.store_large(parts, inline=inline)
    if any("stored" in part for part in stored):
        try:
            blobs.check_room(workspace_id, stored)
        except StorageFull as full:
            raise TooLarge(str(full), "storage_full") from full
    return stored


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event of a turn, not recorded yet."""

    type: EventType
    payload: JSON
    artifact_id: str = ""


def run_values(events: Iterable[NewEvent]) -> JSON:
    """What changes in the run with its events."""
    read = [event.payload["until"] for event in events if event.type == EventType.AGENT_READ]
    return {"read_until": max(read)} if read else {}


def with_large_parts_stored(event: NewEvent, workspace: int) -> NewEvent:
    """Raises TooLarge if the workspace has no room."""
    if "app" in event.payload:
        app = event.payload["app"]
        parts = store_large(workspace, app["parts"], inline=0)  # a page is in the log once, however often it is shown
        return NewEvent(event.type, {**event.payload, "app": {**app, "parts": parts}})
    if event.type != EventType.ARTIFACT_UPDATE:
        return event
    artifact = event.payload["artifact"]
    parts = store_large(workspace, artifact["parts"])
    return NewEvent(event.type, {**event.payload, "artifact": {**artifact, "parts": parts}}, event.artifact_id)


def those_with_room(events: Iterable[NewEvent], workspace: int) -> list[NewEvent]:
    """The events whose large parts the workspace has room for, with these stored."""
    kept: list[NewEvent] = []
    for event in events:
        with suppress(TooLarge):
            kept.append(with_large_parts_stored(event, workspace))
    return kept


def agent_message(log: Ledger, task: Task, parts: Iterable[Part], metadata: JSON) -> JSON:
    """What an agent says, as it is recorded. Only a remote agent may speak of payments by itself."""
    if metadata and task.agent.kind != Agent.Kind.REMOTE:
        metadata = payments.without_payments(metadata)
    return {
        "messageId": str(uuid.uuid4()),
        "contextId": log.context.context_id,
        "taskId": str(task.pk),
        "role": "ROLE_AGENT",
        "parts": blobs.store_large([dict(part) for part in parts]),
        "metadata": {**metadata, AUTHOR_KEY: task.agent.slug},
    }


@dataclass(slots=True)
class OutputLimits:
    """The size of one turn's output, in bytes."""

    exceeded: TooLarge | None = None
    _artifacts: Counter[str] = field(default_factory=Counter)

    def admit(self, emission: Emission) -> None:
        """Count an emission. Raises TooLarge from the first excess on."""
        if self.exceeded is not None:
            raise self.exceeded
        if isinstance(emission, Token):
            self._add(TOKEN_ARTIFACT, "answer", emission.text)
        elif isinstance(emission, WholeAnswer):
            self._artifacts.pop(TOKEN_ARTIFACT, None)
            self._add(TOKEN_ARTIFACT, "answer", emission.text)
        elif isinstance(emission, Chunk):
            if not emission.append:
                self._artifacts.pop(emission.artifact_id, None)
            self._add(emission.artifact_id, emission.name, emission.parts)
        elif isinstance(emission, ToolResult) and emission.app:
            self._add(f"app {emission.call_id}", emission.name, emission.app)
            self.admit(dataclasses.replace(emission, app=None))
        elif size_of(vars(emission), settings.MAX_SAYING_BYTES) > settings.MAX_SAYING_BYTES:
            self._refuse(
                f"A progress message may have at most {_human_size(settings.MAX_SAYING_BYTES)}; this one is larger.",
                "too_large",
            )

    def check(self, outcome: Outcome, memory: JSON) -> None:
        """Check the outcome and the memory. Raises TooLarge."""
        if self.exceeded is not None:
            raise self.exceeded
        if isinstance(outcome, Completed):
            for artifact in outcome.artifacts:
                self._add(artifact.artifact_id, artifact.name, artifact.parts)
        question = [
            value for name in ("schema", "value", "metadata", "calls") if (value := getattr(outcome, name, None))
        ]
        for what, value, limit, code in (
            ("A question", question, settings.MAX_SAYING_BYTES, "question_too_large"),
            ("A task's memory", memory, settings.MAX_SAYING_BYTES, "memory_too_large"),
            ("A message", outcome.message, settings.MAX_ARTIFACT_BYTES, "message_too_large"),
        ):
            if value and size_of(value, limit) > limit:
                self._refuse(f"{what} may have at most {_human_size(limit)}; this one is larger.", code)

    def _add(self, artifact: str, name: str, content: object) -> None:
        limit, turn_limit = settings.MAX_ARTIFACT_BYTES, settings.MAX_TURN_BYTES
        self._artifacts[artifact] += size_of(content, limit)
        if self._artifacts[artifact] > limit:
            self._refuse(
                f"An artifact may have at most {_human_size(limit)}; {name[:100]!r} is larger. Deliver less, or a link."
            )
        if self._artifacts.total() > turn_limit:
            most = _human_size(turn_limit)
            self._refuse(
                f"The artifacts of a turn may have at most {most} together; these are larger. Deliver less, or links."
            )

    def _refuse(self, why: str, code: str = "artifact_too_large") -> None:
        self.exceeded = TooLarge(why, code)
        raise self.exceeded


def size_of(value: Any, limit: int) -> int:
    """The approximate bytes of a value as JSON in UTF-8, with base64 decoded. Stops counting soon after `limit`."""
    size, left = 0, [value]
    while left and size <= limit:
        one = left.pop()
        if isinstance(one, str):
            size += len(one) if one.isascii() else len(one.encode(errors="surrogatepass"))
        elif isinstance(one, dict):
            size += len(one)
            raw = one.get("raw")
            size -= len(raw) // 4 if isinstance(raw, str) else 0
            left += [*one.keys(), *one.values()]
        elif one is None or isinstance(one, int | float | bytes):
            size += 8
        elif isinstance(one, Iterable):
            left += one
            size += 1
        else:
            size += 8
    return size


def _human_size(size: int) -> str:
    return f"{size // 1024**2} MB" if size >= 1024**2 else f"{size} bytes"


REDACTED = "•••"
MIN_SECRET_LENGTH = 8  # shorter secrets would match innocent words


@dataclass(slots=True, eq=False)
class Redaction:
    """Replaces known secrets wherever they occur unchanged.

    It does not recognize secrets that an agent splits, hashes or encodes.
    """

    _secrets: frozenset[str] = frozenset()
    _pattern: re.Pattern[str] | None = None

    def learn(self, credential: Credential) -> None:
        """Redact the credential's secret from now on, also in its `Authorization` form."""
        self.keep_out(credential.secret)
        if credential.auth_type == "basic":
            self.keep_out(credential.authorization.removeprefix("Basic "))

    def keep_out(self, *secrets: str) -> None:
        self._secrets |= {secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH}
        longest_first = sorted(self._secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__[T](self, value: T) -> T:
        return value if self._pattern is None else self._redacted(value)

    def held_back(self, text: str) -> int:
        """How many characters at the text's end may begin a secret."""
        longest = max(map(len, self._secrets), default=0) - 1
        candidates = range(min(longest, len(text)), 0, -1)
        return next((n for n in candidates if any(secret.startswith(text[-n:]) for secret in self._secrets)), 0)

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {
                self._text(name): self._raw(one) if name == "raw" else self._redacted(one)
                for name, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._redacted(one) for one in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            values = {name: self._redacted(one) for name, one in vars(value).items()}
            return type(value)(**values)
        return value

    def _text(self, text: str) -> str:
        return self._pattern.sub(REDACTED, text) if self._pattern else text

    def _raw(self, value: Any) -> Any:
        if not isinstance(value, str):
            return self._redacted(value)
        try:
            content = base64.b64decode(value, validate=True)
        except ValueError:
            return self._text(value)
        for secret in self._secrets:
            content = content.replace(secret.encode(), REDACTED.encode())
        return base64.b64encode(content).decode()


MAX_MEMORY_BYTES = 64 * 1024


class MemoryTooLarge(ValueError):
    """The agent wanted to keep more than 64 KiB for this conversation."""

    code = "memory_too_large"  # the same code as for a task's memory

    def __init__(self) -> None:
        super().__init__(self.__doc__)


@dataclass(frozen=True, slots=True)
class MemoryChanges:
    """Changes of a conversation's memory by top-level key, so that concurrent tasks keep each other's keys."""

    changed: JSON
    forgotten: Collection[str]


def memory_changes(before: JSON, after: JSON) -> MemoryChanges | None:
    """How a turn changed the conversation's memory; None if it did not.

    Raises MemoryTooLarge, and ValueError for what JSON cannot hold.
    """
    kept: JSON = clean(after)
    if kept == before:
        return None
    if len(json.dumps(kept, ensure_ascii=False).encode()) > MAX_MEMORY_BYTES:
        raise MemoryTooLarge
    changed = {key: value for key, value in kept.items() if key not in before or before[key] != value}
    return MemoryChanges(changed, before.keys() - kept.keys())


AGENT_ERROR_MESSAGE = "The agent stopped because of an internal error. Operators can see the details."
INVALID_RESPONSE = "invalid_agent_response"  # as in A2A


def error_code(error: Exception) -> str:
    if isinstance(error, Escaped):
        return error.code
    if isinstance(error, InvalidAnswer):
        return INVALID_RESPONSE
    return "agent_unavailable" if isinstance(error, HandlerError) else "agent_error"
