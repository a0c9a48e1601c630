"""The travel plan: weather, flight and hotel, then an itinerary from all three."""

from __future__ import annotations

import datetime
import itertools
import json
from datetime import date
from typing import Any

from agentkit import Completed, Failed, InputRequired, testing
from examples.agents.trip import TripFlights, TripHotels, TripItinerary, TripWeather, Weather
from tests.examples.pipelines import data, message
from tests.examples.saying import form

STAY = {"city": "Lisbon", "arrival": "2027-05-03", "nights": 3}
JOURNEY = STAY | {"departure": "Oslo"}


def weather(*skies: str) -> Weather:
    start = datetime.date(2027, 5, 3)
    days = [{"date": start + datetime.timedelta(at), "sky": sky, "high": 20, "low": 12} for at, sky in enumerate(skies)]
    return Weather.model_validate({"stay": STAY, "days": days})


async def trip(**changes: Any) -> dict[str, testing.Run]:
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
    assert all("Nothing is looked up or booked." in run.said for run in runs.values())
    (page,) = runs["itinerary"].artifacts
    assert page.name == "itinerary.md"
    text = page.parts[0]["text"]
    assert text.startswith("# 3 nights in Lisbon\n")
    assert data(runs["flight"])["number"] in text
    assert data(runs["hotel"])["name"] in text
    assert text.count("\n## ") == 4
    again = await trip()
    assert again["itinerary"].artifacts[0].parts == page.parts
    for change in ({"city": "Oslo"}, {"arrival": "2027-11-03"}, {"nights": 5}, {"departure": "Rome"}):
        other = await trip(**change)
        assert other["itinerary"].artifacts[0].parts != page.parts, change


async def test_what_is_missing_is_asked_for() -> None:
    for told, why in (
        ("to Lisbon", "fill in the form"),
        ('{"city": "Lisbon", "arrival": "2027-05-03"}', "Nights: an answer is needed."),
        ('{"city": "Lisbon", "arrival": "2027-02-30", "nights": 3}', "Arrival: "),
        ('{"city": "L", "arrival": "2027-05-03", "nights": 99}', "Nights: "),
    ):
        run = await testing.run(TripWeather, told)
        assert isinstance(run.outcome, InputRequired), told
        assert why in run.said
        assert run.outcome.schema is not None
        assert set(run.outcome.schema["properties"]) == {"city", "arrival", "nights"}
    assert isinstance((await run.answer(form(**STAY))).outcome, Completed)
    known = {"data": weather("sun").model_dump(mode="json")}
    run = await testing.run(TripFlights, message(json.dumps(STAY), [known]))
    assert isinstance(run.outcome, InputRequired)
    assert "From: an answer is needed." in run.said


async def test_without_the_weather_nothing_is_picked() -> None:
    for handler in (TripFlights, TripHotels, TripItinerary):
        run = await testing.run(handler, json.dumps(JOURNEY))
        assert isinstance(run.outcome, Failed)
        assert run.said.startswith("I need weather.json, which the agent Trip weather (`trip-weather`) delivers")


async def test_a_trip_may_be_told_in_a_sentence() -> None:
    coming = next(year for year in itertools.count(date.today().year) if date(year, 5, 3) >= date.today())
    run = await testing.run(TripWeather, "Weather for four nights in Lisbon from 3 May")
    stay = data(run)["stay"]
    assert stay == {"city": "Lisbon", "arrival": f"{coming}-05-03", "nights": 4}
    known = [{"data": data(run)}]
    run = await testing.run(TripFlights, message("A flight from New York, for 2 nights in Lisbon from 3 May", known))
    assert data(run)["departure"] == "New York"
