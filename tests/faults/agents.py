"""Agents with slow, repeatable work."""

import asyncio
import os
import signal
from pathlib import Path

from agentkit import Call, Completed, SkillHandler, TaskContext

SECONDS_BETWEEN = 0.05
STOP = 10


async def held(task: TaskContext) -> None:
    """The first attempt stops here until its worker ends."""
    if task.attempt == 1:
        await asyncio.Event().wait()


class Patient(SkillHandler):
    """Counts up to the number in the text, twenty steps a second.

    With "held", the first attempt stops at ten. With a folder, each ten waits for a file of its name there: "10",
    "20".
    """

    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed:
        told, *how = task.message.text.split()
        last = int(told)
        lines = task.artifact("lines")
        for number in range(1, last + 1):
            await lines.append(f"{number}\n", last=number == last)
            if how == ["held"]:
                if number == STOP:
                    await held(task)
            elif how and number % STOP == 0 and number < last:
                while not Path(how[0], str(number)).exists():  # noqa: ASYNC110, ASYNC240
                    await asyncio.sleep(SECONDS_BETWEEN)
            await asyncio.sleep(SECONDS_BETWEEN)
        return Completed(f"Counted to {last}.")


class Reckless(Patient):
    """The same, which may not be repeated."""

    retry_safe = False


class Poison(SkillHandler):
    """Kills its process."""

    retry_safe = True

    async def on_request(self, task: TaskContext) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def lines_to(last: int) -> str:
    """The correct artifact."""
    return "".join(f"{number}\n" for number in range(1, last + 1))


class Foreman(SkillHandler):
    """Delegates each number of the text in parallel, and reports the line counts."""

    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed:
        calls = [Call("patient", number) for number in task.message.text.split(", ")]
        results = await task.gather(*calls)
        counted = [len(str(result.artifacts[0].parts).split("\\n")) - 1 for result in results]
        return Completed(" ".join(map(str, counted)))


AGENTS = {
    "patient": "Patient",
    "reckless": "Reckless",
    "foreman": "Foreman",
    "poison": "Poison",
}
