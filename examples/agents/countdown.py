"""An agent that works for a while: it streams, asks a question if necessary, and can be stopped."""

import asyncio
import math
import re

from agentkit import Artifact, Completed, InputRequired, Message, Skill, SkillHandler, TaskContext

DEFAULT = 10
HIGHEST = 10_000
SECONDS_BETWEEN = 0.05

# A hyphen that joins words ("T-10") is not a minus. Commas may group thousands.
NUMBER = re.compile(r"((?<!\w)[-−])?(\d{1,3}(?:,\d{3})+(?!\d)|\d+)")

START = {"type": "integer", "title": "Count down from", "minimum": 0, "maximum": HIGHEST, "default": DEFAULT}


class Countdown(SkillHandler):
    """Counts down from a number, twenty steps a second, and can be stopped on the way."""

    name = "Countdown"
    skills = (
        Skill(
            "countdown",
            "Countdown",
            "Counts down from the first number in the text, or from ten, one line at a time.",
            tags=["countdown", "streaming", "demo"],
            examples=["Count down from 20", "100"],
        ),
    )
    time_limit = 900.0

    async def on_request(self, task: TaskContext) -> Completed | InputRequired:
        start = _number(task.message)
        return await self._count(task, DEFAULT if start is None else start)

    async def on_input_received(self, task: TaskContext) -> Completed | InputRequired:
        start = _number(task.message)
        if start is None:
            return InputRequired(f"Please send a whole number from 0 to {HIGHEST:,}.", slot="start", schema=START)
        return await self._count(task, start)

    async def _count(self, task: TaskContext, start: int) -> Completed | InputRequired:
        if not 0 <= start <= HIGHEST:
            question = f"I count down from 0 to {HIGHEST:,} steps. Which number shall I start from?"
            return InputRequired(question, slot="start", schema=START)
        if start == 0:
            return Completed("Lift-off.", [Artifact.text("countdown", "0\n")])
        countdown = task.artifact("countdown")
        for number in range(start, 0, -1):
            await countdown.append(f"{number}\n", last=number == 1)
            if number > 1:
                await asyncio.sleep(SECONDS_BETWEEN)
        return Completed("Lift-off.")


def _number(message: Message) -> int | None:
    """The first number in the message, from a form (`{"start": 5}`) or from its text."""
    for value in message.data:
        candidate = value.get("start") if isinstance(value, dict) else value
        if isinstance(candidate, int | float) and math.isfinite(candidate) and not isinstance(candidate, bool):
            return int(candidate)
        if isinstance(candidate, str):
            return _first_number(candidate)
    return _first_number(message.text)


def _first_number(text: str) -> int | None:
    found = NUMBER.search(text)
    if not found:
        return None
    digits = found[2].replace(",", "").lstrip("0") or "0"
    # Numbers with more digits are far out of range anyway.
    number = int(digits[:9])
    return -number if found[1] else number
