"""The text of what can be found: words, names of files, and the content of files that are text."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Iterator
from typing import Any

from apps.record import blobs

LONGEST_TEXT = 400_000  # characters of one message or artifact that are looked at
LONGEST_PIECE = 60_000  # characters of one of its parts, so that a long file does not hide what stands beside it
LONGEST_FILE = 400_000  # bytes of a file that are read

TEXTS = re.compile(
    r"text/.*|application/(json|xml|yaml|x-yaml|toml|javascript|sql|x-sh|x-ndjson|csv)|.*\+(json|xml|yaml)"
)
UNSEEN = str.maketrans(dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000)], " "))


def text_of(parts: Iterable[dict[str, Any]]) -> str:
    """What can be found of these parts, one below the other."""
    pieces: list[str] = []
    left = LONGEST_TEXT
    for part in parts:
        for piece in _pieces(part):
            if left <= 0:
                break
            pieces.append(piece[: min(left, LONGEST_PIECE)])
            left -= len(pieces[-1]) + 1
    return "\n".join(pieces).translate(UNSEEN)


def _pieces(part: dict[str, Any]) -> Iterator[str]:
    if name := part.get("filename"):
        yield str(name)
    kind = part.get("stored", {}).get("kind", "")
    media_type = str(part.get("mediaType") or "").partition(";")[0].strip().lower()
    if "text" in part:
        yield str(part["text"])
    elif "data" in part:
        yield from _values(part["data"])
    elif kind in ("text", "data") or (("raw" in part or kind == "raw") and TEXTS.fullmatch(media_type)):
        yield _beginning(part).decode(errors="replace")


def _values(value: Any) -> Iterator[str]:
    """The words and numbers of JSON, without the names of its fields."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(reversed(one.values()))
        elif isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, str) or (isinstance(one, int | float) and not isinstance(one, bool)):
            yield str(one)


def _beginning(part: dict[str, Any]) -> bytes:
    """The first bytes of a file; nothing of one that is gone, whose message is found all the same."""
    try:
        return blobs.beginning_of(part, LONGEST_FILE)
    except (OSError, binascii.Error):
        return b""
