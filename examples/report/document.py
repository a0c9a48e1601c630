"""The report before it is written: the same content for every format."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from examples.report.columns import Column, DateColumn, NumberColumn, TextColumn
from examples.report.figures import clipped, figure_in, in_brief, quantity, share, when
from examples.report.findings import Analysis

ROWS_AT_A_GLANCE = 25


class Length(StrEnum):
    FULL = "full"
    SHORT = "short"


CHART_NAME = "chart.png"


@dataclass(frozen=True)
class Chart:
    """The same picture twice; `size` is its width and height, in inches, `name` that of its file."""

    png: bytes
    svg: str
    caption: str
    size: tuple[float, float]
    name: str = CHART_NAME


@dataclass(frozen=True)
class Grid:
    """A table of the report; `numeric` tells which of its columns are figures."""

    heading: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]


@dataclass(frozen=True)
class Section:
    """A part of a longer document, with a heading of its own."""

    heading: str
    sentences: Sequence[str] = ()
    chart: Chart | None = None
    grids: Sequence[Grid] = ()


@dataclass(frozen=True)
class Document:
    """What is written, in this order, the notes last.

    All text from the file is on one line and short; none of it is escaped.
    """

    title: str
    summary: str
    findings: Sequence[str]
    chart: Chart | None
    grids: Sequence[Grid]
    notes: Sequence[str]
    sections: Sequence[Section] = ()


def composed(analysis: Analysis, length: Length, chart: Chart | None = None) -> Document:
    if length is Length.SHORT:
        grid = _at_a_glance(analysis)
        return Document(analysis.title, " ".join(analysis.findings), (), None, (grid,), ())
    grids = (_overview(analysis), _numbers(analysis), _texts(analysis), _dates(analysis))
    first, *others = analysis.findings
    return Document(analysis.title, first, others, chart, [grid for grid in grids if grid.rows], analysis.notes)


def _at_a_glance(analysis: Analysis) -> Grid:
    shown = analysis.columns[:ROWS_AT_A_GLANCE]
    rows = [[_name(column), column.kind, _missing(column), in_brief(column)] for column in shown]
    grid = Grid("At a glance", ("Column", "Type", "Missing", "In brief"), rows, (False, False, True, False))
    more = len(analysis.columns) - len(shown)
    return replace(grid, rows=[*rows, [f"and {quantity(more, 'more column')}", "", "", ""]]) if more else grid


def _overview(analysis: Analysis) -> Grid:
    rows = [
        [_name(column), column.kind, f"{column.count:,}", _missing(column), f"{column.distinct:,}"]
        for column in analysis.columns
    ]
    return Grid("Columns", ("Column", "Type", "Values", "Missing", "Distinct"), rows, (False, False, True, True, True))


def _numbers(analysis: Analysis) -> Grid:
    headers = ("Column", "Minimum", "25 %", "Median", "Mean", "75 %", "Maximum", "Std. dev.")
    rows = [
        [_name(column), *(figure_in(column, value) for value in _five_and_two(column))]
        for column in analysis.columns
        if isinstance(column, NumberColumn)
    ]
    return Grid("Numbers", headers, rows, (False, *[True] * 7))


def _five_and_two(column: NumberColumn) -> tuple[float, ...]:
    quartiles = (column.lower_quartile, column.median, column.mean, column.upper_quartile)
    return (column.minimum, *quartiles, column.maximum, column.deviation)


def _texts(analysis: Analysis) -> Grid:
    rows = [[_name(column), _common(column)] for column in analysis.columns if isinstance(column, TextColumn)]
    return Grid("Text", ("Column", "Most common values"), rows, (False, False))


def _dates(analysis: Analysis) -> Grid:
    rows = [
        [_name(column), when(column.earliest), when(column.latest), f"{column.days:,}"]
        for column in analysis.columns
        if isinstance(column, DateColumn)
    ]
    return Grid("Dates", ("Column", "Earliest", "Latest", "Days between"), rows, (False, False, False, True))


def _common(column: TextColumn) -> str:
    if column.common[0][1] == 1 < column.count:
        return "all different"
    return ", ".join(f"{clipped(value, 30)} ({times:,})" for value, times in column.common)


def _name(column: Column) -> str:
    return clipped(column.name, 40)


def _missing(column: Column) -> str:
    rows = column.count + column.missing
    return f"{column.missing:,} ({share(column.missing, rows)})" if column.missing else "0"
