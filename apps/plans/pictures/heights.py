"""How high each box of a column stands: as near to its neighbours in the columns beside it as the others allow."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

SWEEPS = 8
TALL = 800  # pixels of a column from which on boxes stand beside their highest neighbour, where reading begins
Neighbours = Sequence[Sequence[int]]

LANE, BOX = 4.0, 1.0  # how much it matters that a lane, or a box, is where its neighbours are


def heights(
    columns: Sequence[Sequence[int]],
    before: Neighbours,
    after: Neighbours,
    tall: Sequence[int],
    between: int,
    is_box: Sequence[bool],
) -> list[int]:
    """The middle of each node, in pixels, in the order that the columns have; `tall` and `between` are even."""
    middle = [0.0] * len(tall)
    gaps = [
        [0, *(_gap(one, other, tall, between, is_box) for one, other in itertools.pairwise(column))]
        for column in columns
    ]
    weight = [BOX if here else LANE for here in is_box]
    for column, gap in zip(columns, gaps, strict=True):
        at = -sum(gap) / 2
        for node, below in zip(column, gap, strict=True):
            at += below
            middle[node] = at
    tallest = max(range(len(gaps)), key=lambda number: sum(gaps[number]), default=0)
    is_tall = bool(gaps) and sum(gaps[tallest]) > TALL

    def settle(number: int, *sides: Neighbours) -> None:
        column, wanted = columns[number], []
        for node in column:
            beside = [middle[one] for side in sides for one in side[node]]
            wanted.append((min(beside) if is_tall else sum(beside) / len(beside)) if beside else middle[node])
        for node, at in zip(column, apart(wanted, [weight[node] for node in column], gaps[number]), strict=True):
            middle[node] = at

    for sweep in range(SWEEPS):
        numbers = range(len(columns))
        sides = (before, after) if sweep >= SWEEPS - 2 else (before,) if sweep % 2 == 0 else (after,)
        for number in numbers if sweep % 2 == 0 else reversed(numbers):
            settle(number, *sides)
    if is_tall:
        for number in range(tallest + 1, len(columns)):
            settle(number, before)
        for number in reversed(range(tallest)):
            settle(number, after)
    return [math.floor(at + 1e-6) for at in middle]


def _gap(one: int, other: int, tall: Sequence[int], between: int, is_box: Sequence[bool]) -> int:
    """From the middle of one to that of the next; lanes run closer to each other."""
    return (tall[one] + tall[other]) // 2 + (between if is_box[one] or is_box[other] else between // 2)


def apart(wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The places nearest to those wanted (least squares) of which each is at least its gap below the one before.

    Pools of what would overlap are moved together until none does.
    """
    shift, shifts = 0.0, []
    for gap in gaps:
        shift += gap
        shifts.append(shift)
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for want, weight, moved in zip(wanted, weights, shifts, strict=True):
        mean, heavy, count = want - moved, weight, 1
        while pools and pools[-1][0] > mean:
            other, more, many = pools.pop()
            mean = (mean * heavy + other * more) / (heavy + more)
            heavy, count = heavy + more, count + many
        pools.append((mean, heavy, count))
    flat = [mean for mean, _, count in pools for _ in range(count)]
    return [at + moved for at, moved in zip(flat, shifts, strict=True)]
