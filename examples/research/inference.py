"""The statistics of small experiments, by their textbook formulas: effect sizes, Welch's test, many tests at once.

Sources: Hedges and Olkin (1985) for g and its interval; Welch (1947); Benjamini and Hochberg (1995);
Zhang, Chung and Oldenburg (1999) for Z′.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95
_SMALLEST = 1e-300
_STEPS = 500


class NoSpread(ValueError):
    """All values of both groups are the same within their group: nothing can be inferred."""


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
    """How far `one` lies above `other`, in pooled standard deviations, corrected for small samples.

    Raises:
        NoSpread: the pooled standard deviation is nought.
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
    """Do the means differ? The groups may have different variances and sizes. Raises as `hedges` does."""
    first, second = stdev(one) ** 2 / len(one), stdev(other) ** 2 / len(other)
    if not first + second:
        raise NoSpread
    t = (fmean(one) - fmean(other)) / math.sqrt(first + second)
    freedom = (first + second) ** 2 / (first**2 / (len(one) - 1) + second**2 / (len(other) - 1))
    return Difference(t, freedom, two_sided(t, freedom))


def two_sided(t: float, freedom: float) -> float:
    """How probable a t at least so far from nought is, by Student's distribution."""
    return _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def adjusted(probabilities: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's q for each p, in the same order: the false discovery rate at which it would be found."""
    count, least = len(probabilities), 1.0
    found = [0.0] * count
    ascending = sorted(range(count), key=lambda at: probabilities[at])
    for rank, at in reversed(list(enumerate(ascending, 1))):
        least = min(least, probabilities[at] * count / rank)
        found[at] = least
    return found


def z_prime(positive: Sequence[float], negative: Sequence[float]) -> float:
    """How well an assay tells its controls apart: from 0.5 on it is excellent, below 0 the controls overlap.

    Raises:
        NoSpread: both controls have the same mean.
    """
    window = abs(fmean(positive) - fmean(negative))
    if not window:
        raise NoSpread
    return 1 - 3 * (stdev(positive) + stdev(negative)) / window


def replicates_for(effect: float, power: float = 0.8, level: float = 0.05) -> int:
    """How many values of each group show an effect of so many standard deviations; by the normal approximation."""
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
    """The continued fraction of the incomplete beta function, evaluated from the front (Lentz)."""
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
