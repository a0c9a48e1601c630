"""Reads an array that is not JSON as a whole: the items that are, and where the others are."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apps.record.content import strict_json

BETWEEN = re.compile(r"[\s,]*")
NEXT_OBJECT = re.compile(r",\s*(?=\{)")
MOST_WORK = 1_000_000_000  # characters: what is wrong is found by counting lines from the beginning


@dataclass
class Items:
    """`damaged`: what is wrong with an item, a sentence, by its number from 1."""

    whole: list[Any] = field(default_factory=list)
    damaged: dict[int, str] = field(default_factory=dict)


class ItemReader:
    """After a damaged item, it goes on with the next object of the kind of those before.

    `kind_of` names what a value is, or "". `is_conversation` knows one from a part of it, such as a message.
    """

    def __init__(self, text: str, kind_of: Callable[[Any], str], is_conversation: Callable[[Any], bool]) -> None:
        self._text, self._kind_of, self._is_conversation = text, kind_of, is_conversation
        self._kinds: set[str] = set()
        self._work = MOST_WORK

    def read(self) -> Items:
        """The text is an array's, from its bracket to its end or to where it was cut off."""
        found, text = Items(), self._text
        at = self._after_space(text.index("[") + 1)
        while at < len(text) and text[at] != "]":
            number = len(found.whole) + len(found.damaged) + 1
            if self._work < 0:
                found.damaged[number] = "Too much of the file is damaged. The rest was not read."
                break
            try:
                value, end = strict_json.parse_at(text, at, len(text))
            except strict_json.InvalidJSON as error:
                found.damaged[number] = str(error)
                self._work -= at
                end = self._next_item(at)
            else:
                found.whole.append(value)
                self._kinds |= {self._kind_of(value)} - {""}
            at = self._after_space(end)
        return found

    def _after_space(self, at: int) -> int:
        found = BETWEEN.match(self._text, at)
        return found.end() if found else at

    def _next_item(self, at: int) -> int:
        part = len(self._text)
        for place in NEXT_OBJECT.finditer(self._text, at):
            if self._work < 0:
                break
            start = place.end()
            try:
                value, end = strict_json.parse_at(self._text, start, len(self._text))
            except strict_json.InvalidJSON:
                self._work -= start
                continue
            self._work -= end - start
            kind = self._kind_of(value)
            if kind in self._kinds or (not self._kinds and self._is_conversation(value)):
                return start
            if kind and not self._kinds:
                part = min(part, start)
        return part
