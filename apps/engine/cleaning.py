"""What an agent says is data: strings that no database takes are mended, what the protocol cannot say is refused."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from agentkit import Artifact, Chunk, Completed, Emission, Outcome, Part, Progress
from apps.record.events import JSON

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
CONTENT = ("text", "raw", "url", "data", "stored")
Given = Mapping[str, JSON]
"""What the platform keeps in files of the parts that an agent was given, by their SHA-256."""
NOTHING: Given = {}


def clean[T](value: T) -> T:
    """The value with U+0000 and lone surrogates replaced by U+FFFD. Raises ValueError for what JSON cannot say."""
    return _clean(value)  # type: ignore[no-any-return]


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_clean(str(name)): _clean(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and infinity cannot be sent: JSON has no such numbers.")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ValueError(f"A {type(value).__name__} cannot be sent: use text, numbers, lists, dicts and None.")


def clean_parts(parts: Iterable[Mapping[str, Any]], given: Given = NOTHING) -> list[Part]:
    """The parts with the fields that A2A knows, fit for the record.

    A part whose content the platform keeps may be passed on by an agent that was given it, and by nobody else: its
    name alone opens no file. Raises ValueError.
    """
    return [_part(clean(dict(part)), given) for part in parts]


def _part(part: JSON, given: Given) -> Part:
    kinds = [kind for kind in CONTENT if kind in part]
    if len(kinds) != 1:
        raise ValueError("A part has exactly one of text, raw, url and data.")
    kind = kinds[0]
    labels = {name: part[name] for name in ("filename", "mediaType", "metadata") if part.get(name)}
    for name, value in labels.items():
        if not isinstance(value, dict if name == "metadata" else str):
            raise ValueError(f"The {name} of a part cannot be a {type(value).__name__}.")
    return {kind: _content(kind, part[kind], given), **labels}  # type: ignore[misc]


def _content(kind: str, value: Any, given: Given) -> Any:
    if kind == "stored":
        return _passed_on(value, given)
    if kind != "data" and not isinstance(value, str):
        raise ValueError(f"The {kind} of a part must be a string.")
    return _base64(value) if kind == "raw" else value


def _passed_on(value: Any, given: Given) -> JSON:
    digest = value.get("sha256") if isinstance(value, dict) else None
    if not isinstance(digest, str) or digest not in given:
        raise ValueError("Stored content can be passed on only by an agent that was given it in this turn.")
    return given[digest]


def _base64(text: str) -> str:
    """Bytes in standard base64 with padding, from either alphabet and with or without it."""
    bare = text.replace("-", "+").replace("_", "/").rstrip("=")
    padded = bare + "=" * (-len(bare) % 4)
    try:
        base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("The raw content of a part must be base64.") from None
    return padded


def clean_emission[E: Emission](emission: E, given: Given = NOTHING) -> E:
    """The emission with its values fit for the record. Raises ValueError."""
    values = {name: clean(value) for name, value in vars(emission).items() if name != "parts"}
    if isinstance(emission, Chunk | Progress):
        values["parts"] = clean_parts(emission.parts, given)
    return type(emission)(**values)


def clean_outcome(outcome: Outcome, given: Given = NOTHING) -> Outcome:
    """The outcome with its words and artifacts fit for the record. Raises ValueError."""
    words = clean_parts(outcome.parts, given) or None
    if not isinstance(outcome.metadata, dict):
        raise ValueError(f"The metadata of an outcome must be a dict, not a {type(outcome.metadata).__name__}.")
    if isinstance(outcome, Completed):
        return Completed(words, [_artifact(one, given) for one in outcome.artifacts], clean(outcome.metadata))
    values: dict[str, Any] = {name: clean(value) for name, value in vars(outcome).items() if name != "message"}
    return type(outcome)(words, **values)


def _artifact(artifact: Artifact, given: Given) -> Artifact:
    return dataclasses.replace(
        artifact,
        parts=clean_parts(artifact.parts, given),
        name=clean(artifact.name),
        description=clean(artifact.description),
        metadata=clean(artifact.metadata),
    )
