"""Plans under load: many of ten steps at once, and one of thousands of steps.

The cost of a step is processor time of all the installation's processes, PostgreSQL's included, because a busy
machine affects it less than wall time. *The engine's own* cost subtracts a plain send to the same agent, but not
what the web process takes for it, so the figure is rather too high.
"""

from __future__ import annotations

import time

from benchmarks.definitions import LARGE, SMALL, STAGES, STEPS
from benchmarks.figures import Figures, latencies
from benchmarks.load import timed
from benchmarks.rpc import Client
from benchmarks.scale import Scale
from benchmarks.target import Target

AGENT = "echo"
SERVING = "web"


async def plans(target: Target, scale: Scale) -> Figures:
    """Plans of ten steps, then one of `STAGES` fan-outs; figures are in steps."""
    send = await _cost_of_a_send(target, scale)
    figures = {"a plain send, all ms": sum(send.values())}
    return figures | await _many(target, scale, send) | await _one(target, scale, send)


async def _cost_of_a_send(target: Target, scale: Scale) -> dict[str, float]:
    before, count = target.processor_seconds(), scale.plans
    await timed(target, lambda client: _done(client, AGENT), count=count, at_once=scale.plans_at_once)
    return _milliseconds(target, before, count + scale.plans_at_once)


async def _many(target: Target, scale: Scale, send: dict[str, float]) -> Figures:
    before, count = target.processor_seconds(), scale.plans - scale.plans_at_once
    seconds, whole = await timed(target, lambda client: _done(client, SMALL), count=count, at_once=scale.plans_at_once)
    step = _milliseconds(target, before, scale.plans * STEPS)
    title = f"{scale.plans:,} plans of {STEPS} steps"
    figures = {f"{title}, plans/s": count / whole, f"{title}, steps/s": count * STEPS / whole}
    return figures | latencies(seconds, title, 50, 95) | _costs(title, step, send)


async def _one(target: Target, scale: Scale, send: dict[str, float]) -> Figures:
    before, steps = target.processor_seconds(), scale.fan_out * STAGES
    async with target.client() as client:
        began = time.perf_counter()
        await _done(client, LARGE, str(scale.fan_out))
        whole = time.perf_counter() - began
    title = f"a plan of {steps:,} steps"
    return {f"{title}, s": whole, f"{title}, steps/s": steps / whole} | _costs(
        title, _milliseconds(target, before, steps), send
    )


async def _done(client: Client, slug: str, text: str = "hello") -> None:
    task = await client.send(slug, text)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task["status"]


def _milliseconds(target: Target, before: dict[str, float], count: int) -> dict[str, float]:
    """Processor time since then divided by `count`, by process."""
    return {name: (now - before.get(name, 0)) / count * 1000 for name, now in target.processor_seconds().items()}


def _costs(title: str, step: dict[str, float], send: dict[str, float]) -> Figures:
    plain = sum(taken for name, taken in send.items() if name != SERVING)
    figures = {f"{title}, {name} ms a step": taken for name, taken in step.items()}
    return figures | {
        f"{title}, all ms a step": sum(step.values()),
        f"{title}, the engine's own ms a step": max(0.0, sum(step.values()) - plain),
    }
