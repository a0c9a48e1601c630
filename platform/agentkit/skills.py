"""Skills: what an agent can do, how its card says so, and which method of a handler does it."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit.errors import HandlerError


@dataclass(frozen=True)
class Skill:
    """Something that the agent can do, as its card tells others (A2A 1.0 §4.4.5).

    `instructions` are for the agent itself, such as the body of its SKILL.md; no card shows them.
    """

    id: str
    name: str
    description: str
    tags: Sequence[str]
    examples: Sequence[str] = ()
    input_modes: Sequence[str] = ()
    output_modes: Sequence[str] = ()
    instructions: str = field(default="", repr=False)

    @property
    def wire(self) -> dict[str, Any]:
        lists = {"examples": self.examples, "inputModes": self.input_modes, "outputModes": self.output_modes}
        filled = {key: list(value) for key, value in lists.items() if value}
        return {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "tags": list(self.tags),
            **filled,
        }


def skill[F: Callable[..., Any]](
    id: str = "",
    *,
    name: str = "",
    description: str = "",
    tags: Sequence[str] = (),
    examples: Sequence[str] = (),
    input_modes: Sequence[str] = (),
    output_modes: Sequence[str] = (),
) -> Callable[[F], F]:
    """Makes a method of a `SkillHandler` take the turns of one skill: `@skill("summarise", tags=["text"])`.

    What is not given is taken from the method: the id and the name from its own, the description from its docstring;
    the id is the tag. Where `SkillHandler.skills` has a skill of this id (from a SKILL.md, say), it is that skill.

    Raises:
        HandlerError: it is used without parentheses.
    """
    if not isinstance(id, str):
        raise HandlerError('Write @skill() with parentheses, as in @skill("summarise").')

    def describe(method: F) -> F:
        own = getattr(method, "__name__", "skill")
        known_as = id or own.replace("_", "-")
        method.__skill__ = Skill(  # type: ignore[attr-defined]
            known_as,
            name or own.replace("_", " ").capitalize(),
            description or first_paragraph(method) or f"{own.replace('_', ' ').capitalize()}.",
            tags or [known_as],
            examples,
            input_modes,
            output_modes,
        )
        return method

    return describe


def methods_of(kind: type) -> dict[str, str]:
    """The names of the methods that take the turns of a skill, by the skill's id. Raises HandlerError."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            described = getattr(value, "__skill__", None)
            if isinstance(described, Skill):
                if found.get(described.id, name) != name:
                    raise HandlerError(f"{kind.__name__} has two methods for the skill {described.id!r}: keep one.")
                found[described.id] = name
    return found


def declared_by(kind: type, listed: Iterable[Skill]) -> tuple[Skill, ...]:
    """The skills that a handler lists, then those that only its methods declare. Raises HandlerError."""
    known = {one.id: one for one in unique(listed, kind.__name__)}
    for base in reversed(kind.__mro__):
        for value in vars(base).values():
            described = getattr(value, "__skill__", None)
            if isinstance(described, Skill):
                known.setdefault(described.id, described)
    return tuple(known.values())


def unique(skills: Iterable[Skill], owner: str) -> list[Skill]:
    """The skills as a list. Raises HandlerError for what is no skill, and for an id that is there twice."""
    if not isinstance(skills, Iterable):
        raise HandlerError(f"The skills of {owner} are a list of Skill(…) objects, not {skills!r}.")
    listed, seen = list(skills), set[str]()
    for one in listed:
        if not isinstance(one, Skill):
            raise HandlerError(f"The skills of {owner} are Skill(…) objects; {one!r} is none.")
        if problem := _problem_of(one):
            raise HandlerError(f"The skill {one.id!r} of {owner}: {problem}.")
        if one.id in seen:
            raise HandlerError(f"{owner} has the skill {one.id!r} twice: every skill needs an id of its own.")
        seen.add(one.id)
    return listed


def _problem_of(one: Skill) -> str:
    """Which of its fields no card could show; "" where there is none."""
    for name in ("id", "name", "description"):
        if not isinstance(getattr(one, name), str):
            return f"{name} must be text"
    for name in ("tags", "examples", "input_modes", "output_modes"):
        values = getattr(one, name)
        if not isinstance(values, Sequence) or isinstance(values, str) or not all(isinstance(v, str) for v in values):
            return f"{name} must be a list of texts"
    return ""


def first_paragraph(described: object) -> str:
    """The first paragraph of a docstring, in one line."""
    # Not inspect.getdoc: it would hand a class the docstring of its parent.
    return " ".join(inspect.cleandoc(described.__doc__ or "").split("\n\n")[0].split())
