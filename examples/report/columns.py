"""What a column holds, and the figures that describe it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar

import numpy as np

from examples.report.table import Table
from examples.report.values import NO, YES, Decimal, day, is_code, is_missing, number

MOSTLY = 0.95
"""The share of a column's values that make it a column of numbers or dates; the rest are counted as odd."""

TRIAL = 200
SHOWN_VALUES = 5

type Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Column:
    """What all columns have in common: `count` values that are there, `missing` that are not."""

    name: str
    count: int
    missing: int
    distinct: int

    kind: ClassVar[str] = "empty"


@dataclass(frozen=True)
class NumberColumn(Column):
    """`values` has NaN where the cell is missing or odd (not a number)."""

    values: Numbers
    odd: int
    minimum: float
    lower_quartile: float
    median: float
    mean: float
    upper_quartile: float
    maximum: float
    deviation: float
    whole: bool
    label: bool
    """The numbers name rows or years, so that sums and means of them say nothing."""

    kind: ClassVar[str] = "number"


@dataclass(frozen=True)
class DateColumn(Column):
    odd: int
    earliest: date
    latest: date

    kind: ClassVar[str] = "date"

    @property
    def days(self) -> int:
        return (self.latest - self.earliest).days


@dataclass(frozen=True)
class TextColumn(Column):
    """`common` are the most common values and how often each occurs."""

    common: Sequence[tuple[str, int]]

    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class YesNoColumn(TextColumn):
    kind: ClassVar[str] = "yes/no"


def described(table: Table) -> list[Column]:
    """Every column of the table, in its order."""
    tallies = [Counter(map(str.strip, column)) for column in table.columns]
    decimal = _usual_decimal(table, tallies)
    pairs = zip(table.names, table.columns, tallies, strict=True)
    return [_described(name, cells, tally, decimal) for name, cells, tally in pairs]


def _described(name: str, cells: list[str], tally: Counter[str], decimal: Decimal) -> Column:
    present = Counter({value: times for value, times in tally.items() if not is_missing(value)})
    count = present.total()
    shared = (name, count, len(cells) - count, len(present))
    if not present:
        return Column(*shared)
    if _yes_or_no(present):
        return YesNoColumn(*shared, present.most_common(SHOWN_VALUES))
    return (
        _number_column(shared, cells, present, decimal)
        or _date_column(shared, present, decimal)
        or TextColumn(*shared, present.most_common(SHOWN_VALUES))
    )


def _yes_or_no(present: Counter[str]) -> bool:
    if len(present) > len(YES | NO):
        return False
    said = {value.casefold() for value in present}
    return said <= YES | NO and (len(said) > 1 or max(map(len, said)) > 1)


def _number_column(
    shared: tuple[str, int, int, int], cells: list[str], present: Counter[str], usual: Decimal
) -> NumberColumn | None:
    parsed = _as_numbers(present, usual)
    if parsed is None:
        return None
    values: Numbers = np.array([parsed.get(cell.strip(), np.nan) for cell in cells], dtype=np.float64)
    numbers = values[~np.isnan(values)]
    whole = bool(np.all(numbers == np.floor(numbers))) and not any("e" in value.lower() for value in parsed)
    # The mean of very large numbers may be too large for a number; such a figure is shown as a dash.
    with np.errstate(all="ignore"):
        low, lower, middle, upper, high = (float(q) for q in np.quantile(numbers, (0, 0.25, 0.5, 0.75, 1)))
        mean = float(np.mean(numbers))
        deviation = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else 0.0
    return NumberColumn(
        *shared,
        values=values,
        odd=shared[1] - len(numbers),
        minimum=low,
        lower_quartile=lower,
        median=middle,
        mean=mean,
        upper_quartile=upper,
        maximum=high,
        deviation=deviation,
        whole=whole,
        label=whole and (_counts_rows(shared[0], values) or _years(shared[0], low, high)),
    )


def _as_numbers(present: Counter[str], usual: Decimal) -> dict[str, float] | None:
    """Each value's number, for a column that is mostly numbers, in the notation that fits it best."""
    other: Decimal = "," if usual == "." else "."
    best: dict[str, float] = {}
    best_share = 0.0
    for decimal in (usual, other):
        trial = list(present)[:TRIAL]
        if sum(number(value, decimal) is not None for value in trial) < len(trial) * 0.5:
            continue
        parsed = {value: found for value in present if (found := number(value, decimal)) is not None}
        share = sum(present[value] for value in parsed) / present.total()
        if share > best_share:
            best, best_share = parsed, share
    return best if best_share >= MOSTLY and not any(map(is_code, best)) else None


def _usual_decimal(table: Table, tallies: list[Counter[str]]) -> Decimal:
    """Whether the table writes 1,5 or 1.5. `1,234` alone does not tell; other numbers of the table do."""
    votes = {".": 0, ",": 0}
    for tally in tallies:
        for value in list(tally)[:TRIAL]:
            point, comma = number(value, "."), number(value, ",")
            if (point is None) != (comma is None):
                votes["." if comma is None else ","] += 1
    if votes["."] == votes[","]:
        return "," if table.delimiter == ";" else "."
    return "." if votes["."] > votes[","] else ","


def _counts_rows(name: str, values: Numbers) -> bool:
    if np.isnan(values).any() or len(values) < 2:
        return False
    named_so = name.casefold() in {"id", "nr", "no", "no.", "#", "index"} or name.casefold().endswith((" id", "_id"))
    return bool(np.all(np.diff(values) == 1)) or (named_so and len(np.unique(values)) == len(values))


def _years(name: str, low: float, high: float) -> bool:
    return low >= 1500 and high <= 2200 and ("year" in name.casefold() or name.casefold() in {"jahr", "année", "año"})


def _date_column(shared: tuple[str, int, int, int], present: Counter[str], decimal: Decimal) -> DateColumn | None:
    # 03/04/2024 is in March or in April: the order that fits more values is right, then the custom of the place.
    dotted = any("." in value for value in list(present)[:TRIAL])
    usual = dotted or decimal == ","
    best: list[tuple[date, int]] = []
    best_count = 0
    for day_first in (usual, not usual):
        trial = list(present)[:TRIAL]
        if sum(day(value, day_first) is not None for value in trial) < len(trial) * 0.5:
            continue
        found = [(when, times) for value, times in present.items() if (when := day(value, day_first))]
        if (count := sum(times for _, times in found)) > best_count:
            best, best_count = found, count
    if best_count < shared[1] * MOSTLY:
        return None
    dates = [when for when, _ in best]
    return DateColumn(*shared, odd=shared[1] - best_count, earliest=min(dates), latest=max(dates))
