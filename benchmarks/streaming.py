"""Time to the first event of a stream."""

from __future__ import annotations

import time

from benchmarks.figures import Figures, latencies
from benchmarks.scale import Scale
from benchmarks.target import Target


async def first_event(target: Target, scale: Scale) -> Figures:
    """SendStreamingMessage to `echo`: until the first event (task) and the last (completed)."""
    first, last = [], []
    async with target.client() as client:
        for _ in range(scale.streams + 1):
            began = time.perf_counter()
            times = [time.perf_counter() - began async for _ in client.send_streaming("echo")]
            first.append(times[0])
            last.append(times[-1])
    return latencies(first[1:], "first event", 50, 95) | latencies(last[1:], "completed", 50, 95)
