"""What is worth saying about a table, in sentences, the most telling first."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from examples.report.columns import Column, DateColumn, NumberColumn, TextColumn, described
from examples.report.figures import clipped, figure, quantity, share, when
from examples.report.table import Table

STRONG = 0.5
"""The correlation, up or down, from which two columns are said to move together."""

COMPARED_COLUMNS = 30


@dataclass(frozen=True)
class Analysis:
    """Everything that a report says, before it is a document."""

    source: str
    rows: int
    columns: Sequence[Column]
    findings: Sequence[str]
    notes: Sequence[str]
    """What a reader must know about how the file was read."""

    @property
    def title(self) -> str:
        return f"Report on {self.source}"

    @property
    def missing(self) -> int:
        return sum(column.missing for column in self.columns)


def analysed(table: Table, source: str) -> Analysis:
    """Computes the whole analysis; takes seconds for large tables."""
    columns = described(table)
    source = clipped(source, 80) or "your file"
    return Analysis(source, table.row_count, columns, _findings(table, columns), _notes(table, columns))


def _findings(table: Table, columns: list[Column]) -> list[str]:
    measures = [column for column in columns if isinstance(column, NumberColumn) and not column.label]
    found = [_size(table, columns), _together(measures), _widest(measures), _commonest(columns), _period(columns)]
    return [sentence for sentence in found if sentence]


def _size(table: Table, columns: list[Column]) -> str:
    rows, missing = table.row_count, sum(column.missing for column in columns)
    size = f"The file has {quantity(rows, 'row')} and {quantity(len(columns), 'column')}"
    if not missing:
        return f"{size}, and no value is missing."
    worst = max(columns, key=lambda column: column.missing)
    lacking = f"{quantity(missing, 'value')} ({share(missing, rows * len(columns))}) {_is(missing)} missing"
    if worst.missing == missing:
        return (
            f"{size}; {lacking}, all in {_named(worst)}." if missing > 1 else f"{size}; {lacking}, in {_named(worst)}."
        )
    return f"{size}; {lacking}, most of them in {_named(worst)} ({worst.missing:,})."


def _together(measures: list[NumberColumn]) -> str:
    pairs = [
        (correlation, one, other)
        for one, other in combinations(measures[:COMPARED_COLUMNS], 2)
        if abs(correlation := _correlation(one, other)) >= STRONG
    ]
    if not pairs:
        return ""
    correlation, one, other = max(pairs, key=lambda pair: abs(pair[0]))
    how = "rise together" if correlation > 0 else "move against each other"
    return f"{_named(one)} and {_named(other)} {how} (correlation {correlation:.2f})."


def _correlation(one: NumberColumn, other: NumberColumn) -> float:
    both = ~(np.isnan(one.values) | np.isnan(other.values))
    if both.sum() < 5:
        return 0.0
    first, second = one.values[both], other.values[both]
    with np.errstate(all="ignore"):
        first, second = first - first.mean(), second - second.mean()
        size = float(np.sqrt((first**2).sum() * (second**2).sum()))
        correlation = float((first * second).sum()) / size if size else 0.0
    return correlation if np.isfinite(correlation) else 0.0


def _widest(measures: list[NumberColumn]) -> str:
    """The column whose values differ most from each other, for its size."""
    varied = [column for column in measures if column.maximum > column.minimum]
    if not varied:
        return ""
    column = max(varied, key=lambda each: min(each.deviation / (abs(each.mean) or each.deviation), 10))
    reach = f"{_named(column)} goes from {figure(column.minimum)} to {figure(column.maximum)}"
    return (
        f"{reach}; half of its values lie between {figure(column.lower_quartile)} and {figure(column.upper_quartile)}."
    )


def _commonest(columns: list[Column]) -> str:
    texts = [column for column in columns if isinstance(column, TextColumn) and 1 < column.distinct < column.count]
    if not texts:
        return ""
    # The value that stands out most from an even spread over all values.
    column = max(texts, key=lambda each: each.common[0][1] / each.count - 1 / each.distinct)
    value, times = column.common[0]
    if times / column.count - 1 / column.distinct < 0.05:
        return ""
    return f"{_quoted(value)} is the most common value of {_named(column)} ({share(times, column.count)})."


def _period(columns: list[Column]) -> str:
    dates = [column for column in columns if isinstance(column, DateColumn)]
    if not dates:
        return ""
    column = max(dates, key=lambda each: each.days)
    return (
        f"{_named(column)} runs from {when(column.earliest)} to {when(column.latest)} ({quantity(column.days, 'day')})."
    )


def _notes(table: Table, columns: list[Column]) -> list[str]:
    notes = ["Empty cells and cells such as NA, N/A, null or – count as missing."]
    if table.left_out:
        notes.append(
            f"{quantity(table.left_out, 'row')} had too many or too few values and {_was(table.left_out)} left out."
        )
    for column in columns:
        odd = getattr(column, "odd", 0)
        if odd:
            left_out = f"{quantity(odd, 'value')} {_is(odd)} not a {column.kind} and left out of its figures"
            notes.append(f"{_named(column)}: {left_out}.")
    return notes


def _named(column: Column) -> str:
    return _quoted(column.name)


def _quoted(text: str) -> str:
    return f"“{clipped(text, 40)}”"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
