"""The hotel of a trip, made up: by the water or the park in good weather, by the museums in bad."""

from __future__ import annotations

from agentkit import Completed, Outcome, Skill, SkillHandler, TaskContext
from examples import handover
from examples.agents.trip.asking import known
from examples.agents.trip.stay import MADE_UP, Hotel, Stay, Weather

NAMES = ("Linden", "Harbour", "Old Post", "Two Bridges", "Swallow", "Copper", "Meridian", "Quiet House")
DRY, WET = ("by the park", "by the water"), ("by the museums", "by the station")


def offers(stay: Stay) -> list[Hotel]:
    """Made-up hotels, the cheapest first; prices are for the whole stay."""
    dice = stay.chance("hotels")
    names = dice.sample(NAMES, len(DRY + WET))
    hotels = [
        Hotel(name=f"Hotel {name}", by=by, price=stay.nights * dice.randint(70, 190))
        for name, by in zip(names, DRY + WET, strict=True)
    ]
    return sorted(hotels, key=lambda one: (one.price, one.name))


def best(hotels: list[Hotel], weather: Weather) -> tuple[Hotel, str]:
    """The hotel to take, and why."""
    wet = sum(day.is_wet for day in weather.days)
    is_wet = 2 * wet > len(weather.days)
    wanted = WET if is_wet else DRY
    why = f"the cheapest {' or '.join(wanted)}, as {wet} of {len(weather.days)} days will be wet"
    return next(one for one in hotels if one.by in wanted), why


class TripHotels(SkillHandler):
    """Makes up hotels for a stay and picks one that suits the weather. No hotel is asked, nothing is booked."""

    name = "Trip hotels"
    skills = (
        Skill(
            "pick-hotel",
            "Pick a made-up hotel",
            "Four made-up hotels for a stay, and the one that suits the forecast.",
            tags=["hotel", "trip", "demo"],
            examples=['{"city": "Lisbon", "arrival": "2027-05-03", "nights": 4}'],
            output_modes=["application/json"],
        ),
    )
    input_modes = ("text/plain", "application/json")
    output_modes = ("application/json", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        weather = handover.needed(task, Weather)
        stay = known(task, Stay)
        if not isinstance(stay, Stay):
            return stay
        hotel, why = best(offers(stay), weather)
        said = f"{hotel.name} {hotel.by}, {hotel.price} €: {why}."
        return Completed(f"{said} {MADE_UP}", [handover.as_json(hotel)])
