"""How the states of steps look and what they are called; words that are cut to the room they have."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """A sign of the sprite `static/icons.svg`, which is also the colour, and the word beside it."""

    sign: str
    word: str


LOOKS = {
    "waiting": Look("none", "Waits"),
    "starting": Look("working", "Starting"),
    "running": Look("working", "Working"),
    "asking": Look("waiting", "Asks"),
    "ended": Look("working", "Being checked"),
    "done": Look("done", "Done"),
    "failed": Look("failed", "Failed"),
    "skipped": Look("canceled", "Skipped"),
    "canceled": Look("canceled", "Stopped"),
}
"""By `Step.State`. A step of a plan that does not run has none."""

FOREMOST = ("asking", "running", "starting", "ended", "failed", "waiting", "canceled", "skipped", "done")
"""Which of the states of many is that of all: what somebody should know first."""

IN_BARS = ("done", "running", "asking", "failed", "canceled", "waiting")
"""In this order, left to right, states stand in a bar."""

LIKE = {"starting": "running", "ended": "running", "skipped": "canceled"}
"""States that a bar does not tell from others."""


def look_of(state: str) -> Look:
    """Of a state that is not known, too: nothing breaks over a new one."""
    return LOOKS.get(state) or Look("none", state.capitalize())


def foremost(states: set[str]) -> str:
    """The state of all, of the states of several."""
    return next((state for state in FOREMOST if state in states), "")


def shortened(text: str, room: float) -> str:
    """As much of a text as has room, in widths of an average small letter; with an ellipsis where it is cut."""
    text = " ".join(text.split())
    taken = 0.0
    for at, letter in enumerate(text):
        taken += _width(letter)
        if taken > room:
            kept = text[: max(at - 1, 1)].rstrip()
            return f"{kept}…"
    return text


def _width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.9
    return 1.3 if letter.isupper() or letter in "mw@%" else 0.55 if letter in "ijlft.,:;'|!()[] " else 1.0
