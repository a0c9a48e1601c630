"""The time range of a page: a choice, or from and to, in the URL."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.http import urlencode

from apps.analytics.reading import Period

MINUTE, HOUR, DAY = (datetime.timedelta(**{unit: 1}) for unit in ("minutes", "hours", "days"))
CHOICES = {
    "1h": ("1 h", "last hour", HOUR),
    "24h": ("24 h", "last 24 hours", DAY),
    "7d": ("7 d", "last 7 days", 7 * DAY),
    "30d": ("30 d", "last 30 days", 30 * DAY),
}
"""Short and long names, and lengths."""
USUAL = "24h"
LONGEST = 400 * DAY
EXAMPLE = "2026-03-31T14:00"


class WrongRange(Exception):
    """`str()` is a sentence for people."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range that begins and ends with whole five minutes (of an hour) or hours, or ends now.

    Attributes:
        choice: a key of CHOICES; "" for a range by `from` and `to`.
        problem: why the page shows another range than the URL asks for; or "".
    """

    choice: str
    period: Period
    problem: str = ""

    @property
    def title(self) -> str:
        if self.choice:
            return CHOICES[self.choice][1]
        return f"{self.period.start:%Y-%m-%d %H:%M} to {self.period.end:%Y-%m-%d %H:%M} UTC"

    @property
    def query(self) -> str:
        """The range as a query of a URL."""
        if self.choice:
            return urlencode({"range": self.choice})
        return urlencode({"from": written(self.period.start), "to": written(self.period.end)})

    def within(self, field: str) -> dict[str, str]:
        """The lookups of a list for rows whose `field` lies in the range."""
        return {f"{field}__gte": self.period.start.isoformat(), f"{field}__lt": self.period.end.isoformat()}


def written(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M")


def range_of(query: QueryDict, usual: str = USUAL) -> TimeRange:
    """The range of a URL; with a `problem` and the usual range if it is wrong."""
    now = timezone.now().astimezone(datetime.UTC)
    try:
        if query.get("from") or query.get("to"):
            return TimeRange("", _custom(query.get("from", ""), query.get("to", ""), now))
        choice = query.get("range") or usual
        if choice not in CHOICES:
            raise WrongRange(f"There is no range {choice[:40]!r}. Choose {', '.join(CHOICES)}, or give from and to.")
        return _chosen(choice, now)
    except WrongRange as problem:
        return TimeRange(usual, _chosen(usual, now).period, f"{problem} This page shows the {CHOICES[usual][1]}.")


def _chosen(choice: str, now: datetime.datetime) -> TimeRange:
    """Rounded so that the current hour (or five minutes) counts as one of the whole."""
    length = CHOICES[choice][-1]
    unit = 5 * MINUTE if choice == "1h" else HOUR
    return TimeRange(choice, Period(_rounded(now, unit) + unit - length, now))


def _custom(begin: str, end: str, now: datetime.datetime) -> Period:
    """Whole hours. Without an end, until now."""
    if not begin:
        raise WrongRange("The range has an end but no beginning. Give both.")
    start, stop = _moment(begin, "beginning"), _moment(end, "end") if end else now
    if start >= now:
        raise WrongRange("The range begins in the future.")
    if start >= stop:
        raise WrongRange("The range ends before it begins.")
    if stop - start > LONGEST:
        raise WrongRange(f"The range is longer than {LONGEST.days} days.")
    whole = _rounded(stop, HOUR)
    return Period(_rounded(start, HOUR), min(now, whole if whole == stop else whole + HOUR))


def _moment(text: str, which: str) -> datetime.datetime:
    """A date, or date and time; in UTC unless it says otherwise."""
    try:
        moment = parse_datetime(text)
        if moment is None and (day := parse_date(text)):
            moment = datetime.datetime.combine(day, datetime.time())
        if moment is not None:
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        moment = None
    if moment is None or moment.year < 1971:
        raise WrongRange(f"The {which} {text[:40]!r} is not a time. Write it like {EXAMPLE}.")
    return moment


def _rounded(moment: datetime.datetime, unit: datetime.timedelta) -> datetime.datetime:
    """Down, to a multiple since 1970."""
    seconds = int(unit.total_seconds())
    return datetime.datetime.fromtimestamp(int(moment.timestamp()) // seconds * seconds, datetime.UTC)
