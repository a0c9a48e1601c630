"""What a cell says: nothing, a number, a date, yes or no, or text."""

import math
import re
from datetime import date, datetime
from typing import Literal

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "-", "–", "—", "?"})
YES = frozenset({"yes", "true", "y", "t"})
NO = frozenset({"no", "false", "n", "f"})

LONGEST = 40
"""Characters; what is longer is text. It also keeps the patterns below from long searches."""

type Decimal = Literal[".", ","]

_SPACES = "[\u00a0\u202f\u2009 '’]"
_CURRENCY = r"[$€£¥₹]?\s*"


def _number_pattern(point: str, comma: str) -> re.Pattern[str]:
    grouped = rf"\d{{1,3}}(?:{comma}\d{{3}})+|\d{{1,3}}(?:{_SPACES}\d{{3}})+|\d+"
    digits = rf"(?:(?:{grouped})(?:{point}\d*)?|{point}\d+)"
    return re.compile(rf"{_CURRENCY}([-+−]?)\s*{_CURRENCY}({digits}(?:[eE][-+]?\d+)?)\s*(?:%|[$€£¥₹])?")


_NUMBERS: dict[Decimal, re.Pattern[str]] = {".": _number_pattern(r"\.", ","), ",": _number_pattern(",", r"\.")}
_UNWANTED = {
    ".": str.maketrans("", "", ",\u00a0\u202f\u2009 '’"),
    ",": str.maketrans(",", ".", ".\u00a0\u202f\u2009 '’"),
}

_DAY = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})(?:[ T,]+\d{1,2}:\d{2}(?::\d{2})?)?")
_MONTH = re.compile(r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE)
_NAMED_MONTHS = ("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%b %Y", "%B %Y")


def is_missing(cell: str) -> bool:
    return cell.strip().casefold() in MISSING


def number(cell: str, decimal: Decimal) -> float | None:
    """The number in a cell, with its thousands, currency or percent sign taken off; None if it is no finite one."""
    cell = cell.strip()
    found = _NUMBERS[decimal].fullmatch(cell) if len(cell) <= LONGEST else None
    if not found:
        return None
    value = float(found[2].translate(_UNWANTED[decimal]))
    if not math.isfinite(value):
        return None
    return -value if found[1] in ("-", "−") else value


def is_number(cell: str) -> bool:
    return number(cell, ".") is not None or number(cell, ",") is not None


def is_code(cell: str) -> bool:
    """Digits with a leading zero name something, as post codes do; they measure nothing."""
    return len(cell) > 1 and cell[0] == "0" and cell.isdigit()


def day(cell: str, day_first: bool) -> date | None:
    """The date in a cell; its time of day does not matter here."""
    cell = cell.strip()
    if not 6 <= len(cell) <= LONGEST or not any(map(str.isdigit, cell)):
        return None
    if found := _DAY.fullmatch(cell):
        first, _, second, year = found.groups()
        return _date(year, *((second, first) if day_first else (first, second)))
    if cell[:4].isdigit() and not cell.isdigit():
        return _iso(cell)
    return _named_month(cell) if _MONTH.search(cell) else None


def is_date(cell: str) -> bool:
    return day(cell, day_first=True) is not None or day(cell, day_first=False) is not None


def _date(year: str, month: str, day_of_month: str) -> date | None:
    full_year = int(year) if len(year) == 4 else int(year) + (1900 if int(year) > 68 else 2000)
    try:
        return date(full_year, int(month), int(day_of_month))
    except ValueError:
        return None


def _iso(cell: str) -> date | None:
    if re.fullmatch(r"\d{4}-\d{2}", cell):
        cell += "-01"
    try:
        return datetime.fromisoformat(cell.replace("/", "-")).date()
    except ValueError:
        return None


def _named_month(cell: str) -> date | None:
    for form in _NAMED_MONTHS:
        try:
            return datetime.strptime(cell, form).date()
        except ValueError:
            continue
    return None
