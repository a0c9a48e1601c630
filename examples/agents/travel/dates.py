"""Dates as people write them: 3 May, May 3rd 2027, 2027-05-03, 3.5.2027, tomorrow, next Friday, in two weeks."""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Callable

MONTHS = [name.casefold() for name in calendar.month_name[1:]]
WEEKDAYS = [name.casefold() for name in calendar.day_name]
NOT_A_PLACE = frozenset([*MONTHS, *WEEKDAYS, *(month[:3] for month in MONTHS), "i"])

MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" if len(month) > 3 else month for month in MONTHS)
ORDINAL = r"(\d{1,2})(?:st|nd|rd|th|\.)?"
YEAR = r"(?:,?\s+(\d{4}))?"
LEADING_IN = re.compile(r"\b(?:on|the|from|by|for|starting)\s$", re.IGNORECASE)
FEW = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
DAYS = {"day": 1, "week": 7, "month": 30}


class NoSuchDay(ValueError):
    """The text says which."""


def find_date(text: str, today: datetime.date) -> tuple[datetime.date, str] | None:
    """The first date in the text, and the text without it; None where there is none. Raises NoSuchDay.

    A date without a year is the next such day.
    """
    for pattern, read in _FORMS:
        if found := pattern.search(text):
            before = LEADING_IN.sub("", text[: found.start()])
            return read(found, today), f"{before} {text[found.end() :]}"
    return None


def _day(year: int | None, month: int, day: int, today: datetime.date) -> datetime.date:
    years = [year] if year is not None else range(today.year, today.year + 9)
    for one in years:
        try:
            found = datetime.date(one, month, day)
        except ValueError:
            continue
        if year is not None or found >= today:
            return found
    name = MONTHS[month - 1].capitalize() if 1 <= month <= 12 else f"of month {month}"
    raise NoSuchDay(f"There is no {day} {name}{f' {year}' if year else ''}.")


def _month(name: str) -> int:
    return next(at for at, month in enumerate(MONTHS, 1) if month.startswith(name.casefold()[:3]))


def _iso(found: re.Match[str], today: datetime.date) -> datetime.date:
    return _day(int(found[1]), int(found[2]), int(found[3]), today)


def _day_first(found: re.Match[str], today: datetime.date) -> datetime.date:
    return _day(int(found[3]) if found[3] else None, _month(found[2]), int(found[1]), today)


def _month_first(found: re.Match[str], today: datetime.date) -> datetime.date:
    return _day(int(found[3]) if found[3] else None, _month(found[1]), int(found[2]), today)


def _dotted(found: re.Match[str], today: datetime.date) -> datetime.date:
    return _day(int(found[3]) if found[3] else None, int(found[2]), int(found[1]), today)


def _soon(found: re.Match[str], today: datetime.date) -> datetime.date:
    days = {"today": 0, "tomorrow": 1, "the day after tomorrow": 2}
    return today + datetime.timedelta(days[" ".join(found[1].casefold().split())])


def _weekday(found: re.Match[str], today: datetime.date) -> datetime.date:
    ahead = (WEEKDAYS.index(found[1].casefold()) - today.weekday()) % 7
    return today + datetime.timedelta(ahead or 7)


def _later(found: re.Match[str], today: datetime.date) -> datetime.date:
    number = FEW.get(found[1].casefold()) or int(found[1])
    return today + datetime.timedelta(number * DAYS[found[2].casefold()])


_FORMS: list[tuple[re.Pattern[str], Callable[[re.Match[str], datetime.date], datetime.date]]] = [
    (re.compile(pattern, re.IGNORECASE), read)
    for pattern, read in (
        (r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b", _iso),
        (rf"\b{ORDINAL}\s*(?:of\s+)?({MONTH})\b\.?{YEAR}", _day_first),
        (rf"\b({MONTH})\.?\s+{ORDINAL}(?!\d){YEAR}", _month_first),
        (r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(\d{4})?(?!\d)", _dotted),
        (r"\b(the\s+day\s+after\s+tomorrow|today|tomorrow)\b", _soon),
        (rf"\b(?:(?:on|next|this|coming)\s+)+({'|'.join(WEEKDAYS)})\b", _weekday),
        (rf"\bin\s+(\d{{1,3}}|{'|'.join(FEW)})\s+(day|week|month)s?\b", _later),
    )
]
