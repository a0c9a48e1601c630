"""What parts are and say: their words, their media type and their size."""

from __future__ import annotations

import json
import re
from typing import Any

from agentkit.parts import guessed_media_type

JSON = dict[str, Any]
MEDIA_TYPE = re.compile(r"[a-z0-9][\w.+-]*/[a-z0-9][\w.+-]*", re.ASCII)


def words_of(parts: list[JSON]) -> str:
    """What the parts say, as plain text."""
    return "\n".join(part["text"] for part in parts if "text" in part and not part.get("filename"))


def is_file(part: JSON) -> bool:
    """Is it a file, also one that stands here itself or is elsewhere? Words and values with a name are one."""
    return bool(part.get("filename")) or not ("text" in part or "data" in part)


def pieces_joined(parts: list[JSON]) -> list[JSON]:
    """The parts, with text that came in pieces as one: each chunk of a streamed artifact is a part of its own."""
    joined: list[JSON] = []
    for part in parts:
        if joined and _continues(joined[-1], part):
            joined[-1]["pieces"].append(part["text"])
        else:
            joined.append({**part, "pieces": [part["text"]]} if "text" in part else part)
    return [
        {**{name: value for name, value in part.items() if name != "pieces"}, "text": "".join(part["pieces"])}
        if "pieces" in part
        else part
        for part in joined
    ]


def _continues(before: JSON, part: JSON) -> bool:
    """Is this the next piece of the same nameless text?"""
    return (
        "pieces" in before
        and "text" in part
        and not (before.get("filename") or part.get("filename"))
        and before.get("mediaType") == part.get("mediaType")
    )


def media_type_of(part: JSON) -> str:
    """The part's media type without parameters: as given, where it is one; otherwise by kind or name."""
    given = str(part.get("mediaType", "")).partition(";")[0].strip().lower()
    if MEDIA_TYPE.fullmatch(given):
        return given
    kind = part["stored"]["kind"] if "stored" in part else next((k for k in ("text", "data") if k in part), "raw")
    if kind == "data":
        return "application/json"
    if kind == "text" and not part.get("filename"):
        return "text/plain"
    return guessed_media_type(part.get("filename", ""))


def known_media_type(part: JSON) -> str:
    """The same; of a link only what is said of it, which may be nothing."""
    return "" if "url" in part and not part.get("mediaType") else media_type_of(part)


def size_of(part: JSON) -> int | None:
    """Bytes of a part's content; None for a link."""
    if "stored" in part:
        return int(part["stored"]["size"])
    if "raw" in part:
        return len(part["raw"].rstrip("=")) * 3 // 4
    if "text" in part:
        return len(part["text"].encode())
    return len(json.dumps(part["data"], ensure_ascii=False).encode()) if "data" in part else None
