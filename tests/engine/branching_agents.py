"""Agents for branching conversations."""

import asyncio
import threading

from agentkit import ResponseType, SkillHandler, TaskContext

BEGUN = threading.Event()
GATE = threading.Event()


class Patient(SkillHandler):
    async def on_request(self, task: TaskContext) -> str:
        if task.message.text != "wait":
            return f"went on with {task.message.text}"
        async with task.artifact("draft") as draft:
            await draft.append("half")
            BEGUN.set()
            await asyncio.to_thread(GATE.wait)
            await draft.append("late")
        return "late"


class AtOnce(SkillHandler):
    response_type = ResponseType.MESSAGE
    input_modes = ("text/plain",)

    async def on_request(self, task: TaskContext) -> str:
        return f"at once: {task.message.text}, after {[one.text for one in task.history]}"
