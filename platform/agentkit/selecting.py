"""Choosing how a message is answered: by a task that can be followed, or at once by a message.

A *selector* is given the message, and the newest task of its conversation if there is one:

    response_type = by_rules((has_files, "task"), (says("report", "analyse"), "task"), otherwise="message")

It may be async. Where it fails, or takes too long, there is a task.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, Protocol

from agentkit.messages import Message


class ResponseType(Enum):
    """How a message is answered: by work that can be followed, or at once by a message."""

    TASK = "task"
    MESSAGE = "message"


@dataclass(frozen=True)
class ExistingTask:
    """The newest task of the conversation that a message goes on with. `state` is A2A's, in lower case."""

    task_id: str
    state: str


ENDED = ("completed", "failed", "canceled", "rejected")

type Choice = ResponseType | Literal["task", "message"]


class Selector(Protocol):
    """Chooses for each message. One that is not async runs in a thread, save those of this module."""

    def __call__(self, message: Message, task: ExistingTask | None, /) -> Choice | Awaitable[Choice]: ...


@dataclass(frozen=True)
class Always:
    """The same for each message: `always_message` or `always_task`."""

    choice: ResponseType

    def __call__(self, message: Message, task: ExistingTask | None = None, /) -> ResponseType:
        return self.choice


always_message = Always(ResponseType.MESSAGE)
always_task = Always(ResponseType.TASK)

type Condition = Callable[[Message], object]


class by_rules:  # noqa: N801 reads as a function: response_type = by_rules(…)
    """The choice of the first rule, a condition and a choice, whose condition holds; `otherwise` if none does."""

    def __init__(self, *rules: tuple[Condition, Choice], otherwise: Choice = "task") -> None:
        self.rules = [(condition, ResponseType(choice)) for condition, choice in rules]
        self.otherwise = ResponseType(otherwise)

    def __call__(self, message: Message, task: ExistingTask | None = None, /) -> ResponseType:
        return next((choice for condition, choice in self.rules if condition(message)), self.otherwise)


@dataclass(frozen=True)
class by_model:  # noqa: N801 reads as a function: response_type = by_model()
    """A language model judges: a message for what is certainly simple, quick and needs no tracking, else a task.

    It is a task, too, while another is unfinished, and where the model cannot be asked or takes longer than `seconds`.

    Args:
        about: what the model should know of the agent, such as what takes it long.
        model: its name, by default the platform's (see `agentkit.llm`).
    """

    about: str = ""
    model: Any = None
    seconds: float = 5.0

    async def __call__(self, message: Message, task: ExistingTask | None = None, /) -> ResponseType:
        from agentkit.llm.deciding import is_small

        if task is not None and task.state not in ENDED:
            return ResponseType.TASK
        small = await is_small(message, self.about, self.model, self.seconds)
        return ResponseType.MESSAGE if small else ResponseType.TASK


def has_files(message: Message) -> bool:
    return bool(message.files)


def longer_than(characters: int) -> Condition:
    """Is the text longer than that?"""
    return lambda message: len(message.text) > characters


def says(*words: str) -> Condition:
    """Does the text have one of these words or phrases, whatever its case?"""
    wanted = re.compile(rf"\b({'|'.join(map(re.escape, words))})\b", re.IGNORECASE)
    return lambda message: wanted.search(message.text) is not None
