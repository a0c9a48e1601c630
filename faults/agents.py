"""Agents of the load: quick, repeatable, and with results that are known beforehand."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from agentkit import Artifact, Call, Completed, InputRequired, SkillHandler, TaskContext

SECONDS_BETWEEN = 0.04


def lines(last: int, mark: str) -> str:
    """What a count delivers."""
    return "".join(f"{number} {mark}\n" for number in range(1, last + 1))


async def count(task: TaskContext, last: int, mark: str) -> Completed:
    counted = task.artifact("lines")
    for number in range(1, last + 1):
        await counted.append(f"{number} {mark}\n", last=number == last)
        await asyncio.sleep(SECONDS_BETWEEN)
    return Completed(f"Counted to {last}, {mark}.")


class Counter(SkillHandler):
    """Counts up: "12 word" has twelve lines with the word."""

    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed:
        number, mark = task.message.text.split()
        return await count(task, int(number), mark)


class Asker(SkillHandler):
    """Asks how far it shall count, then counts."""

    retry_safe = True

    async def on_request(self, task: TaskContext) -> InputRequired:
        task.memory["mark"] = task.message.text
        return InputRequired(f"How far, {task.message.text}?", slot="number")

    async def on_input_received(self, task: TaskContext) -> Completed:
        return await count(task, int(task.message.text), str(task.memory["mark"]))


class Lead(SkillHandler):
    """Lets others count, and delivers how many lines each has: "3,4 word"."""

    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed:
        numbers, mark = task.message.text.split()
        results = await task.gather(*(Call("counter", f"{number} {mark}") for number in numbers.split(",")))
        counted = [str(result.artifacts[0].parts).count("\\n") for result in results]
        return Completed("Done.", [Artifact.text("counts", " ".join(map(str, counted)))])


class Poison(SkillHandler):
    """Kills the process that runs it, each time."""

    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed:
        os.kill(os.getpid(), signal.SIGKILL)
        return Completed("Nobody hears this.")


class Exiting(SkillHandler):
    """Raises what ends whole programs, on the event loop and in a task of its own."""

    async def on_request(self, task: TaskContext) -> None:
        asyncio.get_running_loop().call_soon(sys.exit, 3)
        await asyncio.create_task(self._exit())

    async def _exit(self) -> None:
        sys.exit(3)


AGENTS = {"counter": "Counter", "asker": "Asker", "lead": "Lead", "poison": "Poison", "exiting": "Exiting"}
