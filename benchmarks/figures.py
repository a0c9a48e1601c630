"""Figures of a round, and their medians."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

Figures = dict[str, float]
"""By name, which ends in the unit: "p50 ms"."""


def latencies(seconds: Sequence[float], title: str, *percents: int) -> Figures:
    """Percentiles in ms, by nearest rank."""
    ordered = sorted(seconds)
    ranks = {percent: max(0, -(-len(ordered) * percent // 100) - 1) for percent in percents}
    return {f"{title}, p{percent} ms": ordered[rank] * 1000 for percent, rank in ranks.items()}


def median(rounds: Sequence[Figures]) -> Figures:
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def shown(value: float) -> str:
    """About three digits; more would be noise."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
