"""Questions as plain code: the Travel agent asks for missing facts, then for a key to pay with, and plans the trip.

Each question is a Pydantic model. The model makes the form, reads the answer, and explains errors.
"""

from __future__ import annotations

import datetime
import re
from enum import Enum
from typing import Annotated, Any

import dateparser
from dateparser.search import search_dates
from pydantic import BaseModel, BeforeValidator, Field

from agentkit import Artifact, AuthRequired, Completed, InputRequired, Outcome, Skill, SkillHandler, TaskContext
from examples.pages import escape
from examples.texts import counted

SERVICE = "payments"
DEMONSTRATION = "This is a demo: nothing is booked and nothing is paid."
PAYMENT = (
    "{trip} To reserve it, I need a key for the service “payments”. Make one up; don't use a real one. "
    f"{DEMONSTRATION} If you don't want to, decline and write “without payment”. I will remember the trip."
)
DAYS_AHEAD = 730
READ_CHARACTERS = 2000  # longer texts are cut

NUMBERS = {
    word: at for at, word in enumerate(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"], 1)
}
MONTHS = {
    name: at
    for at, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
DAY = re.compile(rf"\b(\d{{1,2}})\.?\s+({'|'.join(MONTHS)})[a-z]*(?:,?\s+(\d{{4}}))?\b", re.IGNORECASE)
RELATIVE_DAY = re.compile(
    r"\b(?:today|tomorrow|next|(?:mon|tues|wednes|thurs|fri|satur|sun)day|in \w+ (?:day|week|month)s?)\b", re.IGNORECASE
)
"""Words that name a day for sure, unlike “may” and “sat”."""
ISO_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b")
NUMBER = re.compile(rf"-?\d{{1,9}}|\b(?:{'|'.join(NUMBERS)})\b")
PEOPLE = re.compile(
    rf"\b(?:for\s+)?(\d{{1,4}}|{'|'.join(NUMBERS)})\s+(?:of us|people|persons?|travell?ers?|adults?)\b", re.IGNORECASE
)
TO_PLACE = re.compile(r"\b(?:to|visit)\s+((?:[A-Z][\w'’-]*\s?)+)")
WITHOUT_PAYMENT = re.compile(r"\b(?:without|no)\s+(?:any\s+)?pay(?:ment|ing)\b", re.IGNORECASE)


def read_day(value: object) -> object:
    """A date such as 2027-05-03, 3 May or next Monday. Raises ValueError if it is not possible."""
    if not isinstance(value, str):
        return value
    day, today = day_in(value), datetime.date.today()
    if day is None:
        raise ValueError("I did not find a date. Write it like 3 May, 2027-05-03 or “next Monday”")
    shown = f"{day.day} {day:%B %Y}"
    if day < today:
        raise ValueError(f"{shown} is in the past")
    if (day - today).days > DAYS_AHEAD:
        raise ValueError(f"{shown} is more than two years away; choose an earlier date")
    return day


def day_in(text: str) -> datetime.date | None:
    """The day; without a year, the next such day. Raises ValueError for impossible days."""
    today = datetime.date.today()
    if found := ISO_DAY.search(text):
        return datetime.date.fromisoformat(found[0])
    if not (found := DAY.search(text)):
        return _day_in_words(text, today)
    month = MONTHS[found[2][:3].casefold()]
    years = [int(found[3])] if found[3] else range(today.year, today.year + 5)
    for year in years:
        try:
            day = datetime.date(year, month, int(found[1]))
        except ValueError:
            continue
        if found[3] or day >= today:
            return day
    raise ValueError(f"There is no {found[0]}")


def _day_in_words(text: str, today: datetime.date) -> datetime.date | None:
    """The day of “next Monday”, “May 3rd” or “in two weeks”."""
    start = datetime.datetime.combine(today, datetime.time())
    how: Any = {"languages": ["en"], "settings": {"PREFER_DATES_FROM": "future", "RELATIVE_BASE": start}}
    for words in (text, *(found for found, _ in search_dates(text, **how) or ())):
        is_day = RELATIVE_DAY.search(words) or (re.search(r"\d", words) and not NUMBER.fullmatch(words.strip()))
        if is_day and (found := dateparser.parse(words, **how)):
            return datetime.date(found.year, found.month, found.day)
    return None


def read_number(value: object) -> object:
    """A number in figures or as a word."""
    if not isinstance(value, str):
        return value
    found = NUMBER.search(value.casefold())
    return NUMBERS.get(found[0], found[0]) if found else value


class Destination(BaseModel):
    """Where to?"""

    destination: str = Field(title="Destination", min_length=2, max_length=60)


class Departure(BaseModel):
    """When?"""

    date: Annotated[datetime.date, BeforeValidator(read_day)] = Field(title="Date")


class Travellers(BaseModel):
    """For how many?"""

    travellers: Annotated[int, BeforeValidator(read_number)] = Field(title="Travelers", ge=1, le=9)


class Step(Enum):
    """What the agent waits for besides facts of the trip."""

    PAYMENT = "payment"


QUESTIONS: dict[type[BaseModel], str] = {
    Destination: "Where would you like to go?",
    Departure: "When would you like to be in {destination}? A date such as 3 May, or “next Monday”.",
    Travellers: "How many people will travel? I plan for one to nine.",
}

type Trip = dict[str, Any]
"""The fields of the questions that have been answered, as JSON values."""


def read_trip(text: str) -> Trip:
    """The facts of a trip in a message such as “Two of us to Lisbon on 3 May”. Leaves out impossible values."""
    text = text[:READ_CHARACTERS]
    known: Trip = {}
    if place := KNOWN_PLACE.search(text):
        known["destination"] = place[0].title()
    elif place := TO_PLACE.search(text):
        known["destination"] = place[1].strip()
    if people := PEOPLE.search(text):
        known["travellers"] = people[1]
    if ISO_DAY.search(text) or DAY.search(text) or RELATIVE_DAY.search(text):
        known["date"] = text
    sound: Trip = {}
    for question in QUESTIONS:
        try:
            sound |= question.model_validate(known).model_dump(mode="json")
        except ValueError:
            continue
    return sound


class Travel(SkillHandler):
    """Plans a trip: asks where to go, when, and for how many people, then how to pay. A demo that books nothing."""

    name = "Travel"
    skills = (
        Skill(
            "plan-a-trip",
            "Plan a trip",
            "Asks for the destination, the date and the number of travelers if you did not say them, then for a key to "
            "pay with, and plans three days. A demo: nothing is booked or paid.",
            tags=["travel", "booking", "questions", "credentials", "demo"],
            examples=["I want to go away", "Two of us to Lisbon on 3 May", "Without payment", "Book a flight"],
            output_modes=["text/markdown"],
        ),
    )
    output_modes = ("text/markdown", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        said = read_trip(task.message.text)
        for value in task.message.data:
            said |= {key: value[key] for key in ("destination", "date", "travellers") if key in value}
        # “Without payment” after a declined key, or “five people” after a plan, changes the previous trip.
        goes_on = (task.references and said) or WITHOUT_PAYMENT.search(task.message.text)
        return await self._go_on(task, (task.session.memory.get("trip", {}) if goes_on else {}) | said)

    async def on_input_received(self, task: TaskContext) -> Outcome:
        asked = next((one for one in QUESTIONS if one.__name__ == task.slot), None)
        answered = read_trip(task.message.text)  # the answer may say more than was asked
        if asked and not answered:
            answered = task.answer_as(asked).model_dump(mode="json")  # an invalid answer is asked for again
        return await self._go_on(task, task.memory["trip"] | answered)

    async def _go_on(self, task: TaskContext, trip: Trip) -> Outcome:
        """Ask for what is still missing, or plan."""
        task.memory["unpaid"] = task.memory.get("unpaid") or bool(WITHOUT_PAYMENT.search(task.message.text))
        task.memory["trip"] = task.session.memory["trip"] = trip
        for question, asking in QUESTIONS.items():
            if not trip.keys() >= question.model_fields.keys():
                return InputRequired(asking.format(**trip), slot=question)
        if task.memory["unpaid"]:
            return await self._plan(task, trip, "You would pay on arrival.")
        if await task.credential(SERVICE) is None:
            return AuthRequired(PAYMENT.format(trip=_sentence(trip)), service=SERVICE, slot=Step.PAYMENT)
        return await self._plan(task, trip, "It would be paid with your key.")

    async def _plan(self, task: TaskContext, trip: Trip, payment: str) -> Completed:
        place = trip["destination"]
        await task.progress(f"Planning three days in {place}…")
        page = as_markdown(trip, f"{payment} {DEMONSTRATION}")
        plan = Artifact.text("itinerary.md", page, "text/markdown", description=f"Three days in {place}")
        return Completed(f"{_sentence(trip)} {payment} {DEMONSTRATION}", [plan])


def _sentence(trip: Trip) -> str:
    day = datetime.date.fromisoformat(trip["date"])
    travellers = counted(trip["travellers"], "traveler")
    return f"Three days in {trip['destination']} for {travellers}, from {day:%A}, {day.day} {day:%B %Y}."


def as_markdown(trip: Trip, note: str) -> str:
    place, first = trip["destination"], datetime.date.fromisoformat(trip["date"])
    rooms = counted((trip["travellers"] + 1) // 2, "room")
    lines = [f"# Three days in {escape(place)}", f"For {counted(trip['travellers'], 'traveler')}, {rooms}. **{note}**"]
    sights = sights_of(place)
    for at in range(3):
        day = first + datetime.timedelta(at)
        morning, afternoon = sights[2 * at : 2 * at + 2]
        lines.append(f"## {day:%A}, {day.day} {day:%B}\n\n- In the morning: {morning}\n- In the afternoon: {afternoon}")
    return "\n\n".join(lines) + "\n"


PLACES = {
    city: sights.split(", ")
    for city, sights in {
        "Berlin": "the Museum Island, the Tiergarten, the Tempelhofer Feld, the Reichstag dome, Kreuzberg, a lake",
        "Cairo": "the Egyptian Museum, Khan el-Khalili, the pyramids, Al-Azhar Park, Coptic Cairo, a boat on the Nile",
        "Kyoto": "Fushimi Inari, Gion, the bamboo of Arashiyama, Nishiki Market, Kinkaku-ji, the Philosopher's Path",
        "Lisbon": "Alfama on foot, the castle, Belém and its tower, the LX Factory, tram 28, Cacilhas by ferry",
        "London": "the British Museum, the South Bank, Greenwich by boat, Borough Market, Kew Gardens, Hampstead Heath",
        "Oslo": "the Opera's roof, Vigeland Park, the Fram Museum, an island of the fjord, the Munch Museum, a ferry",
        "Paris": "the Louvre, the Marais, Montmartre, the Canal Saint-Martin, the Musée d'Orsay, the Buttes-Chaumont",
        "Rome": "the Forum, Trastevere, the Vatican Museums, the Janiculum, the Pantheon, the Appian Way",
    }.items()
}
ANYWHERE = ["the old town on foot", "the museum", "the market", "the largest park", "a place by the water", "a café"]
KNOWN_PLACE = re.compile(rf"(?<!from )\b(?:{'|'.join(PLACES)})\b", re.IGNORECASE)


def sights_of(city: str) -> list[str]:
    return PLACES.get(city.strip().title(), ANYWHERE)
