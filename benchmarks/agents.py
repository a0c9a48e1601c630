"""Agents without work of their own, and one with a little."""

import asyncio
import time

from agentkit import Completed, InputRequired, SkillHandler, TaskContext

WORK_SECONDS = 0.05
JOIN_SECONDS, PACE_SECONDS = 1.5, 0.03


class Chunks(SkillHandler):
    """Streams as many chunks as the text says, as fast as possible."""

    name = "Chunks"

    async def on_request(self, task: TaskContext) -> Completed:
        async with task.artifact("chunks") as chunks:
            for number in range(int(task.message.text)):
                await chunks.append(f"line {number}\n")
        return Completed("All sent.")


class Paced(SkillHandler):
    """Streams as many chunks as the text says, JOIN_SECONDS after it began and PACE_SECONDS apart."""

    name = "Paced"

    async def on_request(self, task: TaskContext) -> Completed:
        await asyncio.sleep(JOIN_SECONDS)
        async with task.artifact("chunks") as chunks:
            for number in range(int(task.message.text)):
                await chunks.append(f"line {number}\n")
                await asyncio.sleep(PACE_SECONDS)
        return Completed("All sent.")


class Heavy(SkillHandler):
    """Streams as many chunks of 256 KB as the text says, in artifacts of 40 MB. After `more` it asks how many more."""

    name = "Heavy"

    async def on_request(self, task: TaskContext) -> Completed | InputRequired:
        await asyncio.sleep(JOIN_SECONDS)
        return await self.on_input_received(task)

    async def on_input_received(self, task: TaskContext) -> Completed | InputRequired:
        count, _, more = task.message.text.partition(" ")
        for left in range(int(count), 0, -160):
            async with task.artifact(f"large {task.message.id} {left}") as chunks:
                for _ in range(min(left, 160)):
                    await chunks.append("x" * 256 * 1024)
        return InputRequired("How many more?", slot="count") if more else Completed("All sent.")


class Works(SkillHandler):
    """Gives back the text after WORK_SECONDS of processor time."""

    name = "Works"

    def on_request(self, task: TaskContext) -> str:
        began = time.thread_time()
        while time.thread_time() - began < WORK_SECONDS:
            sum(range(1000))
        return task.message.text


class Waits(SkillHandler):
    """Gives back the text after WORK_SECONDS, without work for the processor."""

    name = "Waits"

    async def on_request(self, task: TaskContext) -> str:
        await asyncio.sleep(WORK_SECONDS)
        return task.message.text


class Says(SkillHandler):
    """Gives back the text."""

    name = "Says"

    async def on_request(self, task: TaskContext) -> str:
        return task.message.text


AGENTS = {
    "bench-chunks": "benchmarks.agents:Chunks",
    "bench-heavy": "benchmarks.agents:Heavy",
    "bench-paced": "benchmarks.agents:Paced",
    "bench-says": "benchmarks.agents:Says",
    "bench-waits": "benchmarks.agents:Waits",
    "bench-works": "benchmarks.agents:Works",
    "bench-many": "examples.agents.echo:Echo",
}
"""By slug. `bench-many` owns bulk-made tasks."""
