"""Cuts a text into passages: at headings, paragraphs, lines and sentences. It knows neither Django nor a database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST = 1_500  # characters of a passage
SHORTEST = 600  # under the same heading, shorter ones are joined
MAX_HEADING = 300  # characters

# What a text is cut after, the best place first. Scripts without spaces end sentences with signs of their own.
PLACES = [
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"\n"),
    re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？｡]|[।۔؟]\s*"),
    re.compile(r"[,;:–]\s+|[、，；：]"),
    re.compile(r"\s+"),
]


class Piece(NamedTuple):
    """A part of a text under one heading and on one page. Pieces follow one another without a gap."""

    text: str
    heading: str = ""
    page: int | None = None


def cut(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The passages of a text. Joined they are the text, without what is blank between pieces."""
    waiting: Piece | None = None
    for piece in pieces:
        if not piece.text.strip():
            continue
        if waiting is not None and waiting[1:] == piece[1:] and len(waiting.text) < SHORTEST:
            piece = piece._replace(text=f"{waiting.text.rstrip()}\n\n{piece.text}")
        elif waiting is not None:
            yield waiting
        *whole, last = _cut_text(piece.text)
        yield from (piece._replace(text=text) for text in whole)
        waiting = piece._replace(text=last)
    if waiting is not None:
        yield waiting


def _cut_text(text: str) -> list[str]:
    """Passages of at most LONGEST characters, of about the same length."""
    found: list[str] = []
    at = 0
    while len(text) - at > LONGEST:
        number = -(-(len(text) - at) // LONGEST)
        end = _place(text, at, max(at + SHORTEST, at + (len(text) - at) // number - 100))
        found.append(text[at:end])
        at = end
    found.append(text[at:])
    return found


def _place(text: str, start: int, wanted: int) -> int:
    """Where to cut: at the best place near the wanted one, at the latest after LONGEST characters."""
    first, last = start + SHORTEST // 2, start + LONGEST
    for pattern in PLACES:
        ends = [found.end() for found in pattern.finditer(text, first, last) if found.end() <= last]
        if ends:
            return min(ends, key=lambda end: abs(end - wanted))
    return last
