"""A deterministic plan of many steps, for pictures."""

from __future__ import annotations

import datetime
import random

from apps.plans.pictures import Spell, StepBox

BEGAN = datetime.datetime(2026, 5, 4, 12, tzinfo=datetime.UTC)
STATES = ("done", "done", "done", "failed", "running", "asking", "waiting")


def boxes(count: int, seed: int = 8) -> list[StepBox]:
    """Steps that each depend on up to three of the previous twenty, and have worked twice."""
    chance, of_times = random.Random(seed), random.Random(seed)
    made: list[StepBox] = []
    for number in range(count):
        before = tuple(f"step_{one}" for one in range(max(0, number - 20), number))
        needed = tuple(sorted(set(chance.choices(before, k=chance.randint(1, 3))))) if before else ()
        state = chance.choice(STATES)
        took = datetime.timedelta(seconds=chance.uniform(1, 500))
        question = "Which of these sources may be used?" if state == "asking" else ""
        key, title = f"step_{number}", f"Look at <part> {number} & write it up"
        spells = _spells(of_times)
        made.append(StepBox(key, title, state, "researcher", took, question, f"/tasks/{number}", needed, spells=spells))
    return made


def _spells(chance: random.Random) -> list[Spell]:
    """Three intervals: waiting, failed, done."""
    at = BEGAN + datetime.timedelta(seconds=chance.uniform(0, 4000))
    times = sorted(at + datetime.timedelta(seconds=chance.uniform(10, 100) * number) for number in range(4))
    states = zip(("waiting", "failed", "done"), times, times[1:], (1, 1, 2), strict=False)
    return [Spell(*spell) for spell in states]
