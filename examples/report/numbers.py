"""Finds out how the numbers of a table are written: `1,250` is 1.25 in one file and 1250 in another."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Decimal = Literal[".", ","]
NAMES: dict[Decimal, str] = {",": "comma", ".": "point"}
LONGEST = 40  # characters of a number
MOSTLY = 0.95
"""The share of a column's values that make it a column of numbers or dates; the rest are counted as odd."""

_UNIT = (
    r"[%‰$¢-¥₠-₿฿]|R\$|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|RUB|TRY|BRL|CAD|AUD|NZD|MXN|ZAR"
    r"|Fr\.|kr\.?|zł|Kč|Ft"
)
_WRITTEN = re.compile(
    rf"(?P<sign>[-+]?)\s*(?P<before>{_UNIT})?\s*(?P<sign2>[-+]?)(?P<digits>(?=.?\d)[\d.,'’\s]*\d[.,]?)"
    rf"(?P<exponent>[eE][-+]?\d+)?(?P<sign3>-?)\s*(?P<after>{_UNIT})?"
)
_SPACES = re.compile(r"\s")
_DIGITS = {
    decimal: re.compile(
        rf"(?:(?P<whole>0|[1-9]\d*|[1-9]\d{{0,2}}(?P<by>[ ’{other}])\d{{3}}(?:(?P=by)\d{{3}})*"
        rf"|[1-9]\d?(?:{other}\d\d)+{other}\d{{3}})(?:{re.escape(decimal)}(?P<part>\d*))?"
        rf"|{re.escape(decimal)}(?P<only>\d+))"
    )
    for decimal, other in ((".", ","), (",", r"\."))
}
_GERMAN_DAY = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}")


@dataclass(frozen=True)
class Written:
    """A number as it stands in a cell: `digits` has only digits and separators."""

    digits: str
    exponent: str = ""
    is_negative: bool = False
    unit: str = ""

    def value(self, decimal: Decimal) -> float | None:
        """None if it is not written so. Digits with a leading zero are names, not numbers."""
        found = _DIGITS[decimal].fullmatch(self.digits)
        if not found:
            return None
        whole = re.sub(r"\D", "", found["whole"] or "0")
        value = float(f"{whole}.{found['part'] or found['only'] or 0}{self.exponent}")
        if not math.isfinite(value):
            return None
        return -value if self.is_negative else value


def written_in(cell: str) -> Written | None:
    """The number in a cell: with a sign, in parentheses if it is negative, with a currency or a percent sign."""
    cell = cell.strip().replace("−", "-")
    if not cell or len(cell) > LONGEST:
        return None
    in_parentheses = cell.startswith("(") and cell.endswith(")")
    found = _WRITTEN.fullmatch(cell[1:-1].strip() if in_parentheses else cell)
    if not found:
        return None
    signs = [one for one in (found["sign"], found["sign2"], found["sign3"], "-" * in_parentheses) if one]
    if len(signs) > 1 or (found["before"] and found["after"]):
        return None
    digits = _SPACES.sub(" ", found["digits"]).replace("'", "’")
    return Written(digits, found["exponent"] or "", "-" in signs, found["before"] or found["after"] or "")


@dataclass(frozen=True)
class Reading:
    """How a column's numbers are read.

    Attributes:
        decimal: the decimal sign; None if the column can be read either way.
        unit: the currency or percent sign of its numbers; others do not fit.
        example: a number that has another value with the other decimal sign.
        is_assumed: the column alone does not tell.
    """

    decimal: Decimal | None = "."
    unit: str = ""
    example: str = ""
    is_assumed: bool = False

    def number(self, cell: str) -> float | None:
        """The number in a cell, or None."""
        written = written_in(cell)
        if written is None or not self._fits(written.unit):
            return None
        return written.value(self.decimal or ".")

    def _fits(self, unit: str) -> bool:
        return unit == self.unit or (not unit and self.unit not in ("%", "‰"))


def readings_of(columns: Sequence[Sequence[str]], delimiter: str, chosen: Decimal | None = None) -> list[Reading]:
    """How each column is read: by its own numbers, else by the other columns, else by delimiter and dates.

    `columns` are without empty cells. `chosen`: the decimal sign where it is open.
    """
    found = [_reading(cells) for cells in columns]
    known = {one.decimal for one in found if one.example and one.decimal}
    has_german_days = any(_GERMAN_DAY.fullmatch(cell.strip()) for cells in columns for cell in cells)
    return [
        one if one.decimal else _settled(one, cells, known, _hints(delimiter, has_german_days), chosen)
        for one, cells in zip(found, columns, strict=True)
    ]


def _reading(cells: Sequence[str]) -> Reading:
    """By the numbers of the column alone; its decimal sign is None if they do not tell."""
    numbers = [one for one in map(written_in, cells) if one]
    if len(numbers) < MOSTLY * len(cells):
        return Reading()
    examples: dict[Decimal | None, list[str]] = {",": [], ".": [], None: []}
    for one in numbers:
        with_point, with_comma = one.value("."), one.value(",")
        if with_point != with_comma:
            tells: Decimal | None = "," if with_point is None else "." if with_comma is None else None
            examples[tells].append(one.digits)
    decimal: Decimal = "," if len(examples[","]) > len(examples["."]) else "."
    unit = _unit_of(numbers)
    if found := examples[decimal]:
        return Reading(decimal, unit, found[0])
    return Reading(None, unit, examples[None][0]) if examples[None] else Reading(unit=unit)


def _unit_of(numbers: Iterable[Written]) -> str:
    units = Counter(one.unit for one in numbers)
    currencies = [one for one in units if one not in ("", "%", "‰")]
    most = units.most_common(1)[0][0] if units else ""
    return currencies[0] if not most and len(currencies) == 1 else most


def _hints(delimiter: str, has_german_days: bool) -> set[Decimal]:
    hints: set[Decimal] = {",": {"."}, ";": {","}}.get(delimiter, set())  # type: ignore[assignment]
    return hints | {","} if has_german_days else hints


def _settled(
    reading: Reading, cells: Sequence[str], known: set[Decimal], hints: set[Decimal], chosen: Decimal | None
) -> Reading:
    """An open column, read by what else is known; still open if that does not agree."""
    if "," in reading.example and any(cell.strip().isdigit() and len(cell.strip()) < 4 for cell in cells):
        hints = hints | {"."}  # 980 beside 1,250: decimals would be written for both
    if "." in reading.example:
        hints = hints | {"."}  # most programs write decimals with a point
    decided = chosen or next(iter(known if known else hints)) if chosen or len(known or hints) == 1 else None
    return replace(reading, decimal=decided, is_assumed=bool(decided and not chosen))
