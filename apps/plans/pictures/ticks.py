"""The numbers below a time axis: round lengths of time since its beginning, as many as have room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from console.scales import Scale, lasted

ROOM = 11.0  # % of the width that a label takes
MINUTE, HOUR, DAY = 60, 3600, 86_400
ROUND = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(MINUTE * number for number in (1, 2, 5, 10, 15, 30)),
    *(HOUR * number for number in (1, 2, 3, 6, 12)),
    *(DAY * number for number in (1, 2, 5, 10, 30, 100, 365)),
)
"""Seconds from one to the next."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Where a label stands (% of the width), and what it says."""

    place: float
    label: str

    @property
    def side(self) -> str:
        """At the ends of the axis a label must not stick out."""
        return " is-first" if self.place < ROOM / 2 else " is-last" if self.place > 100 - ROOM / 2 else ""


def ticks(scale: Scale) -> list[Tick]:
    """Left to right. After a pause that was cut short comes what time it then is."""
    begins = scale.stretches[0].begins
    found: list[Tick] = []
    for seconds in sorted(set(_candidates(scale))):
        place = round(scale.place(begins + timedelta(seconds=seconds)), 2)
        label = lasted(timedelta(seconds=seconds)) if seconds else "0"
        if not found or (place - found[-1].place >= ROOM and label != found[-1].label):
            found.append(Tick(place, label))
    return found


def _candidates(scale: Scale) -> Iterator[float]:
    """Seconds since the beginning: multiples of a round step, and the end of each cut."""
    yield 0.0
    begins = scale.stretches[0].begins
    whole = [one for one in scale.stretches if not one.is_cut]
    seconds = sum((one.ends - one.begins).total_seconds() for one in whole)
    width = sum(one.right - one.left for one in whole)
    wanted = seconds / width * ROOM * 1.3 if width else 0.0
    step = next((one for one in ROUND if one >= wanted), ROUND[-1])
    for stretch in scale.stretches:
        first, last = ((at - begins).total_seconds() for at in (stretch.begins, stretch.ends))
        if stretch.is_cut:
            yield last
            continue
        number = ceil(first / step)
        while number * step <= last:
            yield round(number * step, 1)
            number += 1
