"""The stretch of a text in which most of what was looked for stands, as pieces that are hits or not: data alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import TypedDict

from apps.features.search.queries import Clause, Query
from apps.features.search.words import words

LENGTH = 160  # characters between the first and the last hit
MARGIN = 60  # characters around them
SEARCHED = 20_000  # characters of a text in which hits are looked for


class Piece(TypedDict):
    text: str
    hit: bool


Hit = tuple[int, int, Clause]


def excerpt(text: str, query: Query) -> list[Piece]:
    """The pieces, in order; of a text without a hit (whose hits are too far in it) its beginning."""
    best = _best(text, query)
    if not best:
        return _pieces(text, 0, min(len(text), LENGTH + MARGIN), [])
    start = max(0, best[0][0] - MARGIN)
    end = min(len(text), max(hit[1] for hit in best) + MARGIN)
    return _pieces(text, start, end, best)


def _best(text: str, query: Query) -> list[Hit]:
    """The hits that stand together and are of most clauses; of several such stretches the first."""
    window: deque[Hit] = deque()
    best: list[Hit] = []
    most = 0
    for hit in _hits(text[:SEARCHED], query.wanted):
        window.append(hit)
        while hit[1] - window[0][0] > LENGTH and len(window) > 1:
            window.popleft()
        different = len({clause for _, _, clause in window})
        if different > most or (different == most and best and window[0] == best[0]):
            best, most = list(window), different
        elif most == len(query.wanted):
            break
    return best


def _hits(text: str, clauses: tuple[Clause, ...]) -> Iterator[Hit]:
    """Where each clause stands, in the order of their ends."""
    longest = max(len(clause.words) for clause in clauses)
    last: deque[tuple[str, int, int]] = deque(maxlen=longest)
    for word in words(text):
        last.append(word)
        for clause in clauses:
            if stretch := _ends_with(last, clause):
                yield stretch[0], stretch[1], clause


def _ends_with(last: deque[tuple[str, int, int]], clause: Clause) -> tuple[int, int] | None:
    """Where the clause stands, if these words end with it."""
    count = len(clause.words)
    if len(last) < count:
        return None
    tail = list(last)[-count:]
    *before, end = clause.words
    found = tail[-1][0]
    if not (found.startswith(end) if clause.is_prefix else found == end):
        return None
    if any(word[0] != wanted for word, wanted in zip(tail, before, strict=False)):
        return None
    return tail[0][1], tail[-1][2]


def _pieces(text: str, start: int, end: int, hits: list[Hit]) -> list[Piece]:
    marked = bytearray(end - start)
    for first, last, _ in hits:
        for place in range(max(first, start), min(last, end)):
            marked[place - start] = 1
    edges = [0, *(place for place in range(1, end - start) if marked[place] != marked[place - 1]), end - start]
    pieces = [Piece(text=text[start + a : start + b], hit=bool(marked[a])) for a, b in pairwise(edges) if a < b]
    if pieces and start > 0:
        pieces[0] = _shortened(pieces[0], at_start=True)
    if pieces and end < len(text):
        pieces[-1] = _shortened(pieces[-1], at_start=False)
    return pieces


def _shortened(piece: Piece, *, at_start: bool) -> Piece:
    """A piece that begins or ends in the middle of the text: with an ellipsis, and without half a word if it can be."""
    text = piece["text"]
    if piece["hit"]:
        return piece
    if at_start:
        return Piece(text="…" + (text.split(" ", 1)[1] if " " in text else text), hit=False)
    return Piece(text=(text.rsplit(" ", 1)[0] if " " in text else text) + "…", hit=False)
