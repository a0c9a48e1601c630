"""Reads CSV files and the values of their cells."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property

from examples.report.numbers import NAMES, Decimal, Reading, readings_of
from examples.texts import cut

DELIMITERS = ",;\t|"
MOST_MISFITS = 0.02  # the share of rows that may have too many or too few values
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "–", "?"})
POINT = re.compile(r"\d\.\d")


class NotATable(Exception):
    """The file is not a usable table. The text says why."""


@dataclass(frozen=True)
class Table:
    """The content of a CSV file.

    Attributes:
        left_out: the number of rows with more or fewer values than the others.
        chosen: the decimal sign of the columns of numbers that can be read either way.
    """

    names: list[str]
    columns: list[list[str]]
    left_out: int = 0
    delimiter: str = ","
    chosen: Decimal | None = None

    @property
    def row_count(self) -> int:
        return len(self.columns[0])

    @cached_property
    def readings(self) -> list[Reading]:
        """How the numbers of each column are read."""
        given = [[cell for cell in cells if not is_missing(cell)] for cells in self.columns]
        return readings_of(given, self.delimiter, self.chosen)

    @property
    def open_numbers(self) -> dict[str, str]:
        """An example for each column that can be read either way, by the column's name."""
        by_name = zip(self.names, self.readings, strict=True)
        return {name: one.example for name, one in by_name if one.decimal is None}

    @property
    def assumptions(self) -> list[str]:
        """What numbers mean, as sentences, where it was found out or said."""
        sentences = []
        for decimal, sign in NAMES.items():
            named = [
                f"“{cut(name, 40)}”"
                for name, one in zip(self.names, self.readings, strict=True)
                if one.decimal == decimal and one.example and (decimal == "," or one.is_assumed or "," in one.example)
            ]
            if named:
                sentences.append(f"Numbers are read with a {sign} as decimal sign in {', '.join(named)}.")
        return sentences


def is_missing(cell: str) -> bool:
    return cell.strip().casefold() in MISSING


def day_in(cell: str) -> date | None:
    """The date of a cell such as 2024-01-31, 2024-01-31T10:00 or 31.01.2024."""
    for read in (datetime.fromisoformat, lambda text: datetime.strptime(text, "%d.%m.%Y")):
        try:
            return None if cell.isdigit() else read(cell).date()
        except ValueError:
            continue
    return None


def read_table(content: bytes) -> Table:
    """Reads a CSV file with a header, of any common delimiter.

    Raises:
        NotATable: the text says why.
    """
    text = _text(content)
    try:
        delimiter = csv.Sniffer().sniff(text[:50_000], DELIMITERS).delimiter
    except csv.Error:
        delimiter = ","
    try:
        rows = [
            row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(map(str.strip, row))
        ]
    except csv.Error as error:
        raise NotATable(f"Its rows cannot be told apart ({error}); is a quotation mark left open?") from None
    header, *body = rows or [[]]
    if not body:
        raise NotATable("It has no rows below its header.")
    fitting = [row for row in body if len(row) == len(header)]
    left_out = len(body) - len(fitting)
    if left_out > len(body) * MOST_MISFITS:
        raise NotATable(f"Its rows are uneven: {left_out} have more or fewer values than the first row.")
    columns = [list(column) for column in zip(*fitting, strict=True)]
    if all(is_missing(cell) for column in columns for cell in column):
        raise NotATable("It has no values, only empty cells.")
    if not any(POINT.search(text) or cell.strip().isdigit() for column in columns for cell in column) and _is_prose(
        text
    ):
        raise NotATable("It looks like running text, not like a table.")
    return Table(list(_names(header)), columns, left_out, delimiter)


def _text(content: bytes) -> str:
    encodings = ("utf-16",) if content.startswith((b"\xff\xfe", b"\xfe\xff")) else ("utf-8-sig", "cp1252")
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\x00" in text or text.startswith(("%PDF", "PK\x03\x04")):
            raise NotATable("It holds binary data, not text.")
        if not text.strip():
            raise NotATable("It is empty.")
        return text
    raise NotATable("It is no text in UTF-8, UTF-16 or Windows' encoding.")


def _is_prose(text: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return 2 * sum(line.endswith((".", "!", "?")) for line in lines) > len(lines)


def _names(header: Iterable[str]) -> Iterable[str]:
    taken: set[str] = set()
    for at, cell in enumerate(header, 1):
        name = cell.strip() or f"Column {at}"
        while name in taken:
            name = f"{name} ({at})"
        taken.add(name)
        yield name
