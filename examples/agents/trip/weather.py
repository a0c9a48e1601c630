"""The weather of a trip, made up: by the season of the northern half, and by dice that fall the same every time."""

from __future__ import annotations

import math

from agentkit import Completed, Outcome, Skill, SkillHandler, TaskContext
from examples import handover
from examples.agents.trip.asking import known
from examples.agents.trip.stay import MADE_UP, Day, Stay, Weather

MEAN, SWING, WARMEST = 13.0, 9.0, 205  # °C, °C, and the day of the year
FREEZING = 1


def forecast(stay: Stay) -> Weather:
    """A made-up forecast for each day of the stay."""
    dice = stay.chance("weather")
    days = []
    for date in stay.days:
        season = MEAN + SWING * math.cos(2 * math.pi * (date.timetuple().tm_yday - WARMEST) / 365)
        high = round(season + dice.uniform(-4, 5))
        sky = dice.choices(("sun", "clouds", "rain"), (5, 3, 3))[0]
        sky = "snow" if sky == "rain" and high <= FREEZING else sky
        days.append(Day.model_validate({"date": date, "sky": sky, "high": high, "low": high - dice.randint(4, 9)}))
    return Weather(stay=stay, days=days)


class TripWeather(SkillHandler):
    """Makes up a forecast for a city and dates, the same each time. It knows nothing of the real weather."""

    name = "Trip weather"
    skills = (
        Skill(
            "forecast",
            "Make up a forecast",
            "A made-up forecast for each day of a stay, by city, arrival and nights; asks for what is missing.",
            tags=["weather", "trip", "demo"],
            examples=['{"city": "Lisbon", "arrival": "2027-05-03", "nights": 4}'],
            output_modes=["application/json"],
        ),
    )
    input_modes = ("text/plain", "application/json")
    output_modes = ("application/json", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        stay = known(task, Stay)
        if not isinstance(stay, Stay):
            return stay
        found = forecast(stay)
        wet = sum(day.is_wet for day in found.days)
        highs = [day.high for day in found.days]
        rain = "no rain" if not wet else f"rain or snow on {wet} of {len(found.days)} days"
        said = f"{stay.city}: {min(highs)} to {max(highs)} °C, {rain}. {MADE_UP}"
        return Completed(said, [handover.as_json(found)])
