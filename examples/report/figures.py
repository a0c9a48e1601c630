"""Figures as people read them."""

import math
from datetime import date

from examples.report.columns import Column, DateColumn, NumberColumn, TextColumn


def quantity(count: int, thing: str) -> str:
    """`1 row`, `1,204 rows`."""
    return f"{count:,} {thing if count == 1 else thing + 's'}"


def share(part: int, whole: int) -> str:
    """A percentage that is neither 0 % nor 100 % unless it is exactly that."""
    percent = 100 * part / whole if whole else 0.0
    if 0 < percent < 0.1:
        return "less than 0.1 %"
    if percent < 10 and percent != round(percent):
        return f"{percent:.1f} %"
    return "more than 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def figure(value: float) -> str:
    """About four significant digits, but the whole part in full; very large and very small ones by exponent."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size and (size >= 1e12 or size < 1e-4):
        return f"{value:.3e}"
    if value == int(value):
        return f"{value:,.0f}"
    decimals = max(3 - math.floor(math.log10(size)), 1 if size < 100_000 else 0)
    return f"{value:,.{decimals}f}".rstrip("0").rstrip(".") if decimals else f"{value:,.0f}"


def compact(value: float) -> str:
    """For the marks of an axis: `1.5k`, `20M`, `0.25`."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size <= abs(value) < size * 1000:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def figure_in(column: NumberColumn, value: float) -> str:
    """A value of that column; years are written without a comma."""
    if column.label and value == int(value):
        return f"{value:.0f}"
    return figure(value)


def when(day: date) -> str:
    return day.isoformat()


def clipped(text: str, length: int) -> str:
    """On one line, without invisible characters, and no longer than `length` characters."""
    line = "".join(character for character in " ".join(text.split()) if character.isprintable())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def in_brief(column: Column) -> str:
    """The one thing to know of a column."""
    match column:
        case NumberColumn(label=True):
            return f"{figure_in(column, column.minimum)} to {figure_in(column, column.maximum)}"
        case NumberColumn():
            return f"{figure(column.minimum)} to {figure(column.maximum)}, mean {figure(column.mean)}"
        case DateColumn():
            return f"{when(column.earliest)} to {when(column.latest)}"
        case TextColumn() if column.common[0][1] > 1:
            value, times = column.common[0]
            return (
                f"mostly {clipped(value, 30)} ({share(times, column.count)})"
                if times * 2 > column.count
                else (f"most often {clipped(value, 30)} ({share(times, column.count)})")
            )
        case TextColumn():
            return "all different" if column.count > 1 else clipped(column.common[0][0], 40)
        case _:
            return "no values"
