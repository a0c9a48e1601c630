"""Which skill of an agent takes a message: start one, ask what is meant, or decline.

A *chooser* decides where a message names no skill: `choose_skill = by_words({"invoice": ["bill", "invoice"]})`.
"""

import inspect
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentkit.messages import Message
from agentkit.skills import Skill

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
        said = _stems(message.text)
        found = Counter({skill: sum(_says(said, phrase) for phrase in set(words)) for skill, words in known.items()})
        (best, most), *others = found.most_common(2)
        if most and not (others and others[0][1] == most):
            return Start(best)
        return self.otherwise or which_of(skills)


def which_of(skills: Sequence[Skill], unknown: str | None = None) -> Clarify:
    """Asks which of the skills is wanted; `unknown` is a skill that was named and is none of them."""
    named = "; ".join(f"{one.id} ({one.name})" for one in skills)
    begin = f"This agent has no skill {unknown[:80]!r}." if unknown is not None else "Which skill do you want?"
    return Clarify(f"{begin} It has: {named}. Say what you need, or name one as {SKILL_ID} in the message's metadata.")


def explicit(message: Message, skills: Sequence[Skill]) -> Decision | None:
    """What the sender decides by `metadata.skillId`; None where it names nothing, or there is nothing to name."""
    named = message.metadata.get(SKILL_ID)
    if named is None or not skills:
        return None
    known = {one.id for one in skills}
    return Start(named) if isinstance(named, str) and named in known else which_of(skills, str(named))


def is_async(function: Callable[..., object]) -> bool:
    """Does calling it, a function or an object, give a coroutine?"""
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    return inspect.iscoroutinefunction(called)


def _words_of(skill: Skill) -> list[str]:
    examples = [word for example in skill.examples for word in _stems(example) if len(word) > 3]
    return [skill.id, skill.name, *skill.tags, *examples]


def _stems(text: str) -> list[str]:
    words = re.findall(r"\w+", text.casefold())
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words]


def _says(said: Sequence[str], phrase: str) -> bool:
    wanted = _stems(phrase)
    starts = range(len(said) - len(wanted) + 1)
    return bool(wanted) and any(list(said[start : start + len(wanted)]) == wanted for start in starts)
