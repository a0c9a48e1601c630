"""Choosing how a message is answered (by a task, or at once by a message), and which skill takes it.

A *selector* is given the message, and the newest task of its conversation if there is one:

    response_type = by_rules((has_files, "task"), (says("report", "analyse"), "task"), otherwise="message")

It may be async. Where it fails, or takes too long, there is a task. A *chooser* decides where a message names no skill:

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

from agentkit.messages import Message
from agentkit.skills import Skill


class ResponseType(Enum):
    """How a message is answered: by work that can be followed, or at once by a message."""

    TASK = "task"
    MESSAGE = "message"


@dataclass(frozen=True)
class ExistingTask:
    """The newest task of the conversation that a message goes on with. `state` is A2A's, in lower case."""

    task_id: str
    state: str


ENDED_STATES = ("completed", "failed", "canceled", "rejected")

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
        if task is not None and task.state not in ENDED_STATES:
            return ResponseType.TASK
        judges: Any = import_module("agentkit.llm.agents")  # only those who ask a model need its library
        small = await judges.is_small(message, self.about, self.model, self.seconds)
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


SKILL_ID = "skillId"
"""The key in a message's metadata by which a sender names the skill."""


@dataclass(frozen=True)
class Start:
    """A skill takes the task; None for an agent that needs no skill, or whose `on_request` sees to it."""

    skill: str | None = None


@dataclass(frozen=True)
class Clarify:
    """It is not clear what is wanted: the question to the sender."""

    question: str


@dataclass(frozen=True)
class Reject:
    """Nothing that this agent does: the reason, for the sender."""

    reason: str


Decision = Start | Clarify | Reject


class Chooser(Protocol):
    """Decides which of the skills takes a message; sync (then it runs in a thread) or async.

    `SkillHandler.choose_skill` is one: an object that can be called, such as `by_words(…)`, or a method.
    """

    def __call__(self, message: Message, skills: Sequence[Skill], /) -> Decision | Awaitable[Decision]: ...


@dataclass(frozen=True)
class by_words:  # noqa: N801 reads as a function: choose_skill = by_words({…})
    """Chooses the skill of which the message has the most words; case and endings in `s` do not matter.

    Args:
        words: for each skill's id its words or phrases; by default the tags, names and examples of the skills.
        otherwise: what to do where no skill, or more than one, has the most: `Start("id")`, `Reject("…")`, …; by
            default to ask.
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
        return self.otherwise or ask_which_skill(skills)


def ask_which_skill(skills: Sequence[Skill], unknown: str | None = None) -> Clarify:
    """Asks which of the skills is wanted; `unknown` is a skill that was named and is none of them."""
    named = "; ".join(f"{one.id} ({one.name})" for one in skills)
    begin = f"This agent has no skill {unknown[:80]!r}." if unknown is not None else "Which skill do you want?"
    return Clarify(f"{begin} It has: {named}. Say what you need, or name one as {SKILL_ID} in the message's metadata.")


def named_skill(message: Message, skills: Sequence[Skill]) -> Decision | None:
    """What the sender decides by `metadata.skillId`; None where it names nothing, or there is nothing to name."""
    named = message.metadata.get(SKILL_ID)
    if named is None or not skills:
        return None
    known = {one.id for one in skills}
    return Start(named) if isinstance(named, str) and named in known else ask_which_skill(skills, str(named))


def is_async_callable(function: Callable[..., object]) -> bool:
    """Does calling it, a function or an object, give a coroutine?"""
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
