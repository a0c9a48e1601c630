"""The texts in A2A parts: read, measured, and changed in place. Blocking: reads stored files."""

from __future__ import annotations

import base64
import codecs
import json
import mimetypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agentkit.content.messages import content_of, guessed_media_type, is_file
from apps.optional.guardrails.finding import MAX_TEXT
from apps.record.content import blobs
from apps.record.events import JSON

TEXT_TYPES = ("application/json", "application/xml", "application/x-ndjson", "application/yaml")
USUAL_TYPES = frozenset((*mimetypes.types_map.values(), *TEXT_TYPES, "text/markdown", "application/octet-stream"))
HEAD = 65_536  # bytes of a file that tell whether it is text
MOST_READ = 4 * MAX_TEXT + 4  # bytes of a file: those have more characters than can be searched
Change = Callable[[str], str]


def changed(parts: Sequence[JSON], change: Change) -> list[JSON]:
    """The parts, one for one, with other texts: of text, of data at any depth, of files of text, and their labels.

    Of data, also the names of fields and whole numbers are texts.
    """
    return [_changed(part, change) for part in parts]


def _changed(part: JSON, change: Change) -> JSON:
    found = {**part, **_labels(part, change)}
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
    said = _text_in(part)
    return found if said is None else _restored(found, "raw", said, change(said))


def _labels(part: JSON, change: Change) -> JSON:
    """The name and the metadata of a part, and a media type that is none of the usual ones."""
    found: JSON = {"filename": change(part["filename"])} if part.get("filename") else {}
    found |= {"metadata": _deep(part["metadata"], change)} if part.get("metadata") else {}
    kind = part.get("mediaType", "")
    return found | ({"mediaType": change(kind)} if kind and kind.split(";")[0] not in USUAL_TYPES else {})


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
        return _renamed((change(name), _deep(one, change)) for name, one in value.items())
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
        text = str(int(value))
        return value if (now := change(text)) == text else now
    return [_deep(one, change) for one in value] if isinstance(value, list | tuple) else value


def _renamed(fields: Iterable[tuple[str, Any]]) -> JSON:
    """The fields; those that have got the same name are numbered."""
    found: JSON = {}
    for name, value in fields:
        number, free = 1, name
        while free in found:
            number, free = number + 1, f"{name} {number + 1}"
        found[free] = value
    return found


def _text_in(part: JSON) -> str | None:
    """The text of a file, whatever it is called; None if it is binary."""
    if "raw" not in part and "stored" not in part:
        return None
    if is_called_text(part):
        return _start_of(part, MOST_READ).decode(errors="replace")
    if _decoded(start := _start_of(part, HEAD), is_whole=len(start) < HEAD) is None:
        return None
    content = _start_of(part, MOST_READ)
    return _decoded(content, is_whole=len(content) < MOST_READ)


def _start_of(part: JSON, size: int) -> bytes:
    content: Any = part
    return blobs.head_of(part, size) if "stored" in part else content_of(content)[:size]


def _decoded(content: bytes, is_whole: bool) -> str | None:
    """UTF-8 without NUL; None if it is anything else."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(content, final=is_whole)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def is_called_text(part: JSON) -> bool:
    """Is a file text by its type or its name?"""
    kind = part.get("mediaType") or guessed_media_type(part.get("filename", ""))
    return kind.startswith("text/") or kind.split(";")[0] in TEXT_TYPES


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
        "characters": sum(map(_characters, parts)),
        "files": sum(is_file(part) for part in parts),  # type: ignore[arg-type]
        "bytes": sum(map(_bytes, parts)),
    }


def _characters(part: JSON) -> int:
    if part.get("stored", {}).get("kind") == "text":
        return len(_content(part))
    return len(part.get("text", ""))


def _bytes(part: JSON) -> int:
    if "stored" in part:
        return int(part["stored"]["size"])
    if "raw" in part:
        return len(part["raw"]) * 3 // 4
    text = json.dumps(part["data"], ensure_ascii=False) if "data" in part else part.get("text") or part.get("url", "")
    return len(str(text).encode())
