"""The statistics of a table's columns, and the main findings as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import combinations
from statistics import StatisticsError, correlation, fmean, quantiles, stdev
from typing import Any, Literal

from examples.report.numbers import MOSTLY
from examples.report.tables import Table, day_in, is_missing
from examples.texts import counted, cut, figure, share

STRONG_CORRELATION = 0.5
COMPARED_COLUMNS = 30


@dataclass(frozen=True)
class Column:
    """`values` has None if a row's value is missing or `odd` (not of the column's kind)."""

    name: str
    kind: Literal["number", "date", "text", "empty"]
    values: Sequence[Any]
    odd: int = 0

    @cached_property
    def present(self) -> list[Any]:
        return [value for value in self.values if value is not None]

    @property
    def missing(self) -> int:
        return len(self.values) - len(self.present) - self.odd

    @cached_property
    def common(self) -> list[tuple[Any, int]]:
        return Counter(self.present).most_common()

    @cached_property
    def summary(self) -> tuple[float, ...]:
        """For a column of numbers: minimum, quartiles, median, mean, maximum, standard deviation."""
        several = len(self.present) > 1
        lower, median, upper = quantiles(self.present, method="inclusive") if several else self.present * 3
        deviation = stdev(self.present) if several else 0.0
        return min(self.present), lower, median, fmean(self.present), upper, max(self.present), deviation

    @property
    def is_label(self) -> bool:
        """Do its numbers label rows or years, so that a mean is meaningless?"""
        counts_rows = len(self.values) > 1 and all(
            one is not None and other is not None and other - one == 1
            for one, other in zip(self.values, self.values[1:], strict=False)
        )
        return self.kind == "number" and (counts_rows or "year" in self.name.casefold())


@dataclass(frozen=True)
class Analysis:
    """The content of a report. `notes` say how the file was read, `assumptions` those of them about numbers."""

    source: str
    columns: Sequence[Column]
    findings: Sequence[str]
    notes: Sequence[str]
    assumptions: Sequence[str] = ()

    @property
    def title(self) -> str:
        return f"Report on {self.source}"


def analyse(table: Table, source: str) -> Analysis:
    columns = [
        describe_column(name, cells, reading.number)
        for name, cells, reading in zip(table.names, table.columns, table.readings, strict=True)
    ]
    found = [_size(table.row_count, columns), _correlated(columns), _commonest(columns), _period(columns)]
    findings = [one for one in found if one]
    return Analysis(cut(source, 80) or "your file", columns, findings, _notes(table, columns), table.assumptions)


def describe_column(name: str, cells: Sequence[str], number: Callable[[str], float | None]) -> Column:
    """The column, with the kind that most of its cells have."""
    given = [None if is_missing(cell) else cell.strip() for cell in cells]
    count = sum(cell is not None for cell in given)
    if not count:
        return Column(name, "empty", given)
    readers: tuple[tuple[Literal["number", "date"], Callable[[str], float | date | None]], ...] = (
        ("number", number),
        ("date", day_in),
    )
    for kind, read in readers:
        values = [None if cell is None else read(cell) for cell in given]
        found = sum(value is not None for value in values)
        if found >= MOSTLY * count:
            return Column(name, kind, values, count - found)
    return Column(name, "text", given)


def in_brief(column: Column) -> str:
    """The most important fact about the column."""
    if column.kind == "empty":
        return "no values"
    if column.kind == "text":
        value, times = column.common[0]
        return "all different" if times == 1 else f"most often {cut(value, 30)} ({share(times, len(column.present))})"
    low, high = min(column.present), max(column.present)
    if column.kind == "date":
        return f"{low} to {high}"
    if column.is_label:
        return f"{low:.0f} to {high:.0f}"
    return f"{figure(low)} to {figure(high)}, mean {figure(fmean(column.present))}"


def _size(rows: int, columns: Sequence[Column]) -> str:
    size = f"The file has {counted(rows, 'row')} and {counted(len(columns), 'column')}"
    missing = sum(column.missing for column in columns)
    if not missing:
        return f"{size}, and no value is missing."
    worst = max(columns, key=lambda column: column.missing)
    where = f"in {_named(worst)}" if worst.missing == missing else f"most of them in {_named(worst)}"
    is_missing = "is" if missing == 1 else "are"
    return f"{size}; {counted(missing, 'value')} ({share(missing, rows * len(columns))}) {is_missing} missing, {where}."


def _correlated(columns: Sequence[Column]) -> str:
    measures = [column for column in columns if column.kind == "number" and not column.is_label][:COMPARED_COLUMNS]
    pairs = [(_correlation(one, other), one, other) for one, other in combinations(measures, 2)]
    strongest = max(pairs, key=lambda pair: abs(pair[0]), default=None)
    if strongest is None or abs(strongest[0]) < STRONG_CORRELATION:
        return ""
    value, one, other = strongest
    how = "rise together" if value > 0 else "move against each other"
    return f"{_named(one)} and {_named(other)} {how} (correlation {value:.2f})."


def _correlation(one: Column, other: Column) -> float:
    both = [pair for pair in zip(one.values, other.values, strict=True) if None not in pair]
    if len(both) < 5:
        return 0.0
    try:
        return correlation(*zip(*both, strict=True))
    except (StatisticsError, OverflowError):
        return 0.0


def _commonest(columns: Sequence[Column]) -> str:
    """The value that stands out most from an even spread over all values."""
    texts = [column for column in columns if column.kind == "text" and 1 < len(column.common) < len(column.present)]
    if not texts:
        return ""
    column = max(texts, key=lambda one: one.common[0][1] / len(one.present) - 1 / len(one.common))
    value, times = column.common[0]
    return f"“{cut(value, 40)}” is the most common value of {_named(column)} ({share(times, len(column.present))})."


def _period(columns: Sequence[Column]) -> str:
    dates = [(min(column.present), max(column.present), column) for column in columns if column.kind == "date"]
    if not dates:
        return ""
    earliest, latest, column = max(dates, key=lambda one: one[1] - one[0])
    return f"{_named(column)} runs from {earliest} to {latest} ({counted((latest - earliest).days, 'day')})."


def _notes(table: Table, columns: Sequence[Column]) -> list[str]:
    notes = ["Empty cells and cells such as NA, N/A, null or – count as missing.", *table.assumptions]
    for column, reading in zip(columns, table.readings, strict=True):
        if column.kind == "number" and reading.unit:
            notes.append(f"{_named(column)} is in {reading.unit}.")
    if table.left_out:
        notes.append(f"{counted(table.left_out, 'row')} with too many or too few values left out.")
    odd = [column for column in columns if column.odd]
    notes += [f"{_named(one)}: {counted(one.odd, 'value')} left out that {one.kind}s do not fit." for one in odd]
    return notes


def _named(column: Column) -> str:
    return f"“{cut(column.name, 40)}”"
