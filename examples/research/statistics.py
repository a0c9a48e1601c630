"""The statistics of small experiments, by their textbook formulas: effect sizes, tests, dose-response curves.

Sources: Hedges and Olkin (1985) for g and its interval; Welch (1947); Benjamini and Hochberg (1995); Zhang, Chung and
Oldenburg (1999) for Z′. Curves have four parameters, fitted by least squares.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95
_SMALLEST = 1e-300
_STEPS = 500


class NoSpread(ValueError):
    """No group varies, so no test is possible."""


@dataclass(frozen=True)
class Effect:
    """A standardised difference of means, Hedges' g, with its confidence interval."""

    g: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """Welch's test: t, its degrees of freedom, and the two-sided probability."""

    t: float
    freedom: float
    p: float


def hedges(one: Sequence[float], other: Sequence[float]) -> Effect:
    """Hedges' g of `one` against `other`.

    Raises:
        NoSpread: the pooled standard deviation is zero.
        statistics.StatisticsError: a group has fewer than two values.
    """
    first, second = len(one), len(other)
    freedom = first + second - 2
    pooled = math.sqrt(((first - 1) * stdev(one) ** 2 + (second - 1) * stdev(other) ** 2) / freedom)
    if not pooled:
        raise NoSpread
    g = (fmean(one) - fmean(other)) / pooled * (1 - 3 / (4 * freedom - 1))
    error = math.sqrt((first + second) / (first * second) + g * g / (2 * (first + second)))
    reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * error
    return Effect(g, g - reach, g + reach)


def welch(one: Sequence[float], other: Sequence[float]) -> Difference:
    """Welch's test, for groups of different variances and sizes. Raises as `hedges` does."""
    first, second = stdev(one) ** 2 / len(one), stdev(other) ** 2 / len(other)
    if not first + second:
        raise NoSpread
    t = (fmean(one) - fmean(other)) / math.sqrt(first + second)
    freedom = (first + second) ** 2 / (first**2 / (len(one) - 1) + second**2 / (len(other) - 1))
    return Difference(t, freedom, two_sided(t, freedom))


def two_sided(t: float, freedom: float) -> float:
    return _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def false_discovery_rates(probabilities: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's q for each p, in the same order: the false discovery rate at this threshold."""
    count, least = len(probabilities), 1.0
    found = [0.0] * count
    ascending = sorted(range(count), key=lambda at: probabilities[at])
    for rank, at in reversed(list(enumerate(ascending, 1))):
        least = min(least, probabilities[at] * count / rank)
        found[at] = least
    return found


def z_prime(positive: Sequence[float], negative: Sequence[float]) -> float:
    """How well an assay separates its controls: 0.5 and above is excellent; below 0 the controls overlap.

    Raises:
        NoSpread: both controls have the same mean.
    """
    window = abs(fmean(positive) - fmean(negative))
    if not window:
        raise NoSpread
    return 1 - 3 * (stdev(positive) + stdev(negative)) / window


def replicates_for(effect: float, power: float = 0.8, level: float = 0.05) -> int:
    """How many values per group detect an effect of that many standard deviations, by the normal approximation."""
    normal = NormalDist()
    needed = 2 * ((normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)) / effect) ** 2
    return max(3, math.ceil(needed))


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    return front * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    upper, lower = 1.0, 1 / _far_from_nought(1 - (a + b) * x / (a + 1))
    value = lower
    for step in range(1, _STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            lower = 1 / _far_from_nought(1 + term * lower)
            upper = _far_from_nought(1 + term / upper)
            value *= upper * lower
        if abs(upper * lower - 1) < 1e-15:
            break
    return value


def _far_from_nought(value: float) -> float:
    return value if abs(value) > _SMALLEST else _SMALLEST


SHALLOWEST, STEEPEST = 0.3, 4.0  # Hill's slope
BEYOND = 1.0  # decades searched beyond the tested doses
ROUNDS, ACROSS = 9, 17  # rounds of the grid search, and grid points on each axis
NORMAL_95 = 3.841  # the 95 % point of chi-squared with one degree of freedom

Points = Sequence[tuple[float, float]]
"""Pairs of a dose above nought and a response."""


@dataclass(frozen=True)
class Fit:
    """`response = bottom + (top − bottom) / (1 + (dose / ic50) ** hill)`.

    Attributes:
        low, high: the approximate 95 % interval of the IC50, from the profile likelihood.
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
        return self.bottom + (self.top - self.bottom) * _share_left(dose, self.ic50, self.hill)


def fit_curve(points: Points) -> Fit | None:
    """The closest curve; None if the responses or the doses do not vary.

    For a given IC50 and slope, top and bottom follow from a linear fit. So the search covers only those two.
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
    """The log IC50 and the slope of the least-squares curve, by a grid that narrows around its best point."""
    middles, slopes = (lowest, highest), (math.log(SHALLOWEST), math.log(STEEPEST))
    best = (0.0, 0.0)
    for _ in range(ROUNDS):
        grid = ((middle, slope) for middle in _between(*middles) for slope in _between(*slopes))
        best = min(grid, key=lambda at: _line(points, 10 ** at[0], math.exp(at[1]))[0])
        middles = _around(best[0], middles, (lowest, highest))
        slopes = _around(best[1], slopes, (math.log(SHALLOWEST), math.log(STEEPEST)))
    return best[0], math.exp(best[1])


def _line(points: Points, ic50: float, hill: float) -> tuple[float, float, float]:
    """The sum of squares, top and bottom of the best curve with that IC50 and slope."""
    lefts = [_share_left(dose, ic50, hill) for dose, _ in points]
    responses = [response for _, response in points]
    across, up = fmean(lefts), fmean(responses)
    width = sum((left - across) ** 2 for left in lefts)
    pairs = list(zip(lefts, responses, strict=True))
    slope = sum((left - across) * (response - up) for left, response in pairs) / width if width else 0.0
    bottom = up - slope * across
    error = sum((response - bottom - slope * left) ** 2 for left, response in pairs)
    return error, bottom + slope, bottom


def _interval(points: Points, middle: float, error: float, lowest: float, highest: float) -> tuple[float, float]:
    """The 95 % interval of the IC50, from the profile likelihood."""
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


def _share_left(dose: float, ic50: float, hill: float) -> float:
    return float(1 / (1 + (dose / ic50) ** hill))


def _between(low: float, high: float) -> Iterator[float]:
    return (low + (high - low) * step / (ACROSS - 1) for step in range(ACROSS))


def _around(best: float, span: tuple[float, float], limits: tuple[float, float]) -> tuple[float, float]:
    reach = 2 * (span[1] - span[0]) / (ACROSS - 1)
    return max(limits[0], best - reach), min(limits[1], best + reach)
