"""Dose-response curves: four parameters by least squares, with an interval for the dose of half the effect."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

SHALLOWEST, STEEPEST = 0.3, 4.0  # Hill's slope
BEYOND = 1.0  # decades outside the tested doses in which the middle is looked for
ROUNDS, ACROSS = 9, 17  # how often the grid of middles and slopes is laid anew, and how many lines it has each way
NORMAL_95 = 3.841  # the 95 % point of chi-squared with one degree of freedom

Points = Sequence[tuple[float, float]]
"""Pairs of a dose above nought and a response."""


@dataclass(frozen=True)
class Fit:
    """`response = bottom + (top − bottom) / (1 + (dose / ic50) ** hill)`.

    Attributes:
        low, high: the 95 % interval of the middle, from the profile of the likelihood; approximate.
        r_squared: the share of the responses' variance that the curve explains.
    """

    ic50: float
    hill: float
    top: float
    bottom: float
    low: float
    high: float
    r_squared: float

    def at(self, dose: float) -> float:
        """The response that the curve gives for a dose."""
        return self.bottom + (self.top - self.bottom) * _left(dose, self.ic50, self.hill)


def fitted(points: Points) -> Fit | None:
    """The curve that lies closest; None where the responses do not differ, or no dose does.

    For a given middle and slope, top and bottom are a straight line's: so only those two are searched for.
    """
    doses = sorted({dose for dose, _ in points})
    mean = fmean(response for _, response in points)
    spread = sum((response - mean) ** 2 for _, response in points)
    if len(doses) < 2 or not spread:
        return None
    lowest, highest = math.log10(doses[0]) - BEYOND, math.log10(doses[-1]) + BEYOND
    middle, hill = _closest(points, lowest, highest)
    error, top, bottom = _line(points, 10**middle, hill)
    low, high = _interval(points, middle, error, lowest, highest)
    return Fit(10**middle, hill, top, bottom, 10**low, 10**high, 1 - error / spread)


def _closest(points: Points, lowest: float, highest: float) -> tuple[float, float]:
    """The logarithm of the middle, and the slope, with the least squares: a grid that narrows around its best point."""
    middles, slopes = (lowest, highest), (math.log(SHALLOWEST), math.log(STEEPEST))
    best = (0.0, 0.0)
    for _ in range(ROUNDS):
        grid = ((middle, slope) for middle in _between(*middles) for slope in _between(*slopes))
        best = min(grid, key=lambda at: _line(points, 10 ** at[0], math.exp(at[1]))[0])
        middles = _around(best[0], middles, (lowest, highest))
        slopes = _around(best[1], slopes, (math.log(SHALLOWEST), math.log(STEEPEST)))
    return best[0], math.exp(best[1])


def _line(points: Points, ic50: float, hill: float) -> tuple[float, float, float]:
    """The sum of squares, top and bottom of the best curve with that middle and slope."""
    lefts = [_left(dose, ic50, hill) for dose, _ in points]
    responses = [response for _, response in points]
    across, up = fmean(lefts), fmean(responses)
    width = sum((left - across) ** 2 for left in lefts)
    pairs = list(zip(lefts, responses, strict=True))
    slope = sum((left - across) * (response - up) for left, response in pairs) / width if width else 0.0
    bottom = up - slope * across
    error = sum((response - bottom - slope * left) ** 2 for left, response in pairs)
    return error, bottom + slope, bottom


def _interval(points: Points, middle: float, error: float, lowest: float, highest: float) -> tuple[float, float]:
    """How far the middle can move before the curve fits clearly worse."""
    bound = max(error, 1e-12) * math.exp(NORMAL_95 / len(points))
    slopes = [math.exp(slope) for slope in _between(math.log(SHALLOWEST), math.log(STEEPEST))]

    def holds(at: float) -> bool:
        return min(_line(points, 10**at, slope)[0] for slope in slopes) <= bound

    def end(outer: float) -> float:
        inner = middle
        if holds(outer):
            return outer
        for _ in range(20):
            half = (inner + outer) / 2
            inner, outer = (half, outer) if holds(half) else (inner, half)
        return inner

    return end(lowest), end(highest)


def _left(dose: float, ic50: float, hill: float) -> float:
    """The share of the response that is left at a dose."""
    return float(1 / (1 + (dose / ic50) ** hill))


def _between(low: float, high: float) -> Iterator[float]:
    return (low + (high - low) * step / (ACROSS - 1) for step in range(ACROSS))


def _around(best: float, span: tuple[float, float], limits: tuple[float, float]) -> tuple[float, float]:
    """The next grid: two lines of the last one to each side of its best point."""
    reach = 2 * (span[1] - span[0]) / (ACROSS - 1)
    return max(limits[0], best - reach), min(limits[1], best + reach)
