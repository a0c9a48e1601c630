"""A trip, and the questions that lead to one: each question is a model of one field, which people get as a form."""

from __future__ import annotations

import datetime
import hashlib

from pydantic import BaseModel, Field

from examples.prose import counted

MOST_TRAVELLERS = 9
DAYS_AHEAD = 730


class Destination(BaseModel):
    """Where to?"""

    destination: str = Field(title="Destination", min_length=2, max_length=60)


class Departure(BaseModel):
    """When?"""

    date: datetime.date = Field(title="Date")


class Travellers(BaseModel):
    """For how many?"""

    travellers: int = Field(title="Travellers", ge=1, le=MOST_TRAVELLERS)


type Question = type[Destination] | type[Departure] | type[Travellers]

QUESTIONS: dict[Question, str] = {
    Destination: "Where would you like to go?",
    Departure: "When would you like to be in {trip.destination}? A date such as 3 May, or “next Friday”.",
    Travellers: "How many of you will travel? I plan for one to nine.",
}


class Trip(BaseModel):
    """What is known of a trip so far."""

    destination: str = ""
    date: datetime.date | None = None
    travellers: int = 0

    @property
    def missing(self) -> Question | None:
        """What to ask for next."""
        if not self.destination:
            return Destination
        if self.date is None:
            return Departure
        return None if self.travellers else Travellers

    @property
    def day(self) -> str:
        """The first day, as people write it."""
        return f"{self.date:%A}, {self.date.day} {self.date:%B %Y}" if self.date else ""

    @property
    def sentence(self) -> str:
        """The trip in a sentence."""
        return f"Three days in {self.destination} for {counted(self.travellers, 'traveller')}, from {self.day}."

    @property
    def number(self) -> str:
        """A short mark, the same for the same trip."""
        told = f"{self.destination}|{self.date}|{self.travellers}"
        return hashlib.sha256(told.encode()).hexdigest()[:6].upper()
