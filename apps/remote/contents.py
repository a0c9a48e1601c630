"""How much of an artifact was heard, so that what comes again, in whatever pieces, is known for what it is.

Of the content only digests are kept: a turn may have 200 MB of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.record.events import JSON


@dataclass(slots=True)
class Piece:
    """A part that was heard, or several of text that follow each other: agents cut text as they like.

    `text` is None for other parts, whose label is the digest of all of the part.
    """

    label: str
    part: JSON
    text: str | None


@dataclass(slots=True)
class Kept:
    """What is kept of a piece."""

    label: str
    length: int = 0
    sum: Any = field(default_factory=hashlib.sha256)

    def add(self, text: str) -> None:
        self.length += len(text)
        self.sum.update(text.encode(errors="surrogatepass"))

    def begins(self, text: str) -> bool:
        """Does the text begin with all of this?"""
        begin = text[: self.length].encode(errors="surrogatepass")
        return len(text) >= self.length and hashlib.sha256(begin).digest() == self.sum.digest()


class Heard:
    """What was heard of one artifact. `closed`: its last chunk came."""

    def __init__(self) -> None:
        self.closed = False
        self._pieces: list[Kept] = []

    def add(self, parts: Iterable[JSON]) -> None:
        for piece in pieces_of(parts):
            if piece.text is None or not self._pieces or self._pieces[-1].label != piece.label:
                self._pieces.append(Kept(piece.label))
            if piece.text is not None:
                self._pieces[-1].add(piece.text)

    def rest_of(self, parts: Sequence[JSON]) -> list[JSON] | None:
        """What these parts have beyond what was heard; None where they do not begin with that."""
        given = pieces_of(parts)
        if len(given) < len(self._pieces):
            return None
        rest: list[JSON] = []
        for number, (kept, piece) in enumerate(zip(self._pieces, given, strict=False)):
            if kept.label != piece.label:
                return None
            if piece.text is None:
                continue
            is_last = number == len(self._pieces) - 1
            if not kept.begins(piece.text) or (not is_last and len(piece.text) != kept.length):
                return None
            if more := piece.text[kept.length :]:
                rest.append({**piece.part, "text": more})
        return rest + [one.part for one in given[len(self._pieces) :]]


def pieces_of(parts: Iterable[JSON]) -> list[Piece]:
    """The parts, with text that follows text of the same kind joined to it, and without empty text."""
    pieces: list[Piece] = []
    for part in parts:
        text = part.get("text")
        if not isinstance(text, str):
            pieces.append(Piece(digest(part), part, None))
            continue
        label = _label_of(part)
        if pieces and pieces[-1].text is not None and pieces[-1].label == label:
            pieces[-1].text += text
            pieces[-1].part = {**pieces[-1].part, "text": pieces[-1].text}
        elif text:
            pieces.append(Piece(label, part, text))
    return pieces


def _label_of(part: JSON) -> str:
    """What tells text from other text: plain text with and without its media type is the same."""
    labels = {name: value for name, value in part.items() if name != "text" and value}
    if labels.get("mediaType") == "text/plain":
        del labels["mediaType"]
    return "text" + (digest(labels) if labels else "")


def digest(value: Any) -> str:
    """The same for the same value, whatever strings it has."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
