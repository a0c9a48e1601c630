"""Finds and validates uploaded tables."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentkit import File, TaskContext, UnreadableContent
from examples import handover
from examples.report.numbers import Reading
from examples.report.tables import NotATable, Table, read_table
from examples.research.results import Source
from examples.texts import cut

MOST_ROWS = 20_000
LARGEST = 1e12
ENDINGS = (".csv", ".tsv", ".tab", ".txt")
MEDIA_TYPES = ("text/csv", "text/plain", "text/tab-separated-values")
NAME = re.compile(r"\w[\w .+/()-]{0,39}")


class Unusable(Exception):
    """No usable table. The text says why, and what to do."""


@dataclass(frozen=True)
class Upload:
    """A table that has the required columns."""

    source: Source
    table: Table
    columns: dict[str, list[str]]
    readings: dict[str, Reading]

    @property
    def notes(self) -> list[str]:
        """How the file was read, as sentences."""
        left_out = self.table.left_out
        rows = [f"{left_out} rows had too many or too few values and were left out."] if left_out else []
        return rows + self.table.assumptions

    def texts(self, column: str) -> list[str]:
        """Names. Raises Unusable if one is empty, too long or has characters that names do not have."""
        for at, cell in enumerate(self.columns[column], 2):
            if not NAME.fullmatch(cell.strip()):
                raise Unusable(
                    f"Row {at} has “{cut(cell, 30)}” as its {column}: write a name there, of at most 40 letters, "
                    "digits, spaces and signs such as - or +."
                )
        return [cell.strip() for cell in self.columns[column]]

    def numbers(self, column: str) -> list[float]:
        """Numbers. Raises Unusable for anything else, and for a number that is too large."""
        if self.readings[column].decimal is None:
            example = self.readings[column].example
            raise Unusable(
                f"The column “{cut(column, 40)}” has numbers such as {example}, in which “,” or “.” may be the decimal "
                "sign or separate thousands: write them without separators of thousands and with a point."
            )
        return [self._number(column, at, cell) for at, cell in enumerate(self.columns[column], 2)]

    def _number(self, column: str, at: int, cell: str) -> float:
        value = self.readings[column].number(cell)
        if value is None:
            shown = f"has “{cut(cell, 30)}”" if cell.strip() else "has nothing"
            raise Unusable(
                f"Row {at} {shown} where the number of the column “{cut(column, 40)}” belongs: correct it, or take the "
                "row out."
            )
        if abs(value) > LARGEST:
            raise Unusable(f"Row {at} has {cut(cell, 30)} as its {cut(column, 40)}, beyond any measurement.")
        return value


def find_upload(task: TaskContext, required: Sequence[str]) -> Upload:
    """The first reachable table that has the columns.

    Raises:
        Unusable: there is no file, or what is wrong with the nearest one.
    """
    files = [
        one for one in handover.files(task) if one.name.casefold().endswith(ENDINGS) or one.media_type in MEDIA_TYPES
    ]
    problems = [Unusable(f"I need a CSV file with the columns {_listed(required)}.")] if not files else []
    for file in files:
        try:
            return _read(file, required)
        except Unusable as problem:
            problems.append(problem)
    raise problems[0]


def _read(file: File, required: Sequence[str]) -> Upload:
    name = cut(file.name, 60) or "file"
    try:
        content = file.read()
        table = read_table(content)
    except (NotATable, UnreadableContent) as error:
        raise Unusable(
            f"I cannot use “{name}”. {error} Send a CSV file with the columns {_listed(required)}."
        ) from None
    # Ignore case.
    names = [one.casefold() if one.casefold() in required else one for one in table.names]
    if missing := [one for one in required if one not in names]:
        there = _listed(cut(one, 30) for one in names[:12])
        raise Unusable(
            f"“{name}” lacks {'the column' if len(missing) == 1 else 'the columns'} {_listed(missing)}; it has {there}."
            " Name the columns so in its first row, and send it again."
        )
    if table.row_count > MOST_ROWS:
        raise Unusable(f"“{name}” has {table.row_count:,} rows. Send at most {MOST_ROWS:,}.")
    source = Source(file=name, sha256=hashlib.sha256(content).hexdigest(), rows=table.row_count)
    columns = dict(zip(names, table.columns, strict=True))
    return Upload(source, table, columns, dict(zip(names, table.readings, strict=True)))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"“{name}”" for name in names)
