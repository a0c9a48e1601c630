"""The flight of a trip, made up: the cheapest, save that a dry first day wants to be used."""

from __future__ import annotations

import datetime

from agentkit import Completed, Outcome, Skill, SkillHandler, TaskContext
from examples import handover
from examples.agents.trip.asking import known
from examples.agents.trip.stay import MADE_UP, Flight, Journey, Weather

NOON = datetime.time(12)
OFFERED = 4


def offers(journey: Journey) -> list[Flight]:
    """Made-up flights of the day of arrival, the cheapest first."""
    dice = journey.chance(f"flights|{journey.departure.casefold()}")
    hours = dice.randint(1, 4)
    flights = []
    for leaves in sorted(dice.sample(range(6, 19), OFFERED)):
        minutes = dice.choice((0, 15, 30, 45))
        flights.append(
            Flight(
                number=f"PY {dice.randint(100, 999)}",
                departure=journey.departure,
                leaves=datetime.time(leaves, minutes),
                arrives=datetime.time(leaves + hours, minutes),
                price=60 * hours + dice.randint(0, 140),
            )
        )
    return sorted(flights, key=lambda one: (one.price, one.leaves))


def best(flights: list[Flight], weather: Weather) -> tuple[Flight, str]:
    """The flight to take, and why."""
    early = [one for one in flights if one.arrives <= NOON]
    if early and not weather.days[0].is_wet:
        return early[0], "the cheapest that arrives by noon, as the first day will be dry"
    if early:
        return flights[0], "the cheapest, as the first day will be wet anyway"
    return flights[0], "the cheapest, as none arrives by noon"


class TripFlights(SkillHandler):
    """Makes up flights for a stay and picks one that suits the weather. No airline is asked, nothing is booked."""

    name = "Trip flights"
    skills = (
        Skill(
            "pick-flight",
            "Pick a made-up flight",
            "Four made-up flights for a stay, and the one that suits the forecast of the first day.",
            tags=["flight", "trip", "demo"],
            examples=['{"departure": "Oslo", "city": "Lisbon", "arrival": "2027-05-03", "nights": 4}'],
            output_modes=["application/json"],
        ),
    )
    input_modes = ("text/plain", "application/json")
    output_modes = ("application/json", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        weather = handover.needed(task, Weather)
        journey = known(task, Journey)
        if not isinstance(journey, Journey):
            return journey
        flight, why = best(offers(journey), weather)
        times = f"{flight.leaves:%H:%M} to {flight.arrives:%H:%M}"
        said = f"{flight.number} from {flight.departure}, {times}, {flight.price} €: {why}."
        return Completed(f"{said} {MADE_UP}", [handover.as_json(flight)])
