"""Uploaded tables: which of the files is meant, and whether its columns and cells are what an analysis needs."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentkit import File, TaskContext, UnreadableContent
from examples import handover
from examples.report.decoding import NotATable
from examples.report.figures import clipped
from examples.report.table import Table, read_table
from examples.report.values import Decimal, number
from examples.research.results import Source

MOST_ROWS = 20_000
LARGEST = 1e12
ENDINGS = (".csv", ".tsv", ".tab", ".txt")
MEDIA_TYPES = ("text/csv", "text/plain", "text/tab-separated-values")
NAME = re.compile(r"\w[\w .+/()-]{0,39}")


class Unusable(Exception):
    """There is no table that an analysis could use; the text says why, and what to do."""


@dataclass(frozen=True)
class Upload:
    """A table that has the columns. Those that were required are named as required, the others as in the file."""

    source: Source
    columns: dict[str, list[str]]
    decimal: Decimal
    left_out: int

    def texts(self, column: str) -> list[str]:
        """Names. Raises Unusable where one is empty, too long or has signs that names do not have."""
        for at, cell in enumerate(self.columns[column], 2):
            if not NAME.fullmatch(cell.strip()):
                raise Unusable(
                    f"Row {at} has “{clipped(cell, 30)}” as its {column}: write a name there, of at most 40 letters, "
                    "digits, spaces and signs such as - or +."
                )
        return [cell.strip() for cell in self.columns[column]]

    def numbers(self, column: str) -> list[float]:
        """Numbers. Raises Unusable where something else stands there, or one that is too large to reckon with."""
        found = []
        for at, cell in enumerate(self.columns[column], 2):
            value = number(cell, self.decimal)
            if value is None:
                shown = f"has “{clipped(cell, 30)}”" if cell.strip() else "has nothing"
                raise Unusable(
                    f"Row {at} {shown} where the number of the column “{clipped(column, 40)}” belongs: correct it, or "
                    "take the row out."
                )
            if abs(value) > LARGEST:
                raise Unusable(
                    f"Row {at} has {clipped(cell, 30)} as its {clipped(column, 40)}, beyond any measurement."
                )
            found.append(value)
        return found


def uploaded(task: TaskContext, required: Sequence[str]) -> Upload:
    """The first table within reach that has the columns.

    Raises:
        Unusable: there is none; of several files, what is wrong with the nearest.
    """
    candidates = [file for file in handover.files(task) if _may_be_a_table(file)]
    problem = Unusable(f"I need a CSV file with the columns {_listed(required)}.")
    for at, file in enumerate(candidates):
        try:
            return _read(file, required)
        except Unusable as found:
            problem = problem if at else found
    raise problem


def written(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV file; numbers with six significant digits."""
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(headers)
    lines.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    return file.getvalue()


def _may_be_a_table(file: File) -> bool:
    return file.name.casefold().endswith(ENDINGS) or file.media_type in MEDIA_TYPES


def _read(file: File, required: Sequence[str]) -> Upload:
    name = clipped(file.name, 60) or "file"
    try:
        content = file.read()
        table = read_table(content)
    except (NotATable, UnreadableContent) as error:
        raise Unusable(
            f"I cannot use “{name}”. {error} Send a CSV file with the columns {_listed(required)}."
        ) from None
    columns = {_as_required(one, required): cells for one, cells in zip(table.names, table.columns, strict=True)}
    if missing := [one for one in required if one not in columns]:
        there = _listed([clipped(one, 30) for one in table.names[:12]])
        raise Unusable(
            f"“{name}” lacks {'the column' if len(missing) == 1 else 'the columns'} {_listed(missing)}; it has {there}."
            " Name the columns so in its first row, and send it again."
        )
    if table.row_count > MOST_ROWS:
        raise Unusable(f"“{name}” has {table.row_count:,} rows. Send at most {MOST_ROWS:,}.")
    source = Source(file=name, sha256=hashlib.sha256(content).hexdigest(), rows=table.row_count)
    return Upload(source, columns, _decimal(table), table.left_out)


def _as_required(name: str, required: Sequence[str]) -> str:
    """Capitals do not matter."""
    return name.casefold() if name.casefold() in required else name


def _decimal(table: Table) -> Decimal:
    """A comma, where commas do not part the columns and no point stands in any number."""
    cells = [cell for column in table.columns for cell in column[:200]]
    has_comma = any(re.fullmatch(r"\s*[-+−]?\d+,\d+\s*", cell) for cell in cells)
    has_point = any(re.fullmatch(r"\s*[-+−]?\d+\.\d+\s*", cell) for cell in cells)
    return "," if table.delimiter != "," and has_comma and not has_point else "."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"“{name}”" for name in names)
