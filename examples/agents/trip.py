"""A made-up trip by four agents: weather, flight, hotel, itinerary."""

from __future__ import annotations

import datetime
import math
import random
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from agentkit import Completed, InputRequired, Message, NotAnswered, Outcome, SkillHandler, TaskContext, skill
from agentkit.slots import answer_in
from examples import handover
from examples.agents.travel import DAY, KNOWN_PLACE, NUMBERS, READ_CHARACTERS, day_in, sights_of
from examples.handover import Line, Result
from examples.pages import escape

MADE_UP = "A demo: this is made up from the city and the dates. Nothing is looked up or booked."

Place = Annotated[Line, Field(min_length=2, max_length=60)]


class Stay(BaseModel):
    """A stay, and the form that asks for it."""

    city: Place = Field(title="City")
    arrival: datetime.date = Field(title="Arrival")
    nights: int = Field(title="Nights", ge=1, le=14)

    def chance(self, about: str) -> random.Random:
        """A random generator seeded by the stay: equal stays get equal results."""
        return random.Random(f"{about}|{self.city.casefold()}|{self.arrival}|{self.nights}")  # noqa: S311 - no secrets

    @property
    def days(self) -> list[datetime.date]:
        return [self.arrival + datetime.timedelta(day) for day in range(self.nights + 1)]


class Journey(Stay):
    """A stay, and where one comes from."""

    departure: Place = Field(title="From")


class Day(BaseModel):
    date: datetime.date
    sky: Literal["sun", "clouds", "rain", "snow"]
    high: int
    low: int

    @property
    def is_wet(self) -> bool:
        return self.sky in ("rain", "snow")


class Weather(Result):
    MAKER = "Trip weather (`trip-weather`)"

    kind: Literal["weather"] = "weather"
    stay: Stay
    days: list[Day] = Field(min_length=1, max_length=20)


class Flight(Result):
    MAKER = "Trip flights (`trip-flights`)"

    kind: Literal["flight"] = "flight"
    number: Line = Field(max_length=20)
    departure: Place
    leaves: datetime.time
    arrives: datetime.time
    price: int


class Hotel(Result):
    MAKER = "Trip hotels (`trip-hotels`)"

    kind: Literal["hotel"] = "hotel"
    name: Line = Field(max_length=100)
    by: Line = Field(max_length=100)
    price: int


def day_name(day: datetime.date) -> str:
    return f"{day:%A}, {day.day} {day:%B}"


QUESTION = "Please fill in the form, or write a sentence such as “From Oslo, four nights in Lisbon from 3 May”."
NIGHTS = re.compile(rf"\b(\d{{1,3}}|{'|'.join(NUMBERS)})\s+nights?\b", re.IGNORECASE)
NAME_OF_PLACE = r"\s+((?:[A-Z][\w'’-]*)(?:\s[A-Z][\w'’-]*)*)"
CITY, DEPARTURE = re.compile(rf"\b(?:in|to|visit){NAME_OF_PLACE}"), re.compile(rf"\b[Ff]rom{NAME_OF_PLACE}")


def read_stay(text: str) -> dict[str, Any]:
    """The facts of a stay in a sentence such as “From Oslo, four nights in Lisbon from 3 May”."""
    known: dict[str, Any] = {}
    with suppress(ValueError):
        known |= {"arrival": day} if (day := day_in(text)) else {}
    rest = DAY.sub("", text)
    if found := CITY.search(rest):
        known["city"] = found[1]
    elif found := KNOWN_PLACE.search(rest):
        known["city"] = found[0].title()
    if found := DEPARTURE.search(rest):
        known["departure"] = found[1]
    if found := NIGHTS.search(rest):
        known["nights"] = NUMBERS.get(found[1].casefold(), found[1])
    return known


def stay_or_question[S: Stay](task: TaskContext, kind: type[S]) -> S | InputRequired:
    """The stay from a form, a sentence or JSON text, or the question for what is missing."""
    parts = [part for part in task.message.parts if not _is_result(part.get("data"))]
    is_sentence = not any("data" in part for part in parts) and not task.message.text.lstrip().startswith("{")
    if is_sentence:
        with suppress(ValidationError):
            return kind.model_validate(read_stay(task.message.text[:READ_CHARACTERS]))
        return InputRequired(QUESTION, slot=kind)
    try:
        return answer_in(Message.from_wire({**task.message.wire, "parts": parts}), kind)
    except NotAnswered as missing:
        return InputRequired(f"{missing} {QUESTION}", slot=kind)


def _is_result(value: Any) -> bool:
    return isinstance(value, dict) and "kind" in value


MEAN, SWING, WARMEST = 13.0, 9.0, 205  # °C, °C, and the day of the year
FREEZING = 1


def make_forecast(stay: Stay) -> Weather:
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


class TripAgent(SkillHandler):
    input_modes = ("text/plain", "application/json")
    output_modes: Sequence[str] = ("application/json", "text/plain")
    retry_safe = True


class TripWeather(TripAgent):
    """Makes up a forecast for a city and dates. It does not know the real weather."""

    name = "Trip weather"

    @skill(
        "forecast",
        name="Make up a forecast",
        tags=["weather", "trip", "demo"],
        examples=["Weather for four nights in Lisbon from 3 May"],
        output_modes=["application/json"],
    )
    async def forecast(self, task: TaskContext) -> Outcome:
        """A made-up forecast for each day of a stay. Needs the city, the arrival date and the number of nights."""
        stay = stay_or_question(task, Stay)
        if not isinstance(stay, Stay):
            return stay
        found = make_forecast(stay)
        wet = sum(day.is_wet for day in found.days)
        highs = [day.high for day in found.days]
        rain = "no rain" if not wet else f"rain or snow on {wet} of {len(found.days)} days"
        said = f"{stay.city}: {min(highs)} to {max(highs)} °C, {rain}. {MADE_UP}"
        return Completed(said, [handover.as_json(found)])


NOON = datetime.time(12)
OFFERED = 4


def flight_offers(journey: Journey) -> list[Flight]:
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


def best_flight(flights: list[Flight], weather: Weather) -> tuple[Flight, str]:
    early = [one for one in flights if one.arrives <= NOON]
    if early and not weather.days[0].is_wet:
        return early[0], "the cheapest that arrives by noon, as the first day will be dry"
    if early:
        return flights[0], "the cheapest, as the first day will be wet anyway"
    return flights[0], "the cheapest, as none arrives by noon"


class TripFlights(TripAgent):
    """Makes up flights for a trip and picks one that suits the weather. Nothing is looked up or booked."""

    name = "Trip flights"

    @skill(
        "pick-flight",
        name="Pick a made-up flight",
        tags=["flight", "trip", "demo"],
        examples=["A flight from Oslo, for four nights in Lisbon from 3 May"],
        output_modes=["application/json"],
    )
    async def pick_flight(self, task: TaskContext) -> Outcome:
        """Four made-up flights for a stay, and the one that suits the forecast of the first day."""
        weather = handover.needed(task, Weather)
        journey = stay_or_question(task, Journey)
        if not isinstance(journey, Journey):
            return journey
        flight, why = best_flight(flight_offers(journey), weather)
        times = f"{flight.leaves:%H:%M} to {flight.arrives:%H:%M}"
        said = f"{flight.number} from {flight.departure}, {times}, {flight.price} €: {why}."
        return Completed(f"{said} {MADE_UP}", [handover.as_json(flight)])


NAMES = ("Linden", "Harbour", "Old Post", "Two Bridges", "Swallow", "Copper", "Meridian", "Quiet House")
DRY, WET = ("by the park", "by the water"), ("by the museums", "by the station")


def hotel_offers(stay: Stay) -> list[Hotel]:
    """Made-up hotels, the cheapest first; prices are for the whole stay."""
    dice = stay.chance("hotels")
    names = dice.sample(NAMES, len(DRY + WET))
    hotels = [
        Hotel(name=f"Hotel {name}", by=by, price=stay.nights * dice.randint(70, 190))
        for name, by in zip(names, DRY + WET, strict=True)
    ]
    return sorted(hotels, key=lambda one: (one.price, one.name))


def best_hotel(hotels: list[Hotel], weather: Weather) -> tuple[Hotel, str]:
    wet = sum(day.is_wet for day in weather.days)
    is_wet = 2 * wet > len(weather.days)
    wanted = WET if is_wet else DRY
    why = f"the cheapest {' or '.join(wanted)}, as {wet} of {len(weather.days)} days will be wet"
    return next(one for one in hotels if one.by in wanted), why


class TripHotels(TripAgent):
    """Makes up hotels for a trip and picks one that suits the weather. Nothing is looked up or booked."""

    name = "Trip hotels"

    @skill(
        "pick-hotel",
        name="Pick a made-up hotel",
        tags=["hotel", "trip", "demo"],
        examples=["A hotel for four nights in Lisbon from 3 May"],
        output_modes=["application/json"],
    )
    async def pick_hotel(self, task: TaskContext) -> Outcome:
        """Four made-up hotels for a stay, and the one that suits the forecast."""
        weather = handover.needed(task, Weather)
        stay = stay_or_question(task, Stay)
        if not isinstance(stay, Stay):
            return stay
        hotel, why = best_hotel(hotel_offers(stay), weather)
        said = f"{hotel.name} {hotel.by}, {hotel.price} €: {why}."
        return Completed(f"{said} {MADE_UP}", [handover.as_json(hotel)])


NAME = "itinerary.md"
EVENING = datetime.time(17)
UNDER_A_ROOF = re.compile(
    r"museum|louvre|orsay|opera|pantheon|gallery|market|khan|factory|café|dome|rijks|aquarium", re.IGNORECASE
)


def sights(city: str) -> tuple[list[str], list[str]]:
    """The sights outdoors, and those indoors."""
    roofed = [one for one in sights_of(city) if UNDER_A_ROOF.search(one)]
    return [one for one in sights_of(city) if one not in roofed], roofed


def planned_days(weather: Weather, flight: Flight, hotel: Hotel) -> list[tuple[Day, list[str]]]:
    """A plan for each day. Repeats a sight only after all were visited."""
    open_air, roofed = sights(weather.stay.city)
    seen: list[str] = []
    days = []
    for at, day in enumerate(weather.days):
        is_first, is_last = at == 0, at == len(weather.days) - 1
        arrival = f"Arrive at {flight.arrives:%H:%M} with {flight.number}, and go to {hotel.name} {hotel.by}"
        steps = [arrival] if is_first else []
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
    stay = weather.stay
    lines = [
        f"# {stay.nights} nights in {escape(stay.city)}",
        f"Flight {escape(flight.number)} from {escape(flight.departure)}, {flight.price} €; {escape(hotel.name)} "
        f"{escape(hotel.by)}, {hotel.price} €; together {flight.price + hotel.price} €.",
        f"**{MADE_UP}**",
    ]
    for day, steps in planned_days(weather, flight, hotel):
        items = [f"- {escape(step)}" for step in steps]
        lines.append("\n".join([f"## {day_name(day.date)}: {day.sky}, {day.low} to {day.high} °C", "", *items]))
    return "\n\n".join(lines) + "\n"


def _next(wanted: Sequence[str], seen: list[str]) -> str:
    """The first of the least visited sights."""
    chosen = min(wanted, key=lambda one: (seen.count(one), wanted.index(one)))
    seen.append(chosen)
    return chosen[:1].upper() + chosen[1:]


class TripItinerary(TripAgent):
    """Combines weather, flight and hotel into a day-by-day plan. A demo that books nothing."""

    name = "Trip itinerary"
    output_modes = ("text/markdown", "text/plain")

    @skill(
        "write-itinerary",
        name="Write an itinerary",
        tags=["itinerary", "trip", "demo"],
        examples=["Write the itinerary"],
        input_modes=["application/json", "text/plain"],
        output_modes=["text/markdown"],
    )
    async def write_itinerary(self, task: TaskContext) -> Outcome:
        """Takes weather.json, flight.json and hotel.json and plans each day: outdoors when it is dry, indoors when it
        is not, and less on the day of a late arrival."""
        weather = handover.needed(task, Weather)
        flight, hotel = handover.needed(task, Flight), handover.needed(task, Hotel)
        page = as_markdown(weather, flight, hotel)
        stay = weather.stay
        price = f"{flight.price + hotel.price} € together"
        said = f"{stay.nights} nights in {stay.city} from {day_name(stay.arrival)}, {price}. {MADE_UP}"
        return Completed(said, [handover.document(NAME, page, description=f"A plan for {stay.city}")])
