"""`./manage.py serve`: time to the first answer."""

from __future__ import annotations

import asyncio
import time

from benchmarks.figures import Figures
from benchmarks.scale import Scale
from benchmarks.target import Target
from tests import stack


async def start(target: Target, scale: Scale) -> Figures:
    """The first start also makes the database; the second finds it."""
    return await asyncio.to_thread(_start_twice)


def _start_twice() -> Figures:
    with stack.prepared(services={}) as fresh:
        (fresh.data_dir / "static").unlink()  # forces its own collection
        first = _seconds_to_start(fresh)
        fresh.terminate()
        return {"first start s": first, "later start s": _seconds_to_start(fresh)}


def _seconds_to_start(fresh: stack.Stack) -> float:
    began = time.perf_counter()
    fresh.launch("serve")
    fresh.wait_for("/readyz")
    return time.perf_counter() - began
