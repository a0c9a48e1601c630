"""The texts in A2A parts: read, measured, and changed in place. Blocking: reads stored files."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

from agentkit.content.messages import content_of, guessed_media_type, is_file
from apps.record.content import blobs
from apps.record.events import JSON

TEXT_TYPES = ("application/json", "application/xml", "application/x-ndjson", "application/yaml")
Change = Callable[[str], str]


def changed(parts: Sequence[JSON], change: Change) -> list[JSON]:
    """The parts, one for one, with other texts: of text, of data at any depth, of files of text, and their names."""
    return [_changed(part, change) for part in parts]


def _changed(part: JSON, change: Change) -> JSON:
    found = {**part, "filename": change(part["filename"])} if part.get("filename") else part
    if "text" in part:
        return {**found, "text": change(part["text"])}
    if "url" in part:
        return {**found, "url": change(part["url"])}
    if "data" in part:
        return {**found, "data": _deep(part["data"], change)}
    if "stored" in part and part["stored"]["kind"] == "data":
        return _restored(found, "data", data := json.loads(_content(part)), _deep(data, change))
    if "stored" in part and part["stored"]["kind"] == "text":
        return _restored(found, "text", text := _content(part), change(text))
    if is_text(part):
        text = _content(part)
        return _restored(found, "raw", text, change(text))
    return found


def _restored(part: JSON, kind: str, before: Any, now: Any) -> JSON:
    """The part as it is stored, unless its content changed."""
    if now == before:
        return part
    labels = {name: one for name, one in part.items() if name not in ("stored", "raw")}
    return {**labels, kind: base64.b64encode(now.encode()).decode() if kind == "raw" else now}


def _deep(value: Any, change: Change) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: _deep(one, change) for name, one in value.items()}
    return [_deep(one, change) for one in value] if isinstance(value, list | tuple) else value


def is_text(part: JSON) -> bool:
    """Is a file's content text, by its type or its name?"""
    kind = part.get("mediaType") or guessed_media_type(part.get("filename", ""))
    return ("raw" in part or "stored" in part) and (kind.startswith("text/") or kind.split(";")[0] in TEXT_TYPES)


def _content(part: Any) -> str:
    return content_of(part, blobs.content_of).decode(errors="replace")


def whole(parts: Sequence[JSON]) -> str:
    """All texts, each once, for a reader."""
    found: dict[str, None] = {}

    def note(text: str) -> str:
        found[text] = None
        return text

    changed(parts, note)
    return "\n\n".join(one for one in found if one.strip())


def sizes(parts: Sequence[JSON]) -> dict[str, int]:
    """Characters of texts, the number of files, and bytes of all content."""
    return {
        "characters": sum(len(part["text"]) for part in parts if "text" in part),
        "files": sum(is_file(part) for part in parts),  # type: ignore[arg-type]
        "bytes": sum(map(_bytes, parts)),
    }


def _bytes(part: JSON) -> int:
    if "stored" in part:
        return int(part["stored"]["size"])
    if "raw" in part:
        return len(part["raw"]) * 3 // 4
    text = json.dumps(part["data"], ensure_ascii=False) if "data" in part else part.get("text") or part.get("url", "")
    return len(str(text).encode())
