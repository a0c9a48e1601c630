"""What a message says of a trip: a date, a number of travellers, a place; and what of it cannot be."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agentkit import Message
from examples.agents.travel.dates import NOT_A_PLACE, NoSuchDay, find_date
from examples.agents.travel.places import PLACES
from examples.agents.travel.trip import DAYS_AHEAD, MOST_TRAVELLERS, Departure, Destination, Question, Travellers
from examples.prose import cut, words

READ = 2000  # characters; a longer text says no more of a trip
SHOWN = 60  # characters of what is not understood
LONGEST_PLACE = 60  # characters

NUMBERS = {
    word: number
    for number, word in enumerate(words("one two three four five six seven eight nine ten eleven twelve"), 1)
}
NUMBER = rf"[-−]?\d{{1,9}}|{'|'.join(NUMBERS)}"
PEOPLE = r"of\s+us|people|persons?|travell?ers?|adults?|children|child|kids?|guests?|passengers?|friends"
OF_PEOPLE = re.compile(rf"(?<![\w.])({NUMBER})\s+(?:{PEOPLE})\b", re.IGNORECASE)
FOR_PEOPLE = re.compile(
    rf"\b(?:for|we\s+are|(?:family|party|group)\s+of)\s+({NUMBER})\b(?!\s*(?:days?|nights?|weeks?|months?))",
    re.IGNORECASE,
)
ALONE = re.compile(r"\b(?:alone|by\s+myself|on\s+my\s+own|just\s+me|only\s+me)\b", re.IGNORECASE)
A_PAIR = re.compile(r"\b(?:me\s+and\s+my\s+\w+|my\s+\w+\s+and\s+(?:I|me)|both\s+of\s+us|a\s+couple)\b", re.IGNORECASE)
BARE_NUMBER = re.compile(rf"(?<![\w.])({NUMBER})(?![\w])", re.IGNORECASE)

KNOWN_PLACE = re.compile(rf"(?<!from )\b(?:{'|'.join(PLACES)})\b", re.IGNORECASE)
GOING_TO = re.compile(r"\b(?:to|visit|in)\s+(?=((?:[^\W\d_][\w'’.-]*\s*){1,4}))")
BEFORE_A_PLACE = re.compile(
    r"^(?:i|we|would|like|want|to|go|travel|visit|let's|maybe|perhaps|in|please|\s|,)+\b", re.IGNORECASE
)
WITHOUT_PAYMENT = re.compile(r"\b(?:without|no)\s+(?:any\s+)?(?:payment|paying)\b|\bpay\s+later\b", re.IGNORECASE)


@dataclass(frozen=True)
class Problem:
    """What cannot be: why, for the person, and the question to ask again."""

    why: str
    slot: Question


class _Unfit(ValueError):
    """The text says why, and what to say instead."""


def heard(message: Message, asked: str | None, today: datetime.date) -> tuple[dict[str, Any], Problem | None]:
    """What is known from a message, and the first thing in it that cannot be, or that does not answer the question.

    Args:
        asked: the name of the question that the message answers, if it answers one.
    """
    known: dict[str, Any] = {}
    problems: list[Problem] = []
    for text, question in _said(message, asked):
        found, problem = _read(text, question, today)
        known |= found
        problems += [problem] if problem else []
    return known, problems[0] if problems else None


def wants_no_payment(text: str) -> bool:
    """Does somebody say that they will not pay now?"""
    return WITHOUT_PAYMENT.search(text) is not None


def _said(message: Message, asked: str | None) -> Iterator[tuple[str, Question | None]]:
    """The texts of a message, each with the question that it answers: what a form sends, and what was written."""
    by_field = {field: question for question in _READERS for field in question.model_fields}
    filled = [value for value in message.data if isinstance(value, dict)]
    yield from ((str(form[field]), by_field[field]) for form in filled for field in by_field if field in form)
    if message.text.strip() or not filled:
        yield message.text[:READ], next((one for one in _READERS if one.__name__ == asked), None)


def _read(text: str, asked: Question | None, today: datetime.date) -> tuple[dict[str, Any], Problem | None]:
    """What one text says. What was asked for may be said in fewer words than what was not."""
    known: dict[str, Any] = {}
    problem: Problem | None = None
    rest = text
    for question, read in _READERS.items():
        try:
            value, rest = read(rest, today)
            known |= {field: value for field in question.model_fields if value is not None}
        except _Unfit as unfit:
            problem = problem or Problem(str(unfit), question)
    if asked is None or problem or known.keys() & asked.model_fields.keys():
        return known, problem
    try:
        return known | _answer(asked, rest), None
    except _Unfit as unfit:
        return known, None if known else Problem(str(unfit), asked)


def _answer(asked: Question, rest: str) -> dict[str, Any]:
    """What is left of a text, as the answer to the question. Raises _Unfit."""
    if asked is Travellers:
        return {"travellers": _bare_number(rest)}
    if asked is Destination:
        return {"destination": _any_place(rest)}
    raise _Unfit(f"I find no date in “{cut(rest, SHOWN)}”. Write it like 3 May, 2027-05-03 or “next Friday”.")


def _date(text: str, today: datetime.date) -> tuple[datetime.date | None, str]:
    try:
        found = find_date(text, today)
    except NoSuchDay as none:
        raise _Unfit(f"{none} When would you like to travel?") from None
    if found is None:
        return None, text
    day, rest = found
    shown = f"{day.day} {day:%B %Y}"
    if day < today:
        raise _Unfit(f"{shown} is over. Which day from today on shall it be?")
    if (day - today).days > DAYS_AHEAD:
        raise _Unfit(f"{shown} is more than two years away, and I plan no further. Which earlier day shall it be?")
    return day, rest


def _travellers(text: str, today: datetime.date) -> tuple[int | None, str]:
    for pattern in (OF_PEOPLE, FOR_PEOPLE):
        if numbers := [_number(found[1]) for found in pattern.finditer(text)]:
            return _possible(sum(numbers)), pattern.sub(" ", text)
    for pattern, number in ((ALONE, 1), (A_PAIR, 2)):
        if pattern.search(text):
            return number, pattern.sub(" ", text)
    return None, text


def _bare_number(text: str) -> int:
    numbers = BARE_NUMBER.findall(text)
    if not numbers:
        raise _Unfit(f"I find no number of travellers in “{cut(text, SHOWN)}”. Write one from 1 to {MOST_TRAVELLERS}.")
    if len(numbers) > 1:
        raise _Unfit(f"There are several numbers in “{cut(text, SHOWN)}”. How many of you will travel?")
    return _possible(_number(numbers[0]))


def _possible(number: int) -> int:
    if number < 1:
        raise _Unfit("Somebody has to travel. How many of you, from one to nine?")
    if number > MOST_TRAVELLERS:
        raise _Unfit(f"I plan for at most {MOST_TRAVELLERS} travellers, not for {number:,}. How many shall I plan for?")
    return number


def _place(text: str, today: datetime.date) -> tuple[str | None, str]:
    if found := KNOWN_PLACE.search(text):
        return next(place for place in PLACES if place.casefold() == found[0].casefold()), text
    named = (_capitalised(found[1]) for found in GOING_TO.finditer(text))
    return next(filter(None, named), None), text


def _any_place(text: str) -> str:
    place = " ".join(BEFORE_A_PLACE.sub("", text.strip()).strip(" .,!?").split())
    if sum(letter.isalpha() for letter in place) < 2 or len(place) > LONGEST_PLACE:
        raise _Unfit(f"I do not recognise a place in “{cut(text, SHOWN)}”. Which city would you like to see?")
    return place


_READERS: dict[Question, Callable[[str, datetime.date], tuple[Any, str]]] = {
    Departure: _date,
    Travellers: _travellers,
    Destination: _place,
}


def _number(text: str) -> int:
    return NUMBERS.get(text.casefold()) or int(text.replace("−", "-"))


def _capitalised(words: str) -> str:
    """The words that a place's name may consist of: those up to the first that does not begin with a capital."""
    name: list[str] = []
    for word in words.split():
        if not word[0].isupper() or word.casefold().strip(".") in NOT_A_PLACE:
            break
        name.append(word)
    return " ".join(name).rstrip(".")
