"""A time axis on which long pauses are cut short, so that what happened between them can be seen; times in words."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Span = tuple[datetime.datetime, datetime.datetime]

NARROWEST = 0.5  # % of the width, for what took no time
LONGEST_PAUSE = 0.25  # of the time in which something was done: a longer pause is cut to that
WORTH_CUTTING = 5.0  # seconds; a shorter pause is drawn as it is


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of the axis: from when to when, and where on the width (%)."""

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
        """Where the sign of a cut stands: towards the end, as words begin at the beginning."""
        return self.right - (self.right - self.left) / 5


class Scale:
    """Where on the width (%) a moment stands, between the beginning and the end of a span.

    `busy` are the spans in which something was done; between them are pauses.
    """

    def __init__(self, span: Span, busy: Sequence[Span]) -> None:
        begins, ends = span
        edges = sorted({begins, ends, *(min(max(at, begins), ends) for one in busy for at in one)})
        pieces = list(pairwise(edges)) or [(begins, ends)]
        is_busy = [any(one[0] <= piece[0] and piece[1] <= one[1] for one in busy) for piece in pieces]
        lengths = [(piece[1] - piece[0]).total_seconds() for piece in pieces]
        done = sum(length for length, here in zip(lengths, is_busy, strict=True) if here)
        pauses = [length for length, here in zip(lengths, is_busy, strict=True) if not here]
        short = [length for length in pauses if length < WORTH_CUTTING]
        most = max([done * LONGEST_PAUSE, *short]) if done else max(lengths)
        drawn = [length if here else min(length, most) for length, here in zip(lengths, is_busy, strict=True)]
        self.stretches: list[Stretch] = []
        factor, left = 100 / (sum(drawn) or 1), 0.0
        for piece, length, shown in zip(pieces, lengths, drawn, strict=True):
            self.stretches.append(Stretch(*piece, left, left + shown * factor, is_cut=shown < length >= WORTH_CUTTING))
            left += shown * factor

    def place(self, at: datetime.datetime) -> float:
        """% from the left."""
        for stretch in self.stretches:
            if at <= stretch.ends:
                return max(stretch.place(at), 0.0)
        return 100.0

    def bar(self, begins: datetime.datetime, ends: datetime.datetime) -> tuple[float, float]:
        """Left edge and width of a bar, wide enough to be seen and within the picture."""
        left = self.place(begins)
        width = max(self.place(ends) - left, NARROWEST)
        return round(min(left, 100 - NARROWEST), 2), round(min(width, 100 - min(left, 100 - NARROWEST)), 2)


def lasted(time: datetime.timedelta) -> str:
    """A length of time as people say it: "0.4 s", "12 s", "3 min 4 s", "5 h 2 min", "12 days"."""
    seconds = max(time.total_seconds(), 0.0)
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 0.1 else "less than 0.1 s"
    whole = round(seconds)
    for size, name, part, small in ((86400, "days", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            first, rest = whole // size, whole % size // part
            return f"{first} {'day' if name == 'days' and first == 1 else name}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"
