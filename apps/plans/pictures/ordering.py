"""Orders of columns in which few lines between them cross, found by sweeps that follow the mean of the neighbours."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

SWEEPS = 16
PATIENCE = 6  # sweeps after which nothing got better

Columns = list[list[int]]
Neighbours = Sequence[Sequence[int]]


def ordered(columns: Columns, before: Neighbours, after: Neighbours) -> Columns:
    """The same columns, each in a better order. `before` and `after` are in the columns next to one's own."""
    best, fewest, waited = [list(column) for column in columns], crossings(columns, after), 0
    columns = [list(column) for column in columns]
    place = [0.0] * len(before)
    for column in columns:
        _placed(column, place)
    for sweep in range(SWEEPS):
        if not fewest or waited >= PATIENCE:
            break
        rightward = sweep % 2 == 0
        beside = before if rightward else after
        for column in columns if rightward else reversed(columns):
            column.sort(key=lambda node: _mean([place[one] for one in beside[node]], place[node]))
            _placed(column, place)
        _exchanged(columns, before, after, place, also_equal=sweep % 4 > 1)
        count = crossings(columns, after)
        waited += 1
        if count < fewest:
            best, fewest, waited = [list(column) for column in columns], count, 0
    return best


def crossings(columns: Columns, after: Neighbours) -> int:
    """How many pairs of lines cross, counted between columns that are next to each other."""
    found = 0
    for column, following in itertools.pairwise(columns):
        at = {node: number for number, node in enumerate(following)}
        seen: list[int] = []
        for node in column:
            ends = sorted(at[one] for one in after[node])
            found += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return found


def _placed(column: list[int], place: list[float]) -> None:
    """Places are shares of a column's height, so that columns of different lengths can be compared."""
    for number, node in enumerate(column):
        place[node] = (number + 0.5) / len(column)


def _exchanged(
    columns: Columns, before: Neighbours, after: Neighbours, place: list[float], *, also_equal: bool
) -> None:
    """Neighbours in a column change places where that makes their own lines cross less.

    Also where it is all the same, if that is wanted: it is the way out of an order that only two moves make better.
    """
    for column in columns:
        for at in range(len(column) - 1):
            upper, lower = column[at], column[at + 1]
            gain = _crossed(upper, lower, before, after, place) - _crossed(lower, upper, before, after, place)
            if gain > 0 or (also_equal and not gain):
                column[at], column[at + 1] = lower, upper
        _placed(column, place)


def _crossed(upper: int, lower: int, before: Neighbours, after: Neighbours, place: list[float]) -> int:
    found = 0
    for beside in (before, after):
        ends = sorted(place[one] for one in beside[lower])
        found += sum(bisect_left(ends, place[one]) for one in beside[upper])
    return found


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
