"""Agents that other protocols call."""

import asyncio
import threading

from agentkit import (
    Artifact,
    Completed,
    Failed,
    InputRequired,
    Outcome,
    Rejected,
    ResponseType,
    SkillHandler,
    TaskContext,
)
from agentkit.llm import MODEL_WISHES, LlmWorker

STARTED, STOPPED = threading.Event(), threading.Event()


class Speaking(SkillHandler):
    """Does as it is told: streams, calls a tool, makes files, asks, waits, fails."""

    input_modes = ("*/*",)

    async def on_request(self, task: TaskContext) -> Outcome:
        match task.message.text:
            case "stream":
                for word in ("One ", "two ", "three."):
                    await task.token(word)
                await task.usage("tiny", 1, 7, 3)
                return Completed("One two three.")
            case "tool":
                call = await task.tool_call("weather", {"city": "Oslo"})
                await task.tool_result(call, "weather", {"degrees": 3})
                return Completed("It is cold.")
            case "file":
                table = Artifact.bytes("table.csv", b"a,b\n1,2\n", "text/csv")
                return Completed("Here it is.", [Artifact.text("summary", "One row."), table])
            case "ask":
                return InputRequired("Which word?", slot="word")
            case "wait":
                await task.progress("waiting")
                return await self._wait()
            case "steps":
                await task.progress("half", 1, 2)
                await task.progress("half, too")
                return Completed("Both.")
            case "fail":
                return Failed("The agent cannot do this.", "cannot")
            case "decline":
                return Rejected("Not that.")
            case _:
                return Completed(self._seen(task))

    async def _wait(self) -> Outcome:
        STARTED.set()
        try:
            await asyncio.sleep(60)
        finally:
            STOPPED.set()
        return Completed("late")

    def _seen(self, task: TaskContext) -> str:
        """The words, files, earlier messages and instructions that came."""
        files = [f"{file.name} {file.media_type} {len(file.read())}" for file in task.files]
        history = [f"{one.role}: {one.text}" for one in task.history]
        told = task.message.metadata.get("instructions")
        return " | ".join([task.message.text, *files, *history, *([f"told: {told}"] if told else [])])

    async def on_input_received(self, task: TaskContext) -> Outcome:
        return Completed(f"It was {task.message.text}.")


class Greeting(SkillHandler):
    """Answers without a task."""

    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext) -> Outcome:
        return Completed(f"Hello, {task.message.text}.")


class Modeled(SkillHandler):
    """Answers by the installation's language model, and honors all that clients wish."""

    wishes = MODEL_WISHES
    input_modes = ("*/*",)

    async def on_request(self, task: TaskContext) -> Completed:
        return Completed(await LlmWorker("Help.").run(task))
