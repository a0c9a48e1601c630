"""Where somebody stays and when, and what the agents of a trip hand each other."""

from __future__ import annotations

import datetime
import random
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from examples.handover import Line, Result

MADE_UP = "A demonstration: it is made up from the city and the dates, nothing is looked up and nothing is booked."

Place = Annotated[Line, Field(min_length=2, max_length=60)]


class Stay(BaseModel):
    """The question for a stay: agents ask with this form where a message says no such thing."""

    city: Place = Field(title="City")
    arrival: datetime.date = Field(title="Arrival")
    nights: int = Field(title="Nights", ge=1, le=14)

    def chance(self, about: str) -> random.Random:
        """Dice that fall the same way for the same stay."""
        return random.Random(f"{about}|{self.city.casefold()}|{self.arrival}|{self.nights}")  # noqa: S311 - no secrets

    @property
    def days(self) -> list[datetime.date]:
        """From the day of arrival to that of departure."""
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


def on(day: datetime.date) -> str:
    """A day as people write it."""
    return f"{day:%A}, {day.day} {day:%B}"
