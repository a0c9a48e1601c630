"""One workspace's flood: how long another workspace's first task then takes.

Of two agents, each with 50 ms a task. `bench-waits` may have one run at work, by its limit, so turns are scarce and
processors are not. `bench-works` computes, so the worker's processor is scarce.

`python -m benchmarks.flood URL KEY AGENT A_SECOND PRIORITY` is the flood: it sends messages at a steady rate until its
input ends, and waits for no task. `python -m benchmarks.flood limit` sets that limit in this installation, and
`python -m benchmarks.flood drain` says how many runs are queued, and removes them.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

import django
import uvloop

from benchmarks.crowd import user_key
from benchmarks.figures import Figures, latencies
from benchmarks.load import timed
from benchmarks.rpc import Client, said
from benchmarks.scale import Scale
from benchmarks.target import Target

WAITS, WORKS = "bench-waits", "bench-works"
BUSY = 0.9  # of what the worker can do
FLOOD = 10  # times that
AT_ONCE = 16  # sends
SETTLING_SECONDS = 4.0  # until the queue is deep
DRAIN_SECONDS = 60.0  # until the runs at work have ended
REFRESH_SECONDS = 6.0  # until all processes know a limit
PAUSE_SECONDS = 0.2  # between the measured tasks, so that each is the only one of its workspace
ROUNDS = 2  # of each condition, alternating


async def flood(url: str, key: str, agent: str, a_second: float, priority: str) -> None:
    """Keep the rate if the server does: at most AT_ONCE sends wait."""
    began, numbers = time.perf_counter(), count()
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))

    async def sender() -> None:
        async with Client(url, key) as client:
            while not ended.done():
                due = began + next(numbers) / a_second
                await asyncio.wait({ended}, timeout=max(0.0, due - time.perf_counter()))
                message = said("hello") | {"configuration": {"returnImmediately": True}}
                message["message"]["metadata"] = {"priority": priority}
                await client.call(agent, "SendMessage", message)

    await asyncio.gather(*(sender() for _ in range(AT_ONCE)))
    print(next(numbers) / (time.perf_counter() - began), flush=True)


def prepare(target: Target, scale: Scale) -> None:
    target.run("benchmarks.flood", "limit")
    time.sleep(REFRESH_SECONDS)


def set_limit() -> None:
    from apps.agents.models import Agent
    from apps.limits.models import Limit

    Limit.objects.create(agent=Agent.objects.get(slug=WAITS), running_runs=1)


def drain() -> None:
    from apps.record.execution import Run
    from apps.record.models import Task, TaskState

    print(Run.objects.filter(state=Run.State.QUEUED).update(state=Run.State.CANCELED))
    Task.objects.filter(runs__state=Run.State.CANCELED).update(state=TaskState.CANCELED)
    until = time.monotonic() + DRAIN_SECONDS
    while Run.objects.unfinished().exists():
        assert time.monotonic() < until, list(Run.objects.unfinished().values("state", "fence", "task__state")[:5])
        time.sleep(0.1)


@asynccontextmanager
async def flooded(target: Target, agent: str, a_second: float, priority: str) -> AsyncGenerator[list[float]]:
    """The flood; at the end, gives its real rate, and how many runs are queued."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.flood", target.url, target.key, agent, str(a_second), priority,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    told: list[float] = []
    try:
        await asyncio.sleep(SETTLING_SECONDS)
        yield told
        process.stdin.close()
        told.append(float(await process.stdout.readline()))
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        queued = await asyncio.to_thread(target.inside.python, "-m", "benchmarks.flood", "drain")
        told.append(float(queued.stdout))


async def fairness(target: Target, scale: Scale) -> Figures:
    """From the send to the completed task of another workspace, which has no other task at that time."""
    figures: Figures = {}
    for agent, title in ((WAITS, "waits"), (WORKS, "computes")):
        found = await _compare(target, agent, user_key(target, f"{agent}@parley.local"), scale.flooded)
        figures |= {f"{title}: {name}": value for name, value in found.items()}
    return figures


async def _compare(target: Target, agent: str, other: str, times: int) -> Figures:
    sends = times * 4
    _, whole = await timed(target, lambda client: client.send(agent), count=sends, at_once=AT_ONCE)
    usual = BUSY * sends / whole
    conditions = {
        "1x": (usual, "normal"),
        f"{FLOOD}x": (usual * FLOOD, "normal"),
        f"{FLOOD}x of high priority": (usual * FLOOD, "high"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in conditions}
    seen: dict[str, list[list[float]]] = {name: [] for name in conditions}
    alone = await first_tasks(target, agent, other, times)
    for _ in range(ROUNDS):
        for name, (a_second, priority) in conditions.items():
            async with flooded(target, agent, a_second, priority) as told:
                seconds[name] += await first_tasks(target, agent, other, times)
            seen[name].append(told)
    figures = {"runs/s": sends / whole, "alone, p50 ms": statistics.median(alone) * 1000}
    for name in conditions:
        rate, queued = (statistics.mean(values) for values in zip(*seen[name], strict=True))
        figures |= {f"{name}, sent a second": rate, f"{name}, queued at the end": queued}
        figures |= latencies(seconds[name], name, 50, 90)
    return figures | {
        f"{name} to 1x, p50 ratio": figures[f"{name}, p50 ms"] / figures["1x, p50 ms"] for name in list(conditions)[1:]
    }


async def first_tasks(target: Target, agent: str, key: str, times: int) -> list[float]:
    seconds = []
    async with Client(target.url, key) as client:
        for _ in range(times):
            began = time.perf_counter()
            task = await client.send(agent)
            assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
            seconds.append(time.perf_counter() - began)
            await asyncio.sleep(PAUSE_SECONDS)
    return seconds


def inside(do: Callable[[], None]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
    django.setup()
    do()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["limit"]:
            inside(set_limit)
        case ["drain"]:
            inside(drain)
        case [url, key, agent, a_second, priority]:
            uvloop.run(flood(url, key, agent, float(a_second), priority))
