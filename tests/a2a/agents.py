"""Agents that wait for the test before each step."""

import asyncio
from queue import SimpleQueue

from agentkit import Artifact, AuthRequired, Completed, InputRequired, Outcome, ResponseType, SkillHandler, TaskContext


class Steps:
    """Lets agents on the worker's loop continue one step at a time."""

    def __init__(self) -> None:
        self._allowed: SimpleQueue[None] = SimpleQueue()

    def allow(self, steps: int = 1) -> None:
        for _ in range(steps):
            self._allowed.put(None)

    def reset(self) -> None:
        self._allowed = SimpleQueue()

    async def __call__(self) -> None:
        while self._allowed.empty():  # noqa: ASYNC110 - the test that allows it runs in another thread
            await asyncio.sleep(0.005)
        self._allowed.get()


steps = Steps()


class Stepping(SkillHandler):
    """Writes a line per step, reports progress, and ends with the line "end"."""

    async def on_request(self, task: TaskContext) -> Outcome:
        lines = task.artifact("lines")
        count = int(task.message.text)
        for number in range(1, count + 1):
            await steps()
            await lines.append(f"{number}\n", last=number == count)
        await steps()
        await task.progress("nearly there")
        await steps()
        return Completed("end", [Artifact.text("summary", f"{count} lines")])


class Asking(SkillHandler):
    """Asks for a word or a sign-in, and repeats the answer."""

    input_modes = ("text/plain", "application/json")

    async def on_request(self, task: TaskContext) -> Outcome:
        if "sign in" in task.message.text:
            return AuthRequired("Sign in elsewhere.", slot="sign-in")
        return InputRequired("Which word?", slot="word")

    async def on_input_received(self, task: TaskContext) -> Outcome:
        return Completed(f"It was {task.message.text}.")


class Greeting(SkillHandler):
    """Answers each message with a new message."""

    response_type = ResponseType.MESSAGE
    answers = 0

    async def on_request(self, task: TaskContext) -> Outcome:
        Greeting.answers += 1
        if task.message.text == "fail":
            raise RuntimeError("secret of the agent")
        if task.message.text == "talk nonsense":
            return Completed([{"text": "a", "url": "http://secret.example"}])
        return Completed(f"Answer {Greeting.answers}")
