"""Agents with language models."""

from collections.abc import Awaitable, Callable

from agentkit import ResponseType, SkillHandler, TaskContext
from agentkit.llm import Asked, LlmFunction, LlmWorker, UseTool, scripted


def double(number: int) -> int:
    """Doubles a number."""
    return 2 * number


def handler_of(worker: LlmWorker) -> Callable[[TaskContext], Awaitable[str]]:
    async def handler(task: TaskContext) -> str:
        return await worker.run(task)

    return handler


class Helper(SkillHandler):
    """Answers with the platform's model and a tool."""

    async def on_request(self, task: TaskContext) -> str:
        return await LlmWorker("Help.", [double]).run(task)


class Greeter(SkillHandler):
    """Answers with a message."""

    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext) -> str:
        return await LlmFunction("Greet.")(task)


def play(asked: Asked) -> str | UseTool:
    return f"Twice is {asked.results[0].content}." if asked.results else UseTool("double", number=len(asked.text))


class Actor(SkillHandler):
    """Plays a model."""

    async def on_request(self, task: TaskContext) -> str:
        return await LlmWorker("Help.", [double], model=scripted(play, name="actor")).run(task)


class AsksHelper(SkillHandler):
    """Has another agent answer."""

    async def on_request(self, task: TaskContext) -> str:
        return (await task.call("helper", "hello")).text


class Twice(SkillHandler):
    """Asks the platform's model twice."""

    async def on_request(self, task: TaskContext) -> str:
        return await LlmFunction("Say one.")(task) + await LlmFunction("Say two.")(task)
