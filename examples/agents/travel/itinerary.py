"""The plan of a trip as a page: three days, with what their weekdays and the number of travellers make different."""

from __future__ import annotations

import datetime

from examples.agents.travel.places import ANYWHERE, PLACES
from examples.agents.travel.trip import Trip
from examples.prose import counted

DAYS = 3
MONDAY, SUNDAY = 0, 6


def as_markdown(trip: Trip, fine_print: str) -> str:
    """The page for a trip of which all is known."""
    rooms = counted((trip.travellers + 1) // 2, "room")
    known = {place.casefold(): sights for place, sights in PLACES.items()}
    sights = known.get(trip.destination.casefold(), ANYWHERE)
    lines = [
        f"# Three days in {_plain(trip.destination)}",
        f"{trip.day}, {counted(trip.travellers, 'traveller')}, {rooms}. Plan {trip.number}.",
        f"**{fine_print}**",
    ]
    lines += [_day(trip, at, sights[2 * at], sights[2 * at + 1]) for at in range(DAYS)]
    return "\n\n".join(lines) + "\n"


def _day(trip: Trip, at: int, first: str, second: str) -> str:
    assert trip.date is not None
    day = trip.date + datetime.timedelta(at)
    lines = [f"- In the morning: {first}", f"- In the afternoon: {second}"]
    if day.weekday() == MONDAY:
        lines.append("- It is a Monday: many museums are closed, so look before you go")
    if day.weekday() == SUNDAY:
        lines.append("- It is a Sunday: shops may be closed")
    if trip.travellers > 4:
        lines.append(f"- In the evening: a table for {trip.travellers}, which wants to be reserved")
    return "\n".join([f"## {day:%A}, {day.day} {day:%B}", *lines])


def _plain(name: str) -> str:
    """A name that people wrote, without what Markdown would make of it."""
    return "".join(letter for letter in name if letter not in "\\`*_#<>[]()|")
