"""Agents with language models, as they are registered on a platform."""

from agentkit import ResponseType, SkillHandler, SyncTaskContext, TaskContext
from agentkit.llm import Asked, Call, LlmFunction, LlmWorker, scripted


def double(number: int) -> int:
    """Doubles a number."""
    return 2 * number


class Helper(SkillHandler):
    """Answers with the platform's model and a tool."""

    async def on_request(self, task: TaskContext) -> str:
        return await LlmWorker("Help.", [double]).run(task)


class HelperInAThread(SkillHandler):
    """The same, not async."""

    def on_request(self, task: SyncTaskContext) -> str:
        return LlmWorker("Help.", [double]).sync(task)


class Greeter(SkillHandler):
    """Answers with a message."""

    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext) -> str:
        return await LlmFunction("Greet.")(task)


def play(asked: Asked) -> str | Call:
    return f"Twice is {asked.results[0].content}." if asked.results else Call("double", number=len(asked.text))


class Actor(SkillHandler):
    """Plays a model."""

    async def on_request(self, task: TaskContext) -> str:
        return await LlmWorker("Help.", [double], model=scripted(play, name="actor")).run(task)
