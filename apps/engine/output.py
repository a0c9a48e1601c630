"""What agents say and keep, before it is recorded: cleaned, bounded in size, and with secrets redacted.

Also what people and programs are told when an agent's own code fails.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
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
    WholeAnswer,
)
from apps.record.events import JSON
from apps.record.ledger import Ledger

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
CONTENT_FIELDS = ("text", "raw", "url", "data", "stored")
StoredFiles = Mapping[str, JSON]
"""What the platform keeps in files of the parts that an agent was given, by their SHA-256."""
NO_FILES: StoredFiles = {}


def clean(value: Any) -> Any:
    """The value with U+0000 and lone surrogates replaced by U+FFFD. Raises ValueError for what JSON cannot say."""
    if isinstance(value, str):
        return UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {UNSTORABLE.sub("\ufffd", str(name)): clean(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and infinity cannot be sent: JSON has no such numbers.")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ValueError(f"A {type(value).__name__} cannot be sent: use text, numbers, lists, dicts and None.")


def clean_parts(parts: Iterable[Mapping[str, Any]], given: StoredFiles = NO_FILES) -> list[Part]:
    """The parts with the fields that A2A knows, fit for the record.

    A part whose content the platform keeps may be passed on by an agent that was given it, and by nobody else: its
    name alone opens no file. Raises ValueError.
    """
    return [_clean_part(part, given) for part in parts]


def _clean_part(given_part: Mapping[str, Any], given: StoredFiles) -> Part:
    part: JSON = clean(dict(given_part))
    kinds = [kind for kind in CONTENT_FIELDS if kind in part]
    if len(kinds) != 1:
        raise ValueError("A part has exactly one of text, raw, url and data.")
    kind = kinds[0]
    labels = {name: part[name] for name in ("filename", "mediaType", "metadata") if part.get(name)}
    for name, value in labels.items():
        if not isinstance(value, dict if name == "metadata" else str):
            raise ValueError(f"The {name} of a part cannot be a {type(value).__name__}.")
    content = part[kind]
    if kind == "stored":
        content = _stored_content(content, given)
    elif kind != "data" and not isinstance(content, str):
        raise ValueError(f"The {kind} of a part must be a string.")
    elif kind == "raw":
        content = _standard_base64(content)
    return {kind: content, **labels}  # type: ignore[misc]


def _stored_content(value: Any, given: StoredFiles) -> JSON:
    digest = value.get("sha256") if isinstance(value, dict) else None
    if not isinstance(digest, str) or digest not in given:
        raise ValueError("Stored content can be passed on only by an agent that was given it in this turn.")
    return given[digest]


def _standard_base64(text: str) -> str:
    """Bytes in standard base64 with padding, from either alphabet and with or without it."""
    bare = text.replace("-", "+").replace("_", "/").rstrip("=")
    padded = bare + "=" * (-len(bare) % 4)
    try:
        base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("The raw content of a part must be base64.") from None
    return padded


def clean_emission[E: Emission](emission: E, given: StoredFiles = NO_FILES) -> E:
    """The emission with its values fit for the record. Raises ValueError."""
    values = {name: clean(value) for name, value in vars(emission).items() if name != "parts"}
    if isinstance(emission, Chunk | Progress):
        values["parts"] = clean_parts(emission.parts, given)
    return type(emission)(**values)


def clean_outcome(outcome: Outcome, given: StoredFiles = NO_FILES) -> Outcome:
    """The outcome with its words and artifacts fit for the record. Raises ValueError."""
    words = clean_parts(outcome.parts, given) or None
    if not isinstance(outcome.metadata, dict):
        raise ValueError(f"The metadata of an outcome must be a dict, not a {type(outcome.metadata).__name__}.")
    if isinstance(outcome, Completed):
        artifacts = [
            dataclasses.replace(
                one,
                parts=clean_parts(one.parts, given),
                name=clean(one.name),
                description=clean(one.description),
                metadata=clean(one.metadata),
            )
            for one in outcome.artifacts
        ]
        return Completed(words, artifacts, clean(outcome.metadata))
    values: dict[str, Any] = {name: clean(value) for name, value in vars(outcome).items() if name != "message"}
    return type(outcome)(words, **values)


TOKEN_ARTIFACT = ""  # whose bytes are counted as those of one artifact


class TooLarge(AgentFailure):
    """An agent said more than it may: the turn ends with this failure, whatever the handler makes of it."""


class OutputLimits:
    """What was said in one turn, counted in bytes."""

    def __init__(self) -> None:
        self.exceeded: TooLarge | None = None
        self._artifacts: Counter[str] = Counter()

    def admit(self, emission: Emission) -> None:
        """Count an emission. Raises TooLarge where it is too much, and for everything after that."""
        if self.exceeded is not None:
            raise self.exceeded
        if isinstance(emission, Token):
            self._add(TOKEN_ARTIFACT, "answer", len(emission.text))
        elif isinstance(emission, WholeAnswer):
            self._artifacts.pop(TOKEN_ARTIFACT, None)
            self._add(TOKEN_ARTIFACT, "answer", len(emission.text))
        elif isinstance(emission, Chunk):
            if not emission.append:
                self._artifacts.pop(emission.artifact_id, None)
            self._add(emission.artifact_id, emission.name, size_of(emission.parts, settings.MAX_ARTIFACT_BYTES))
        elif size_of(vars(emission), settings.MAX_SAYING_BYTES) > settings.MAX_SAYING_BYTES:
            self._refuse(
                f"What an agent says on the way may have {_human_size(settings.MAX_SAYING_BYTES)}; this one said more.",
                "too_large",
            )

    def check(self, outcome: Outcome, memory: JSON) -> None:
        """Look at how a turn ends. Raises TooLarge."""
        if self.exceeded is not None:
            raise self.exceeded
        for artifact in outcome.artifacts if isinstance(outcome, Completed) else ():
            size = size_of(artifact.parts, settings.MAX_ARTIFACT_BYTES)
            self._add(artifact.artifact_id, artifact.name, size)
        most = settings.MAX_SAYING_BYTES
        asked = (getattr(outcome, name, None) for name in ("schema", "value", "metadata"))
        if size_of(list(asked), most) > most:
            self._refuse(f"A question may have {_human_size(most)}; this one has more.", "question_too_large")
        if size_of(memory, most) > most:
            self._refuse(f"A task's memory may have {_human_size(most)}; this one has more.", "memory_too_large")
        if size_of(outcome.parts, settings.MAX_ARTIFACT_BYTES) > settings.MAX_ARTIFACT_BYTES:
            self._refuse(
                f"A message may have {_human_size(settings.MAX_ARTIFACT_BYTES)}; this one has more.",
                "message_too_large",
            )

    def _add(self, artifact: str, name: str, size: int) -> None:
        self._artifacts[artifact] += size
        if self._artifacts[artifact] > settings.MAX_ARTIFACT_BYTES:
            most = _human_size(settings.MAX_ARTIFACT_BYTES)
            self._refuse(f"An artifact may have {most}; {name[:100]!r} has more. Deliver less, or a link.")
        if self._artifacts.total() > settings.MAX_TURN_BYTES:
            most = _human_size(settings.MAX_TURN_BYTES)
            self._refuse(f"The artifacts of a turn may have {most} together; these have more. Deliver less, or links.")

    def _refuse(self, why: str, code: str = "artifact_too_large") -> None:
        self.exceeded = TooLarge(why, code)
        raise self.exceeded


def size_of(value: Any, most: int) -> int:
    """About how many bytes a value has as JSON, with base64 decoded; counting ends soon after `most`."""
    size, left = 0, [value]
    while left and size <= most:
        one = left.pop()
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, dict):
            size += len(one)
            raw = one.get("raw")
            size -= len(raw) // 4 if isinstance(raw, str) else 0
            left += [*one.keys(), *one.values()]
        elif isinstance(one, Iterable) and not isinstance(one, bytes):
            left += one
            size += 1
        else:
            size += 8
    return size


def _human_size(size: int) -> str:
    return f"{size // 1024**2} MB" if size >= 1024**2 else f"{size} bytes"


REDACTED = "•••"
MIN_SECRET_LENGTH = 8  # characters of a secret that is looked for: a shorter one would hit innocent words


class Redaction:
    """Replaces the secrets it was told of, wherever they stand as they are. It knows none at first, and costs nothing.

    What an agent disguises (by splitting, hashing or encoding it) is not recognised.
    """

    def __init__(self) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, credential: Credential) -> None:
        """Keep the credential's secret out of what follows, also in the form of an `Authorization` header."""
        self.keep_out(credential.secret)
        if credential.auth_type == "basic":
            self.keep_out(credential.authorization.removeprefix("Basic "))

    def keep_out(self, *secrets: str) -> None:
        """Keep these texts out of what follows."""
        self._secrets |= {secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH}
        longest_first = sorted(self._secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__[T](self, value: T) -> T:
        """The value (JSON, an outcome, an emission) without the secrets."""
        return value if self._pattern is None else self._redacted(value)

    def held_back(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a secret, whose rest is still to come."""
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
        """The content of a file: a part's `raw`, which is base64 by now."""
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

    code = "memory_too_large"

    def __init__(self) -> None:
        super().__init__(self.__doc__)


@dataclass(frozen=True, slots=True)
class MemoryChanges:
    """By top-level key: tasks side by side do not undo each other where they keep different ones."""

    changed: JSON
    forgotten: Collection[str]

    def write(self, log: Ledger) -> None:
        log.remember(self.changed, self.forgotten)


def memory_changes(before: JSON, after: JSON) -> MemoryChanges | None:
    """What a turn that was given `before` leaves behind; None where it changed nothing.

    Raises MemoryTooLarge, and ValueError for what JSON cannot say.
    """
    kept: JSON = clean(after)
    if kept == before:
        return None
    if len(json.dumps(kept, ensure_ascii=False).encode()) > MAX_MEMORY_BYTES:
        raise MemoryTooLarge
    changed = {key: value for key, value in kept.items() if key not in before or before[key] != value}
    return MemoryChanges(changed, before.keys() - kept.keys())


AGENT_ERROR_MESSAGE = "The agent stopped because of an error of its own. Its operators can see the details."
INVALID_RESPONSE = "invalid_agent_response"  # A2A's word for it


def error_code(error: Exception) -> str:
    """A stable word for what went wrong."""
    if isinstance(error, InvalidAnswer):
        return INVALID_RESPONSE
    return "agent_unavailable" if isinstance(error, HandlerError) else "agent_error"
