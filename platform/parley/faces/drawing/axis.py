"""The time axis of timelines, and its labels. It shortens long pauses."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from math import ceil

Span = tuple[datetime.datetime, datetime.datetime]

NARROWEST = 0.5  # % of the width, for an instant
LONGEST_PAUSE = 0.25  # of the busy time; longer pauses are cut to it
SHORTEST_CUT = 5.0  # seconds; shorter pauses are not cut
LABEL_WIDTH = 11.0  # % of the width
MINUTE, HOUR, DAY = 60, 3600, 86_400
ROUND_SECONDS = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(MINUTE * number for number in (1, 2, 5, 10, 15, 30)),
    *(HOUR * number for number in (1, 2, 3, 6, 12)),
    *(DAY * number for number in (1, 2, 5, 10, 30, 100, 365)),
)
"""How many seconds there may be from one label to the next."""


@dataclass(frozen=True, slots=True)
class AxisSegment:
    """A period and its place (%)."""

    begins: datetime.datetime
    ends: datetime.datetime
    left: float
    right: float
    is_cut: bool

    def place(self, at: datetime.datetime) -> float:
        whole = self.ends - self.begins
        return self.left + (self.right - self.left) * ((at - self.begins) / whole if whole else 0.0)

    @property
    def cut_at(self) -> float:
        """The place of the cut's mark: near the end, because labels start on the left."""
        return self.right - (self.right - self.left) / 5


class TimeAxis:
    """Maps times to places (%). Between `busy` spans are pauses."""

    def __init__(self, span: Span, busy: Sequence[Span]) -> None:
        begins, ends = span
        edges = sorted({begins, ends, *(min(max(at, begins), ends) for one in busy for at in one)})
        pieces = list(pairwise(edges)) or [(begins, ends)]
        is_busy = [any(one[0] <= piece[0] and piece[1] <= one[1] for one in busy) for piece in pieces]
        lengths = [(piece[1] - piece[0]).total_seconds() for piece in pieces]
        done = sum(length for length, here in zip(lengths, is_busy, strict=True) if here)
        pauses = [length for length, here in zip(lengths, is_busy, strict=True) if not here]
        short = [length for length in pauses if length < SHORTEST_CUT]
        longest = max([done * LONGEST_PAUSE, *short]) if done else max(lengths)
        drawn = [length if here else min(length, longest) for length, here in zip(lengths, is_busy, strict=True)]
        self.segments: list[AxisSegment] = []
        factor, left = 100 / (sum(drawn) or 1), 0.0
        for piece, length, shown in zip(pieces, lengths, drawn, strict=True):
            is_cut = shown < length >= SHORTEST_CUT
            self.segments.append(AxisSegment(*piece, left, left + shown * factor, is_cut))
            left += shown * factor

    @property
    def cuts(self) -> list[tuple[float, str]]:
        """Shortened pauses: place (%) and duration."""
        cut = [one for one in self.segments if one.is_cut]
        return [(round(one.cut_at, 2), long_duration(one.ends - one.begins)) for one in cut]

    def place(self, at: datetime.datetime) -> float:
        """% from the left."""
        for segment in self.segments:
            if at <= segment.ends:
                return max(segment.place(at), 0.0)
        return 100.0

    def bar(self, begins: datetime.datetime, ends: datetime.datetime) -> tuple[float, float]:
        """Left edge and width (%), never invisible."""
        left = self.place(begins)
        width = max(self.place(ends) - left, NARROWEST)
        return round(min(left, 100 - NARROWEST), 2), round(min(width, 100 - min(left, 100 - NARROWEST)), 2)


@dataclass(frozen=True, slots=True)
class Tick:
    """A label and its place (%)."""

    place: float
    label: str

    @property
    def side(self) -> str:
        """A CSS class for labels at the ends of the axis."""
        half = LABEL_WIDTH / 2
        return " is-first" if self.place < half else " is-last" if self.place > 100 - half else ""


def axis_ticks(axis: TimeAxis) -> list[Tick]:
    """At round durations since the start, and after cuts."""
    begins = axis.segments[0].begins
    found: list[Tick] = []
    for seconds in sorted(set(_tick_candidates(axis))):
        place = round(axis.place(begins + timedelta(seconds=seconds)), 2)
        label = long_duration(timedelta(seconds=seconds)) if seconds else "0"
        if not found or (place - found[-1].place >= LABEL_WIDTH and label != found[-1].label):
            found.append(Tick(place, label))
    return found


def _tick_candidates(axis: TimeAxis) -> Iterator[float]:
    """In seconds since the start."""
    yield 0.0
    begins = axis.segments[0].begins
    whole = [one for one in axis.segments if not one.is_cut]
    seconds = sum((one.ends - one.begins).total_seconds() for one in whole)
    width = sum(one.right - one.left for one in whole)
    wanted = seconds / width * LABEL_WIDTH * 1.3 if width else 0.0
    interval = next((one for one in ROUND_SECONDS if one >= wanted), ROUND_SECONDS[-1])
    for segment in axis.segments:
        first, last = ((at - begins).total_seconds() for at in (segment.begins, segment.ends))
        if segment.is_cut:
            yield last
            continue
        number = ceil(first / interval)
        while number * interval <= last:
            yield round(number * interval, 1)
            number += 1


def long_duration(time: timedelta) -> str:
    """ "0.4 s", "12 s", "3 min 4 s", "5 h 2 min", "12 days"."""
    seconds = max(time.total_seconds(), 0.0)
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 0.1 else "less than 0.1 s"
    whole = round(seconds)
    for size, name, part, small in ((DAY, "days", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", 1, "s")):
        if whole >= size:
            first, rest = whole // size, whole % size // part
            return f"{first} {'day' if name == 'days' and first == 1 else name}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"
