"""Chooses how a message is answered (a task, or at once a message) and which skill takes it.

A *selector* receives the message and, optionally, the conversation's newest task:

    response_type = by_rules((has_files, "task"), (says("report", "analyze"), "task"), otherwise="message")

It may be async. If it fails or is late, there is a task. A *chooser* decides if a message names no skill:

    choose_skill = by_words({"invoice": ["bill", "invoice"]})
"""

import inspect
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any, Literal, Protocol

from agentkit.content.messages import Message
from agentkit.errors import HandlerError, did_you_mean
from agentkit.skills import Skill


class ResponseType(Enum):
    """A task, which people can follow, or a message at once."""

    TASK = "task"
    MESSAGE = "message"


@dataclass(frozen=True)
class ExistingTask:
    """The conversation's newest task. `state` is A2A's in lower case."""

    task_id: str
    state: str


ENDED_STATES = ("completed", "failed", "canceled", "rejected")

type Choice = ResponseType | Literal["task", "message"]


class NoResponseType(HandlerError):
    """A selector or `response_type` names no response type."""

    loggable = True  # it quotes only names of this package


def response_type_of(choice: object) -> ResponseType:
    """Raises NoResponseType."""
    try:
        return ResponseType(choice)
    except ValueError:
        hint = did_you_mean(str(choice), [one.value for one in ResponseType])
        raise NoResponseType(f'A response type is "task" or "message", and this is neither.{hint}') from None


class Selector(Protocol):
    """Chooses for each message. A selector of yours that is not async runs in a thread."""

    def __call__(self, message: Message, task: ExistingTask | None, /) -> Choice | Awaitable[Choice]: ...


@dataclass(frozen=True)
class Always:
    """Makes one choice for every message: `always_message` or `always_task`."""

    choice: ResponseType

    def __call__(self, message: Message, task: ExistingTask | None = None, /) -> ResponseType:
        return self.choice


always_message = Always(ResponseType.MESSAGE)
"""A selector: the agent answers each message with a message."""

always_task = Always(ResponseType.TASK)
"""A selector: each message begins or continues a task."""

RESPONSE_TYPE = "responseType"
"""The key in an outcome's metadata by which a handler that answers at once chooses "message" or "task"."""

by_result = Always(ResponseType.MESSAGE)
"""A selector: a message if the handler returns metadata with `{"responseType": "message"}`, else a task, which calls it
again."""

type Condition = Callable[[Message], object]


class by_rules:  # noqa: N801 reads as a function: response_type = by_rules(…)
    """The choice of the first rule (a condition and a choice) whose condition holds, or else `otherwise`."""

    def __init__(self, *rules: tuple[Condition, Choice], otherwise: Choice = "task") -> None:
        self.rules = [(condition, response_type_of(choice)) for condition, choice in rules]
        self.otherwise = response_type_of(otherwise)

    def __call__(self, message: Message, task: ExistingTask | None = None, /) -> ResponseType:
        return next((choice for condition, choice in self.rules if condition(message)), self.otherwise)


@dataclass(frozen=True)
class by_model:  # noqa: N801 reads as a function: response_type = by_model()
    """A language model chooses: a message if the answer is certainly simple and quick and needs no tracking, else a
    task.

    There is also a task while another is unfinished, or if the model fails or needs more than `seconds`.

    Args:
        about: what the model should know, such as which requests take long.
        model: its name; by default the platform's (see `agentkit.llm`).
    """

    about: str = ""
    model: Any = None
    seconds: float = 5.0

    async def __call__(self, message: Message, task: ExistingTask | None = None, /) -> ResponseType:
        if task is not None and task.state not in ENDED_STATES:
            return ResponseType.TASK
        judges: Any = import_module("agentkit.llm.agents")
        small = await judges.is_small(message, self.about, self.model, self.seconds)
        return ResponseType.MESSAGE if small else ResponseType.TASK


def has_files(message: Message) -> bool:
    return bool(message.files)


def longer_than(characters: int) -> Condition:
    """Is the text longer than this many characters?"""
    return lambda message: len(message.text) > characters


def says(*words: str) -> Condition:
    """Does the text have one of these words or phrases, in any case?"""
    wanted = re.compile(rf"\b({'|'.join(map(re.escape, words))})\b", re.IGNORECASE)
    return lambda message: wanted.search(message.text) is not None


SKILL_ID = "skillId"
"""The key in a message's metadata by which a sender names the skill."""


@dataclass(frozen=True)
class Start:
    """This skill takes the task; None if the agent has no skills or `on_request` chooses."""

    skill: str | None = None


@dataclass(frozen=True)
class Clarify:
    """The request is unclear: ask the sender this question."""

    question: str


@dataclass(frozen=True)
class Reject:
    """The agent does not do this: tell the sender this reason."""

    reason: str


Decision = Start | Clarify | Reject
"""What `negotiate` returns."""


class Chooser(Protocol):
    """Chooses the skill for a message; async, or sync in a thread.

    `SkillHandler.choose_skill` is one: a callable such as `by_words(…)`, or a method.
    """

    def __call__(self, message: Message, skills: Sequence[Skill], /) -> Decision | Awaitable[Decision]: ...


@dataclass(frozen=True)
class by_words:  # noqa: N801 reads as a function: choose_skill = by_words({…})
    """Chooses the skill with the most words in the message; case and a final `s` do not matter.

    Args:
        words: words or phrases by skill id; by default the skills' tags, names and examples.
        otherwise: the decision without a single winner: `Start("id")`, `Reject("…")`, …; by default a question.
    """

    words: Mapping[str, Sequence[str]] | None = None
    otherwise: Decision | None = None

    def __call__(self, message: Message, skills: Sequence[Skill], /) -> Decision:
        known = {one.id: (self.words.get(one.id, ()) if self.words is not None else _words_of(one)) for one in skills}
        said = _stemmed_words(message.text)
        found = Counter(
            {skill: sum(_has_phrase(said, phrase) for phrase in set(words)) for skill, words in known.items()}
        )
        (best, most), *others = found.most_common(2)
        if most and not (others and others[0][1] == most):
            return Start(best)
        return self.otherwise or ask_which_skill([one for one in skills if found[one.id] == most])


def ask_which_skill(skills: Sequence[Skill], unknown: str | None = None) -> Clarify:
    """Asks for a skill; `unknown` is a skill that a program named and that does not exist."""
    if unknown is None:
        lines = [f"- **{one.name}**: {one.description}" for one in skills]
        return Clarify("\n".join(["What would you like?", "", *lines]))
    named = "; ".join(f"{one.id} ({one.name})" for one in skills)
    return Clarify(f"There is no skill {unknown[:80]!r} here. As {SKILL_ID}, name one of: {named}.")


def named_skill(message: Message, skills: Sequence[Skill]) -> Decision | None:
    """The decision by `metadata.skillId`; None without one."""
    named = message.metadata.get(SKILL_ID)
    if named is None or not skills:
        return None
    known = {one.id for one in skills}
    return Start(named) if isinstance(named, str) and named in known else ask_which_skill(skills, str(named))


def is_async_callable(function: Callable[..., object]) -> bool:
    """Is this function or callable object async?"""
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    return inspect.iscoroutinefunction(called)


def _words_of(skill: Skill) -> list[str]:
    examples = [word for example in skill.examples for word in _stemmed_words(example) if len(word) > 3]
    return [skill.id, skill.name, *skill.tags, *examples]


def _stemmed_words(text: str) -> list[str]:
    words = re.findall(r"\w+", text.casefold())
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words]


def _has_phrase(said: Sequence[str], phrase: str) -> bool:
    wanted = _stemmed_words(phrase)
    starts = range(len(said) - len(wanted) + 1)
    return bool(wanted) and any(list(said[start : start + len(wanted)]) == wanted for start in starts)
