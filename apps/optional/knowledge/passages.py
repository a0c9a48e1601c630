"""Cuts a text into passages: at headings, paragraphs, lines and sentences. It knows neither Django nor a database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

LONGEST = 1_500  # characters of a passage
SHORTEST = 600  # of one that is cut from a longer text
LAST = 200  # of the rest of one
BETWEEN = " › "  # headings
UNKEPT = re.compile("[\0\ud800-\udfff]")  # characters that databases do not keep: NUL and lone surrogates
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


def cleaned(text: str) -> str:
    """Without characters that databases do not keep."""
    return UNKEPT.sub("", text)


def cut(pieces: Iterable[Piece], *, by_heading: bool = True) -> Iterator[Piece]:
    """The passages of a text, in order. Together they are the text, without what is blank between pieces.

    Short neighbors of a page become one passage: of one heading, or unless `by_heading` of any. Then it has the
    headings that they share.
    """
    waiting: Piece | None = None
    for piece in pieces:
        piece = piece._replace(text=cleaned(piece.text), heading=cleaned(piece.heading))
        if not piece.text.strip():
            continue
        if waiting is not None and _belong_together(waiting, piece, by_heading):
            heading = piece.heading if by_heading else _shared(waiting.heading, piece.heading)
            piece = piece._replace(text=f"{waiting.text.rstrip()}\n\n{piece.text}", heading=heading)
        elif waiting is not None:
            yield from _cut(waiting)
        waiting = piece
    if waiting is not None:
        yield from _cut(waiting)


def _shared(one: str, other: str) -> str:
    pairs = zip(one.split(BETWEEN), other.split(BETWEEN), strict=False)
    return BETWEEN.join(first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _belong_together(one: Piece, following: Piece, by_heading: bool) -> bool:
    if one.page != following.page:
        return False
    if one.heading == following.heading or not by_heading:
        return len(one.text) + len(following.text) < LONGEST
    lines = {line.strip(" \t#=-") for line in one.text.splitlines()} - {""}
    is_heading_alone = lines <= set(one.heading.split(BETWEEN))
    return is_heading_alone and following.heading.startswith(one.heading)


def _cut(piece: Piece) -> Iterator[Piece]:
    """Passages of at most LONGEST characters, of about the same length."""
    text, at = piece.text, 0
    while (left := len(text) - at) > LONGEST:
        number = -(-left // LONGEST)
        end = _place(text, at + SHORTEST, at + left // number, min(at + LONGEST, len(text) - LAST))
        yield piece._replace(text=text[at:end].strip("\n"))
        at = end
    yield piece._replace(text=text[at:].strip("\n"))


def _place(text: str, first: int, wanted: int, last: int) -> int:
    """Where to cut: at the best place between the first and the last, near the wanted one."""
    for pattern in PLACES:
        if ends := [found.end() for found in pattern.finditer(text, first, last)]:
            return min(ends, key=lambda end: abs(end - wanted))
    return last
