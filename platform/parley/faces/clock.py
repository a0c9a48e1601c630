"""How pages write times: by a 12-hour or 24-hour clock, day or month first. `static/js/format.js` writes them alike.

Times are in Django's current time zone. Outside of `override`, a page has the 24-hour clock.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from django.utils import timezone
from django.utils.dateformat import format as formatted

# By CLDR's `timeData`: regions whose people read "3:46 PM", and the usual regions of languages without one
_TWELVE_HOURS = """
    AE AG AL AS AU BB BD BH BM BN BS CA CO CY DJ DM DZ EG ER ET FJ FM GD GH GM GR GU GY HK IN IQ JM JO KH KI KN KR KW KY
    LB LC LR LY MH MO MR MW MY NZ OM PA PH PK PR PS QA SA SB SD SG SL SO SS SY TC TN TO TT TW UM US VC VE VG VI WS YE ZM
"""
TWELVE_HOURS = frozenset(_TWELVE_HOURS.split())
USUAL_REGIONS = {"en": "US", "hi": "IN", "ta": "IN", "te": "IN", "mr": "IN", "gu": "IN", "bn": "BD", "ur": "PK"} | {
    "ar": "EG", "ko": "KR", "el": "GR", "sq": "AL", "am": "ET", "ms": "MY", "km": "KH"
}  # fmt: skip
TWENTY_FOUR_HOURS = frozenset({"fr-ca", "fr-dz", "fr-tn", "zh-sg"})  # languages that differ from their region's
MONTH_FIRST = frozenset({"US", "CA", "PH", "PR", "GU", "UM", "VI"})


@dataclass(frozen=True, slots=True)
class Clock:
    """`zone`: the time zone that the reader chose; "" for the browser's."""

    hours: int = 24  # or 12
    month_first: bool = False
    zone: str = ""

    def time(self, at: datetime.datetime, *, seconds: bool = False) -> str:
        """ "15:46" or "3:46 PM"."""
        exact = ":s" if seconds else ""
        return formatted(at, f"g:i{exact} A" if self.hours == 12 else f"H:i{exact}")

    def day(self, at: datetime.date, *, year: bool = False, month: str = "M") -> str:
        """ "25 Nov" or "Nov 25"; with `month="F"` the whole name."""
        if self.month_first:
            return formatted(at, f"{month} j, Y" if year else f"{month} j")
        return formatted(at, f"j {month} Y" if year else f"j {month}")

    def moment(self, at: datetime.datetime) -> str:
        """The time alone today; otherwise with the day, and with the year unless it is this one."""
        now = timezone.localtime()
        if at.date() == now.date():
            return self.time(at)
        return f"{self.day(at, year=at.year != now.year)}, {self.time(at)}"


_current: ContextVar[Clock] = ContextVar("clock")
_PLAIN = Clock()


def current() -> Clock:
    return _current.get(_PLAIN)


@contextmanager
def override(clock: Clock) -> Iterator[None]:
    token = _current.set(clock)
    try:
        yield
    finally:
        _current.reset(token)


def clock_for(accept_language: str, zone: str = "") -> Clock:
    """The clock of a reader, by the browser's first language."""
    tag = accept_language.partition(",")[0].partition(";")[0].strip().lower()
    language, *subtags = tag.split("-")
    region = next((one.upper() for one in subtags if len(one) == 2), USUAL_REGIONS.get(language, ""))
    hours = 12 if region in TWELVE_HOURS and tag not in TWENTY_FOUR_HOURS else 24
    return Clock(hours, region in MONTH_FIRST, zone)


STYLES: dict[str, Callable[[Clock, datetime.datetime], str]] = {
    "": Clock.moment,
    "time": Clock.time,
    "date": lambda clock, at: clock.day(at, year=True),
    "year": lambda clock, at: f"{clock.day(at, year=True)}, {clock.time(at)}",
    "seconds": lambda clock, at: f"{clock.day(at)}, {clock.time(at, seconds=True)}",
    "utc": lambda _, at: f"{_PLAIN.day(at, year=True)}, {_PLAIN.time(at)} UTC",
}
"""How much of a time is written. "utc" is for pages whose readers are unknown."""


def written(at: datetime.datetime | None, style: str = "") -> str:
    """A time for people; "" for none. Raises KeyError for an unknown style."""
    if at is None:
        return ""
    return STYLES[style](current(), timezone.localtime(at, datetime.UTC if style == "utc" else None))
