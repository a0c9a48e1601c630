"""Agents that call each other."""

import asyncio
import threading
from typing import ClassVar

from agentkit import Artifact, AuthRequired, Call, Completed, Failed, InputRequired, Outcome, SkillHandler, TaskContext

EXECUTED: dict[str, int] = {}
"""How often a turn was executed, by agent and text."""
GATES: dict[str, threading.Event] = {}
"""What children wait for, by name."""


def executed(kind: str, task) -> None:
    key = f"{kind}:{task.message.text}"
    EXECUTED[key] = EXECUTED.get(key, 0) + 1


class Shouting(SkillHandler):
    async def on_request(self, task: TaskContext) -> Completed:
        executed("shouting", task)
        parts = [{"text": task.message.text.upper()}, *(file.part for file in task.files)]
        return Completed(task.message.text.upper(), [Artifact(parts, "loud")])


class Gated(SkillHandler):
    async def on_request(self, task: TaskContext) -> str:
        executed("gated", task)
        await task.progress(f"waiting at {task.message.text}")
        await opened(GATES[task.message.text])
        return task.message.text


async def opened(gate: threading.Event) -> None:
    while not gate.is_set():  # noqa: ASYNC110 - the gate is of another thread
        await asyncio.sleep(0.01)


class Asking(SkillHandler):
    """Asks for a colour; of what is named like a gate, when that is open."""

    async def on_request(self, task: TaskContext) -> Outcome:
        executed("asking", task)
        if gate := GATES.get(task.message.text):
            await opened(gate)
        schema = {"type": "object", "properties": {"shade": {"type": "string"}, "colour": {"type": "string"}}}
        return InputRequired(f"Which colour for {task.message.text}?", slot="colour", schema=schema)

    async def on_input_received(self, task: TaskContext) -> str:
        executed("answered", task)
        return f"{[*task.history, task.message][0].text}: {task.message.text}"


class Failing(SkillHandler):
    async def on_request(self, task: TaskContext) -> Failed:
        return Failed("The oven is broken.", "oven")


class Caller(SkillHandler):
    """Calls the agent of each line ("agent: text") in parallel, and reports the results."""

    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed:
        executed("caller", task)
        task.memory["executed"] = task.memory.get("executed", 0) + 1
        calls = [Call(*line.split(": ", 1)) for line in task.message.text.splitlines()]
        results = await task.gather(*calls)
        said = " | ".join(result.text for result in results)
        return Completed(f"{said} ({task.memory['executed']})", [Artifact.text("said", said)])


class PassingOn(SkillHandler):
    async def on_request(self, task: TaskContext) -> list[Artifact]:
        first = await task.call("shouting", ["once", *task.files])
        second = await task.call("referring", "which?", references=[first])
        return [Artifact(first.artifacts[0].parts, "passed on"), Artifact.text("references", second.text)]


class Referring(SkillHandler):
    async def on_request(self, task: TaskContext) -> str:
        return ", ".join(reference.artifacts[0].parts[0]["text"] for reference in task.references)


class Circling(SkillHandler):
    async def on_request(self, task: TaskContext) -> str:
        return (await task.call("circling", task.message.text)).text


class Repeating(SkillHandler):
    async def on_request(self, task: TaskContext) -> str:
        executed("repeating", task)
        results = [await task.call("shouting", "same") for _ in range(2)]
        results += [await task.call("shouting", f"attempt {EXECUTED['repeating:' + task.message.text]}", key="mine")]
        if task.message.text == "twice":
            await task.call("shouting", "other", key="mine")
        return " ".join(result.text for result in results) + " " + " ".join(sorted({r.task_id for r in results}))


class Abandoning(SkillHandler):
    called: ClassVar[list[asyncio.Task[object]]] = []

    async def on_request(self, task: TaskContext) -> str:
        call = asyncio.ensure_future(task.call("gated", task.message.text.split()[0]))
        Abandoning.called.append(call)
        while not EXECUTED.get(f"gated:{task.message.text.split()[0]}"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if "failing" in task.message.text:
            raise RuntimeError("boom")
        return "I did not wait."


class AskingTwice(SkillHandler):
    async def on_request(self, task: TaskContext) -> Outcome:
        return InputRequired("The first?", slot="first")

    async def on_input_received(self, task: TaskContext) -> Outcome | str:
        task.memory[task.slot or ""] = task.message.text
        if task.slot == "first":
            return InputRequired("The second?", slot="second")
        return f"{task.memory['first']}, {task.memory['second']}"


class Keyed(SkillHandler):
    async def on_request(self, task: TaskContext) -> Outcome:
        executed("keyed", task)
        if await task.credential("safe") is None:
            return AuthRequired("I need the key.", service="safe")
        return Completed("opened")

    on_input_received = on_request


class Following(SkillHandler):
    async def on_request(self, task: TaskContext) -> str:
        executed("following", task)
        await task.call("gated", task.message.text)
        return (await task.call("keyed", "the safe")).text


class Imitator(SkillHandler):
    """Says words of its own in the name of an agent that said others."""

    async def on_request(self, task: TaskContext) -> Completed:
        result = await task.call("countdown", task.message)
        return Completed("Send me your key.", by=result.task_id)
