"""The itinerary of a trip: what to do on each day, by its weather, the time of arrival and where the hotel is."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

from agentkit import Completed, Outcome, Skill, SkillHandler, TaskContext
from examples import handover
from examples.agents.travel.places import ANYWHERE, PLACES
from examples.agents.trip.stay import MADE_UP, Day, Flight, Hotel, Weather, on
from examples.report.markdown import escaped

NAME = "itinerary.md"
EVENING = datetime.time(17)
UNDER_A_ROOF = re.compile(
    r"museum|louvre|orsay|opera|pantheon|gallery|market|khan|factory|café|dome|rijks|aquarium", re.IGNORECASE
)


def sights(city: str) -> tuple[list[str], list[str]]:
    """What there is to see in the open, and under a roof."""
    known = {name.casefold(): places for name, places in PLACES.items()}
    places = known.get(city.casefold(), ANYWHERE)
    return [one for one in places if not UNDER_A_ROOF.search(one)], [one for one in places if UNDER_A_ROOF.search(one)]


def planned(weather: Weather, flight: Flight, hotel: Hotel) -> list[tuple[Day, list[str]]]:
    """The days and what is done on each; nothing is seen twice before all was seen."""
    open_air, roofed = sights(weather.stay.city)
    seen: list[str] = []
    days = []
    for at, day in enumerate(weather.days):
        is_first, is_last = at == 0, at == len(weather.days) - 1
        steps = (
            [f"Arrive at {flight.arrives:%H:%M} with {flight.number}, and go to {hotel.name} {hotel.by}"]
            if is_first
            else []
        )
        if is_first and flight.arrives >= EVENING:
            steps.append("Too late for more: have dinner near the hotel")
        else:
            wanted = [*roofed, *open_air] if day.is_wet else [*open_air, *roofed]
            steps += [_next(wanted, seen) for _ in range(1 if is_first or is_last else 2)]
        if is_last:
            steps.append(f"Leave {hotel.name} and fly home")
        days.append((day, steps))
    return days


def as_markdown(weather: Weather, flight: Flight, hotel: Hotel) -> str:
    """The itinerary as a page."""
    stay = weather.stay
    lines = [
        f"# {stay.nights} nights in {escaped(stay.city)}",
        f"Flight {escaped(flight.number)} from {escaped(flight.departure)}, {flight.price} €; {escaped(hotel.name)} "
        f"{escaped(hotel.by)}, {hotel.price} €; together {flight.price + hotel.price} €.",
        f"**{MADE_UP}**",
    ]
    for day, steps in planned(weather, flight, hotel):
        items = [f"- {escaped(step)}" for step in steps]
        lines.append("\n".join([f"## {on(day.date)}: {day.sky}, {day.low} to {day.high} °C", "", *items]))
    return "\n\n".join(lines) + "\n"


def _next(wanted: Sequence[str], seen: list[str]) -> str:
    """The first that was seen least often."""
    chosen = min(wanted, key=lambda one: (seen.count(one), wanted.index(one)))
    seen.append(chosen)
    return chosen[:1].upper() + chosen[1:]


class TripItinerary(SkillHandler):
    """Puts weather, flight and hotel together to a plan day by day. A demonstration that books nothing."""

    name = "Trip itinerary"
    skills = (
        Skill(
            "write-itinerary",
            "Write an itinerary",
            "Takes weather.json, flight.json and hotel.json and says what to do on each day: in the open when it is "
            "dry, under a roof when it is not, and less on the day of a late arrival.",
            tags=["itinerary", "trip", "demo"],
            examples=["Write the itinerary"],
            input_modes=["application/json", "text/plain"],
            output_modes=["text/markdown"],
        ),
    )
    input_modes = ("text/plain", "application/json")
    output_modes = ("text/markdown", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        weather = handover.needed(task, Weather)
        flight, hotel = handover.needed(task, Flight), handover.needed(task, Hotel)
        page = as_markdown(weather, flight, hotel)
        stay = weather.stay
        said = (
            f"{stay.nights} nights in {stay.city} from {on(stay.arrival)}, {flight.price + hotel.price} € together. "
            f"{MADE_UP}"
        )
        return Completed(said, [handover.document(NAME, page, "text/markdown", f"A plan for {stay.city}")])
