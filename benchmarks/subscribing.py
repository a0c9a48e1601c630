"""The cost of idle subscribers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from benchmarks.figures import Figures
from benchmarks.scale import Scale
from benchmarks.target import Target

OPENING = 50  # subscriptions opened at once
SETTLING_SECONDS = 3.0  # more than the feed's poll interval, to include its cost


async def idle(target: Target, scale: Scale) -> Figures:
    """As many SubscribeToTask streams as the scale says, each of its own waiting task."""
    tasks = await _waiting_tasks(target, scale.subscribers)
    async with AsyncExitStack() as stack:
        await _subscribe(target, stack, tasks[:OPENING])  # excludes threads and buffers of the first streams
        before = await _look(target)
        await _subscribe(target, stack, tasks[OPENING:])
        await asyncio.sleep(SETTLING_SECONDS)
        after = await _look(target)
    subscribers = len(tasks) - OPENING
    return {
        "kB a subscriber": (after[0] - before[0]) / subscribers,
        "threads before": before[1],
        "threads after": after[1],
        "database connections before": before[2],
        "database connections after": after[2],
    }


async def _waiting_tasks(target: Target, count: int) -> list[str]:
    async def some(how_many: int) -> list[str]:
        async with target.client() as client:
            return [(await client.send("bench-waiting"))["id"] for _ in range(how_many)]

    made = await asyncio.gather(*(some(-(-(count + OPENING) // 8)) for _ in range(8)))
    return [task for tasks in made for task in tasks][: count + OPENING]


async def _subscribe(target: Target, stack: AsyncExitStack, tasks: list[str]) -> None:
    """Open a stream for each task and read its first event; `stack` holds the connections."""
    for at in range(0, len(tasks), OPENING):
        some = tasks[at : at + OPENING]
        clients = [await stack.enter_async_context(target.client()) for _ in some]
        streams = [client.subscribe("bench-waiting", task) for client, task in zip(clients, some, strict=True)]
        for stream in streams:
            stack.push_async_callback(stream.aclose)
        for first in await asyncio.gather(*(anext(stream) for stream in streams)):
            assert b"TASK_STATE_INPUT_REQUIRED" in first, first


async def _look(target: Target) -> tuple[float, int, int]:
    return target.resident_kilobytes(), target.threads(), await asyncio.to_thread(target.database_connections)
