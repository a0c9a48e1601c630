"""From the text of a CSV file to its table: the delimiter, the header and the rows."""

import csv
import io
import json
import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from examples.report.decoding import NotATable, decoded
from examples.report.values import is_date, is_missing, is_number

DELIMITERS = ("\t", ";", "|", ",")  # the comma last: it is also a decimal comma
SAMPLE_ROWS = 200
MISFITS_ALLOWED = 0.02

Row = list[str]


@dataclass(frozen=True)
class Table:
    """The content of a CSV file. Every column has as many values as the table has rows."""

    names: list[str]
    columns: list[list[str]]
    delimiter: str
    left_out: int = 0
    """Rows that had more or fewer values than the others."""

    @property
    def row_count(self) -> int:
        return len(self.columns[0])


def read_table(content: bytes) -> Table:
    """Reads a CSV file of any common dialect.

    Raises:
        NotATable: it is not one; the text says why.
    """
    text = decoded(content)
    _refuse_other_formats(text)
    text, delimiter = _declared_delimiter(text)
    delimiter = delimiter or _guessed_delimiter(text)
    rows = _rows(text, delimiter)
    width, rows, left_out = _even(rows)
    header, body = _split_header(rows)
    if not body:
        raise NotATable("It has a header but no rows below it.")
    columns = [list(column) for column in zip(*body, strict=True)]
    names = _names(header, width)
    # A delimiter at the end of every line makes a column that is not there.
    kept = [at for at in range(width) if (header and header[at].strip()) or any(columns[at])]
    table = Table([names[at] for at in kept], [columns[at] for at in kept], delimiter, left_out)
    _refuse_prose(table)
    return table


def _refuse_other_formats(text: str) -> None:
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if start == "<":
        raise NotATable("It looks like HTML or XML, not like a CSV file.")
    if start in ("{", "["):
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return
        raise NotATable("It is JSON, not a CSV file.")


def _declared_delimiter(text: str) -> tuple[str, str | None]:
    """Excel understands a first line like `sep=;`."""
    if declared := re.match(r'"?sep=(.)"?\r?\n', text, re.IGNORECASE):
        return text[declared.end() :], declared[1]
    return text, None


def _guessed_delimiter(text: str) -> str:
    """The delimiter that cuts the first rows into the most even pieces."""
    sample = text[:200_000]
    best, best_score = ",", 0.0
    for delimiter in DELIMITERS:
        try:
            reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
            widths = Counter(len(row) for row, _ in zip(reader, range(SAMPLE_ROWS), strict=False) if any(row))
        except csv.Error:
            continue
        width, rows = max(widths.items(), key=lambda item: item[1] * (item[0] > 1), default=(0, 0))
        score = rows / widths.total() if width > 1 else 0.0
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _rows(text: str, delimiter: str) -> list[Row]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except csv.Error as error:
        raise NotATable(f"Its rows cannot be told apart ({error}); is a quotation mark left open?") from error
    while rows and not any(cell.strip() for cell in rows[-1]):
        rows.pop()
    return rows


def _even(rows: list[Row]) -> tuple[int, list[Row], int]:
    """The table's width, the rows that fit it, and how many do not."""
    if not rows:
        raise NotATable("It has no values, only empty cells.")
    width = len(rows[0])
    # Spreadsheets end some rows early and others with delimiters that separate nothing.
    trimmed = [row[:width] if len(row) > width and not any(row[width:]) else row for row in rows]
    misfits = [(number, row) for number, row in enumerate(trimmed, 1) if len(row) != width]
    if len(misfits) > (len(rows) - 1) * MISFITS_ALLOWED:
        if width == 1:
            raise NotATable("There are no columns in it: its first row is not divided by commas, semicolons or tabs.")
        number, row = misfits[0]
        values = "1 value" if len(row) == 1 else f"{len(row)} values"
        raise NotATable(f"Its rows are uneven: row {number} has {values} and the first row has {width}.")
    return width, [row for row in trimmed if len(row) == width], len(misfits)


def _split_header(rows: list[Row]) -> tuple[Row | None, list[Row]]:
    first = [cell.strip() for cell in rows[0]]
    valued = [cell for cell in first if is_number(cell) or is_date(cell)]
    if not valued or _years_in_a_row(first, valued):
        return first, rows[1:]
    return None, rows


def _years_in_a_row(first: Row, valued: Row) -> bool:
    """A header may name years, as in `country,2019,2020,2021`."""
    if len(valued) < 2 or len(valued) == len(first) or not all(re.fullmatch(r"(19|20)\d\d", cell) for cell in valued):
        return False
    years = [int(cell) for cell in valued]
    steps = {later - earlier for earlier, later in pairwise(years)}
    return len(steps) == 1 and 0 not in steps


def _names(header: Row | None, width: int) -> list[str]:
    """Every column gets a name of its own."""
    names: list[str] = []
    taken: set[str] = set()
    for number in range(1, width + 1):
        base = " ".join(header[number - 1].split()) if header else ""
        name = base = base or f"Column {number}"
        again = 2
        while name in taken:
            name, again = f"{base} ({again})", again + 1
        taken.add(name)
        names.append(name)
    return names


def _refuse_prose(table: Table) -> None:
    cells = [cell for column in table.columns for cell in column[:SAMPLE_ROWS] if not is_missing(cell)]
    if not cells:
        raise NotATable("It has no values, only empty cells.")
    if any(is_number(cell) or is_date(cell) for cell in cells):
        return
    words = sum(len(cell.split()) for cell in cells) / len(cells)
    if len(table.columns) == 1 and (words > 2 or table.row_count < 2):
        raise NotATable("It reads like running text: there are no columns in it.")
    later = [cell for column in table.columns[1:] for cell in column[:SAMPLE_ROWS] if not is_missing(cell)]
    spaced = sum(cell.startswith(" ") for cell in later)
    if table.delimiter == "," and words >= 2 and spaced > 0.8 * len(later) > 0:
        raise NotATable("It reads like running text: its commas are punctuation.")
