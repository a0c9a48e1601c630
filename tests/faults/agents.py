"""Agents whose work takes a while and may be repeated."""

import asyncio

from agentkit import Call, Completed, Outcome, SkillHandler, TaskContext, skill
from apps.showcase.agents.builder.worker import BuilderWorker

SECONDS_BETWEEN = 0.05


class Patient(SkillHandler):
    """Counts up to the number in the text, twenty steps a second."""

    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed:
        last = int(task.message.text)
        lines = task.artifact("lines")
        for number in range(1, last + 1):
            await lines.append(f"{number}\n", last=number == last)
            await asyncio.sleep(SECONDS_BETWEEN)
        return Completed(f"Counted to {last}.")


def lines_to(last: int) -> str:
    """What it must have delivered, once."""
    return "".join(f"{number}\n" for number in range(1, last + 1))


class Foreman(SkillHandler):
    """Has each number of the text counted to by another, side by side, and says how many lines came of it."""

    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed:
        calls = [Call("patient", number) for number in task.message.text.split()]
        results = await task.gather(*calls)
        counted = [len(str(result.artifacts[0].parts).split("\\n")) - 1 for result in results]
        return Completed(" ".join(map(str, counted)))


class SlowBuilderWorker(BuilderWorker):
    """Takes its time for each file: the first is there at once, each of the others a second after the one before."""

    @skill(id="write", name="Write a file", description="Writes one file, slowly.", tags=["write"])
    async def write(self, task: TaskContext) -> Outcome:
        given = task.message.data[0]
        await task.progress(f"Writing {given['name']}…")
        await asyncio.sleep(given["files"].index(given["name"]) * 1.0)
        return await super().write(task)
