"""The travel plan: weather, then flight and hotel, then an itinerary that depends on all three."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from agentkit import Completed, Failed, InputRequired, testing
from apps.showcase.agents.trip import flights, hotels, itinerary
from apps.showcase.agents.trip.flights import TripFlights
from apps.showcase.agents.trip.hotels import TripHotels
from apps.showcase.agents.trip.itinerary import TripItinerary
from apps.showcase.agents.trip.stay import Flight, Hotel, Stay, Weather
from apps.showcase.agents.trip.weather import TripWeather, forecast
from tests.showcase.pipelines import data, message
from tests.showcase.saying import form

STAY = {"city": "Lisbon", "arrival": "2027-05-03", "nights": 3}
JOURNEY = STAY | {"departure": "Oslo"}


def weather(*skies: str) -> Weather:
    """A stay in Lisbon under these skies."""
    start = datetime.date(2027, 5, 3)
    days = [{"date": start + datetime.timedelta(at), "sky": sky, "high": 20, "low": 12} for at, sky in enumerate(skies)]
    return Weather.model_validate({"stay": STAY, "days": days})


def flight(arrives: str) -> Flight:
    return Flight.model_validate(
        {"number": "PY 1", "departure": "Oslo", "leaves": "06:00", "arrives": arrives, "price": 90}
    )


HOTEL = Hotel(name="Hotel Linden", by="by the park", price=300)


async def trip(**changes: Any) -> dict[str, testing.Run]:
    """The four agents in the order of the plan."""
    journey = JOURNEY | changes
    stay = {key: value for key, value in journey.items() if key != "departure"}
    runs = {"weather": await testing.run(TripWeather, json.dumps(stay))}
    known = [{"data": data(runs["weather"])}]
    runs["flight"] = await testing.run(TripFlights, message(json.dumps(journey), known))
    runs["hotel"] = await testing.run(TripHotels, message(json.dumps(stay), known))
    known += [{"data": data(runs["flight"])}, {"data": data(runs["hotel"])}]
    runs["itinerary"] = await testing.run(TripItinerary, message("Write the itinerary.", known))
    return runs


async def test_a_trip_is_planned_and_planned_the_same_again() -> None:
    runs = await trip()
    assert all(isinstance(run.outcome, Completed) for run in runs.values())
    assert all("nothing is booked" in run.said for run in runs.values())
    (page,) = runs["itinerary"].artifacts
    assert page.name == "itinerary.md"
    text = page.parts[0]["text"]
    assert text.startswith("# 3 nights in Lisbon\n")
    assert data(runs["flight"])["number"] in text
    assert data(runs["hotel"])["name"] in text
    assert text.count("\n## ") == 4
    again = await trip()
    assert again["itinerary"].artifacts[0].parts == page.parts


@pytest.mark.parametrize("change", [{"city": "Oslo"}, {"arrival": "2027-11-03"}, {"nights": 5}, {"departure": "Rome"}])
async def test_another_trip_has_another_itinerary(change: dict[str, Any]) -> None:
    first, other = await trip(), await trip(**change)
    assert first["itinerary"].artifacts[0].parts != other["itinerary"].artifacts[0].parts


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("to Lisbon", "Tell me about the trip"),
        ('{"city": "Lisbon", "arrival": "2027-05-03"}', "Nights: an answer is needed."),
        ('{"city": "Lisbon", "arrival": "2027-02-30", "nights": 3}', "Arrival: "),
        ('{"city": "L", "arrival": "2027-05-03", "nights": 99}', "Nights: "),
    ],
)
async def test_what_is_missing_is_asked_for(told: str, why: str) -> None:
    run = await testing.run(TripWeather, told)
    assert isinstance(run.outcome, InputRequired)
    assert why in run.said
    assert run.outcome.schema is not None
    assert set(run.outcome.schema["properties"]) == {"city", "arrival", "nights"}
    assert isinstance((await run.answer(form(**STAY))).outcome, Completed)


@pytest.mark.parametrize("handler", [TripFlights, TripHotels, TripItinerary])
async def test_without_the_weather_nothing_is_picked(handler: object) -> None:
    run = await testing.run(handler, json.dumps(JOURNEY))
    assert isinstance(run.outcome, Failed)
    assert run.said.startswith("I need weather.json, which the agent Trip weather (`trip-weather`) delivers")


async def test_a_flight_asks_for_the_place_of_departure_though_the_weather_is_there() -> None:
    known = {"data": weather("sun").model_dump(mode="json")}
    run = await testing.run(TripFlights, message(json.dumps(STAY), [known]))
    assert isinstance(run.outcome, InputRequired)
    assert "From: an answer is needed." in run.said


def test_warm_in_july_and_cold_in_january() -> None:
    def mean(month: int) -> float:
        days = [
            forecast(Stay(city=city, arrival=datetime.date(2027, month, 2), nights=7)).days for city in ("A1", "B2")
        ]
        return sum(day.high for each in days for day in each) / 16

    assert mean(7) > mean(1) + 10


def test_the_flight_is_early_where_the_first_day_is_dry() -> None:
    late, early = flight("20:00"), flight("11:00").model_copy(update={"price": 200})
    assert flights.best([late, early], weather("sun"))[0] is early
    assert flights.best([late, early], weather("rain"))[0] is late
    assert flights.best([late], weather("sun"))[0] is late


def test_the_hotel_is_by_the_museums_where_it_is_mostly_wet() -> None:
    found = hotels.offers(Stay.model_validate(STAY))
    assert hotels.best(found, weather("rain", "rain", "sun"))[0].by in hotels.WET
    assert hotels.best(found, weather("sun", "rain", "sun"))[0].by in hotels.DRY


def test_a_wet_day_is_spent_under_a_roof_and_a_late_arrival_at_dinner() -> None:
    dry, wet = (itinerary.planned(weather(*3 * [sky]), flight("10:00"), HOTEL) for sky in ("sun", "rain"))
    assert dry[1][1] != wet[1][1]
    assert "The LX Factory" in wet[0][1]
    assert "The LX Factory" not in dry[0][1]
    late = itinerary.planned(weather("sun", "sun"), flight("19:30"), HOTEL)
    assert late[0][1][-1].startswith("Too late for more")
