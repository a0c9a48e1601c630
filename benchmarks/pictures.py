"""Pictures of a plan: layout and templates, in a process of their own.

`python -m benchmarks.pictures STEPS ROUNDS` prints figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable

from benchmarks.figures import Figures
from benchmarks.scale import Scale
from benchmarks.target import Target


async def draw(target: Target, scale: Scale) -> Figures:
    found = await asyncio.to_thread(
        target.inside.python, "-m", "benchmarks.pictures", str(scale.steps), str(scale.pictures)
    )
    figures: Figures = json.loads(found.stdout.strip().splitlines()[-1])
    return figures


def measured(steps: int, rounds: int) -> Figures:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
    django.setup()
    from django.template.loader import render_to_string

    from apps.plans import pictures
    from benchmarks import plans

    boxes, now = plans.boxes(steps), plans.BEGAN
    ways: dict[str, Callable[[], str]] = {
        "graph": lambda: render_to_string("plans/_graph.html", {"graph": pictures.draw_graph(boxes)}),
        "in time": lambda: render_to_string("plans/_gantt.html", {"gantt": pictures.draw_gantt(boxes, now)}),
    }
    figures: Figures = {}
    for title, way in ways.items():
        way()
        figures[f"{title} of {steps} steps, p50 ms"] = statistics.median(_took(way) for _ in range(rounds))
    return figures


def _took(way: Callable[[], str]) -> float:
    began = time.perf_counter()
    way()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    print(json.dumps(measured(*map(int, sys.argv[1:]))))
