"""Agents for the steps of test plans."""

from __future__ import annotations

import json
import threading
from collections import Counter

from agentkit import Artifact, Completed, Failed, InputRequired, Outcome, SkillHandler, TaskContext

DONE: Counter[str] = Counter()
"""How often an agent worked on a text."""
GATE = threading.Event()
"""What `Patient` waits for."""


class Loud(SkillHandler):
    """Says the text in capitals, and delivers it with whatever files came along."""

    async def on_request(self, task: TaskContext) -> Outcome:
        DONE[f"loud:{task.message.text}"] += 1
        text = task.message.text.upper()
        parts = [{"text": text}, *(file.part for file in task.files)]
        return Completed(text, [Artifact(parts, "loud")])


class Parting(SkillHandler):
    """Delivers the words of a text as a list."""

    async def on_request(self, task: TaskContext) -> Outcome:
        DONE["parting"] += 1
        return Completed("Parted.", [Artifact.json("words", {"words": task.message.text.split()})])


class Counting(SkillHandler):
    """Delivers how long a text is."""

    async def on_request(self, task: TaskContext) -> Outcome:
        DONE["counting"] += 1
        return Completed(f"{len(task.message.text)}", [Artifact.json("count", {"count": len(task.message.text)})])


class Brittle(SkillHandler):
    """Fails as often as its text says, then works."""

    async def on_request(self, task: TaskContext) -> Outcome:
        DONE[f"brittle:{task.message.text}"] += 1
        if DONE[f"brittle:{task.message.text}"] <= int(task.message.text):
            return Failed("The glass is broken.")
        return Completed("whole", [Artifact.text("glass", "whole")])


class Curious(SkillHandler):
    """Asks for a colour, and says which it was told."""

    async def on_request(self, task: TaskContext) -> Outcome:
        DONE["curious"] += 1
        schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
        return InputRequired(f"Which colour for {task.message.text}?", slot="colour", schema=schema)

    async def on_input_received(self, task: TaskContext) -> Outcome:
        told = task.message.data[0]["colour"] if task.message.data else task.message.text
        return Completed(f"It is {told}.", [Artifact.json("colour", {"colour": told})])


class Hesitant(Curious):
    """Asks, and takes its time with what it is told."""

    async def on_input_received(self, task: TaskContext) -> Outcome:
        DONE["hesitant"] += 1
        return await Patient().on_request(task)


class Patient(SkillHandler):
    """Waits for the gate."""

    async def on_request(self, task: TaskContext) -> Outcome:
        import asyncio

        DONE["patient"] += 1
        while not GATE.is_set():  # noqa: ASYNC110 - the gate is of another thread
            await asyncio.sleep(0.01)
        return Completed(task.message.text, [Artifact.text("waited", task.message.text)])


class Knowing(SkillHandler):
    """Knows every answer: green."""

    async def on_request(self, task: TaskContext) -> Outcome:
        DONE["knowing"] += 1
        return Completed(json.dumps({"colour": "green"}) if "JSON" in task.message.text else "green")
