"""CSV as a table that can be sorted: its first rows, and how many there are."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

ROWS, COLUMNS, CELLS = 200, 40, 4000  # that are shown at most
LONGEST_CELL = 300  # characters of a cell
DELIMITERS = ",;\t|"
SAMPLED_RECORDS = 30  # to find the delimiter
NUMBER = re.compile(r"[-+−]?\d*[.,]?\d+(e[-+]?\d{1,3})?\s?%?", re.IGNORECASE)
GROUPED = re.compile(r"[-+−]?\d{1,3}([,  ]\d{3})+(\.\d+)?")
LONGEST_NUMBER = 40  # characters

type Row = list[str]


class NotATable(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class Order:
    """The column that rows are sorted by, from 0, and the direction."""

    column: int
    is_down: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    number: int
    name: str
    is_numeric: bool
    order: Order | None = None

    @property
    def sorted(self) -> str:
        return "none" if self.order is None else "descending" if self.order.is_down else "ascending"

    @property
    def query(self) -> str:
        """The query for the next order: ascending, descending, then the file's own."""
        if self.order is None:
            return f"&sort={self.number}"
        return "" if self.order.is_down else f"&sort={self.number}&down"


@dataclass(frozen=True, slots=True)
class Table:
    columns: list[Column]
    rows: list[Row]
    total: int  # rows that were read
    unshown_columns: int

    @property
    def lines(self) -> list[list[tuple[str, bool]]]:
        return [
            [(cell, column.is_numeric) for cell, column in zip(row, self.columns, strict=True)] for row in self.rows
        ]


def table_of(text: str, order: Order | None = None, *, is_cut: bool = False) -> Table:
    """The text as a table. `is_cut`: the last row may be incomplete. Raises NotATable."""
    delimiter = _delimiter(text)
    try:
        read = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except csv.Error as error:
        raise NotATable from error
    if is_cut and len(read) > 1:
        read.pop()
    if not read:
        raise NotATable
    has_head = not all(_number(cell) is not None for cell in read[0])
    names = read.pop(0) if has_head else []
    return _laid_out(names, read, order)


def _laid_out(names: Row, rows: list[Row], order: Order | None) -> Table:
    width = max(len(names), max(map(len, rows), default=0))
    shown = min(width, COLUMNS)
    if order and order.column < shown:
        rows = _sorted(rows, order)
    columns = [
        Column(
            number,
            _cut(names[number] if number < len(names) else "") or f"Column {number + 1}",
            _is_numeric(rows, number),
            order if order and order.column == number else None,
        )
        for number in range(shown)
    ]
    most = max(20, min(ROWS, CELLS // shown))
    cut = [[_cut(cell) for cell in (row + [""] * (shown - len(row)))[:shown]] for row in rows[:most]]
    return Table(columns, cut, len(rows), width - shown)


def _sorted(rows: list[Row], order: Order) -> list[Row]:
    """Sort numbers by value and words without case. Empty cells come last."""
    is_numeric = _is_numeric(rows, order.column)
    key: Callable[[str], float | str] = (lambda cell: _number(cell) or 0.0) if is_numeric else str.casefold
    filled = [row for row in rows if _cell(row, order.column)]
    empty = [row for row in rows if not _cell(row, order.column)]
    return sorted(filled, key=lambda row: key(_cell(row, order.column)), reverse=order.is_down) + empty


def _is_numeric(rows: list[Row], column: int) -> bool:
    filled = [cell for row in rows if (cell := _cell(row, column))]
    return bool(filled) and all(_number(cell) is not None for cell in filled)


def _cell(row: Row, column: int) -> str:
    return row[column].strip() if column < len(row) else ""


def _number(cell: str) -> float | None:
    """The value of a cell, if it is a number. A comma is a decimal comma, unless it separates groups of three."""
    plain = cell.strip()
    if len(plain) > LONGEST_NUMBER:
        return None
    if GROUPED.fullmatch(plain):
        plain = re.sub("[,  ]", "", plain)
    elif not NUMBER.fullmatch(plain):
        return None
    return float(plain.rstrip("% ").replace("−", "-").replace(",", "."))


def _delimiter(text: str) -> str:
    """The delimiter that splits the first records most evenly, and into the most columns."""
    lines = list(islice((line for line in text[:20_000].splitlines(keepends=True) if line.strip()), SAMPLED_RECORDS))

    def fitness(delimiter: str) -> tuple[float, int]:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            return 0.0, 0
        usual = max(set(widths), key=widths.count, default=0)
        return (widths.count(usual) / len(widths), usual) if usual > 1 else (0.0, 0)

    return max(DELIMITERS, key=fitness)


def _cut(cell: str) -> str:
    return cell if len(cell) <= LONGEST_CELL else cell[:LONGEST_CELL] + "…"
