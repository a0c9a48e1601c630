"""Two texts side by side: what is gone from the older, what is new, and a little of what surrounds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

AROUND = 3  # lines that stayed, before and after a change


@dataclass(frozen=True)
class Side:
    """A line of one of the texts; `number` counts from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class Pair:
    """What stands beside each other; None where a side has nothing to it. Neither side: lines that stayed are left out.

    `kind` is "same", "changed" or "gap".
    """

    kind: str
    older: Side | None = None
    newer: Side | None = None


def side_by_side(older: str, newer: str) -> list[Pair]:
    """The changes from one text to the other, line by line; nothing where they are the same."""
    left, right = older.splitlines(), newer.splitlines()
    groups = SequenceMatcher(None, left, right, autojunk=False).get_grouped_opcodes(AROUND)
    pairs: list[Pair] = []
    for number, group in enumerate(groups):
        if number:
            pairs.append(Pair("gap"))
        for tag, *ends in group:
            pairs += _pairs("same" if tag == "equal" else "changed", left, right, *ends)
    return pairs


def _pairs(kind: str, left: list[str], right: list[str], *ends: int) -> Iterator[Pair]:
    begin, end, new_begin, new_end = ends
    for older, newer in zip_longest(range(begin, end), range(new_begin, new_end)):
        yield Pair(kind, _side(left, older), _side(right, newer))


def _side(lines: list[str], at: int | None) -> Side | None:
    return None if at is None else Side(at + 1, lines[at])
