"""GetTask, and ListTasks with few and many tasks."""

from __future__ import annotations

from benchmarks.figures import Figures, latencies
from benchmarks.load import timed
from benchmarks.scale import Scale
from benchmarks.target import Target


async def get(target: Target, scale: Scale) -> Figures:
    async with target.client() as client:
        task = await client.send("echo")
    params = {"id": task["id"]}
    seconds, _ = await timed(target, lambda client: client.call("echo", "GetTask", params), count=scale.reads)
    return latencies(seconds, "GetTask", 50, 95)


def fill(target: Target, scale: Scale) -> None:
    target.run("benchmarks.rows", "tasks", "bench-few", str(scale.few))
    target.run("benchmarks.rows", "tasks", "bench-many", str(scale.many))


async def page(target: Target, scale: Scale) -> Figures:
    figures: Figures = {}
    for slug, count in (("bench-few", scale.few), ("bench-many", scale.many)):
        seconds, _ = await timed(target, lambda client, at=slug: client.call(at, "ListTasks", {}), count=scale.reads)
        figures |= latencies(seconds, f"of {count:,} tasks", 50, 95)
    return figures
