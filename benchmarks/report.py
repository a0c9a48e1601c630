"""Results as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence

from benchmarks.figures import shown
from benchmarks.rounds import Result

WIDTH = 20


def machine() -> dict[str, str | int | float]:
    return {
        "processors": os.cpu_count() or 0,
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def table(results: Sequence[Result], names: Sequence[str]) -> str:
    lines = []
    for result in results:
        title = f"{result.benchmark.title} ({result.rounds} round{'s' if result.rounds > 1 else ''})"
        lines += ["", f"{title:<50}" + "".join(f"{name:>{WIDTH}}" for name in names)]
        for figure in next(iter(result.medians.values())):
            values = (shown(found[figure]) if (found := result.medians.get(name)) else "" for name in names)
            lines.append(f"  {figure:<48}" + "".join(f"{value:>{WIDTH}}" for value in values))
    return "\n".join(lines)


def as_json(machine: Mapping[str, object], results: Sequence[Result]) -> str:
    medians = {result.benchmark.name: {"rounds": result.rounds, **result.medians} for result in results}
    return json.dumps({"machine": machine, "medians": medians}, indent=2) + "\n"
