"""Skills: what an agent can do, for its card; the methods that do it; and skills from files.

A file is a `SKILL.md` (YAML front matter, then instructions) or a `skill.yaml` (one skill, or a list).
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from agentkit.errors import HandlerError


@dataclass(frozen=True)
class Skill:
    """A skill on the agent's card (A2A 1.0 §4.4.5).

    `instructions` are for the agent only, such as the body of its SKILL.md.
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
    """Marks the `SkillHandler` method for one skill: `@skill("summarize", tags=["text"])`.

    By default the method gives the id and the name (its own), the description (its docstring) and the tag (the id). If
    `SkillHandler.skills` has a skill with this id, for instance from a SKILL.md, that skill is used.

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


def skill_methods_of(kind: type) -> dict[str, str]:
    """Skill methods' names, by skill id. Raises HandlerError."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            described = getattr(value, "__skill__", None)
            if isinstance(described, Skill):
                if found.get(described.id, name) != name:
                    raise HandlerError(f"{kind.__name__} has two methods for the skill {described.id!r}: keep one.")
                found[described.id] = name
    return found


def declared_skills(kind: type, listed: Iterable[Skill]) -> tuple[Skill, ...]:
    """A handler's listed skills, then those of its methods only. Raises HandlerError."""
    known = {one.id: one for one in unique_skills(listed, kind.__name__)}
    for base in reversed(kind.__mro__):
        for value in vars(base).values():
            described = getattr(value, "__skill__", None)
            if isinstance(described, Skill):
                known.setdefault(described.id, described)
    return tuple(known.values())


def unique_skills(skills: Iterable[Skill], owner: str) -> list[Skill]:
    """The skills as a list. Raises HandlerError for a value that is no skill, and for a repeated id."""
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
    """Which field a card cannot show; "" if none."""
    for name in ("id", "name", "description"):
        if not isinstance(getattr(one, name), str):
            return f"{name} must be text"
    for name in ("tags", "examples", "input_modes", "output_modes"):
        values = getattr(one, name)
        if not isinstance(values, Sequence) or isinstance(values, str) or not all(isinstance(v, str) for v in values):
            return f"{name} must be a list of texts"
    return ""


def first_paragraph(described: object) -> str:
    # Not inspect.getdoc, which inherits docstrings.
    return " ".join(inspect.cleandoc(described.__doc__ or "").split("\n\n")[0].split())


TEXT_FIELDS = ("id", "name", "description")
LIST_FIELDS = {
    "tags": "tags",
    "examples": "examples",
    "input_modes": "input_modes",
    "output_modes": "output_modes",
    "inputModes": "input_modes",
    "outputModes": "output_modes",
}
REQUIRED_FIELDS = ("name", "description")


def load_skills(path: str | PathLike[str], *, beside: str | PathLike[str] | None = None) -> list[Skill]:
    """A file's skills: `skills = load_skills("SKILL.md", beside=__file__)`.

    The front matter of a `.md` file has `name`, `description` and optionally `id` (default: from the name), `tags`
    (default: the id), `examples`, `input_modes` and `output_modes`. The text after it becomes `instructions`. A `.yaml`
    file has one skill or a list, with `instructions` as a field. Other fields are ignored.

    Args:
        beside: a file or folder from which a relative path starts; by default the working directory.

    Raises:
        HandlerError: it cannot be read or is no skill; the text names the file and the field.
    """
    file = Path(path)
    if beside is not None:
        start = Path(beside)
        file = (start if start.is_dir() else start.parent) / file
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise HandlerError(f"The skills in {file} cannot be read: {error}.") from error
    if file.suffix.lower() in (".yaml", ".yml"):
        described = _yaml(text, file)
    elif file.suffix.lower() == ".md":
        described = _front_matter(text, file)
    else:
        raise HandlerError(f"{file} is neither a SKILL.md nor a skill.yaml: name it .md, .yaml or .yml.")
    entries = described if isinstance(described, list) else [described]
    if not entries:
        raise HandlerError(f"{file} has no skill in it.")
    where = [f"{file}, skill {number}" if len(entries) > 1 else str(file) for number in range(1, len(entries) + 1)]
    return unique_skills([_skill_from(entry, at) for entry, at in zip(entries, where, strict=True)], str(file))


def _front_matter(text: str, file: Path) -> dict[str, Any]:
    lines = text.splitlines()
    ends = [number for number, line in enumerate(lines) if number and line.rstrip() == "---"]
    if not ends or lines[0].rstrip() != "---":
        raise HandlerError(f"{file} must begin with front matter: a line ---, the skill's name and description, ---.")
    described = _yaml("\n".join(lines[1 : ends[0]]), file)
    if not isinstance(described, dict):
        raise HandlerError(f"{file}: the front matter must have fields, such as name: and description:.")
    return {**described, "instructions": "\n".join(lines[ends[0] + 1 :]).strip()}


def _yaml(text: str, file: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise HandlerError(f"{file}{where} is no YAML: {problem}.") from error
    except (LookupError, AttributeError) as error:
        raise HandlerError(f"{file} is no YAML: a value is not of the type that its tag names.") from error


def _skill_from(entry: Any, where: str) -> Skill:
    if not isinstance(entry, dict):
        raise HandlerError(f"{where} must have fields, such as name: and description:; it is {_type_name(entry)}.")
    for name in REQUIRED_FIELDS:
        if not entry.get(name):
            raise HandlerError(f"{where}: {name} is missing.")
    texts = {name: entry[name] for name in (*TEXT_FIELDS, "instructions") if entry.get(name) is not None}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise HandlerError(f"{where}: {name} must be text, not {_type_name(value)}.")
    lists = {
        LIST_FIELDS[name]: _texts(value, f"{where}: {name}") for name, value in entry.items() if name in LIST_FIELDS
    }
    known_as = texts.get("id") or "-".join(texts["name"].lower().split())
    lists["tags"] = lists.get("tags") or [known_as]
    return Skill(**{**texts, "id": known_as, **lists})


def _texts(value: Any, where: str) -> list[str]:
    values = [value] if isinstance(value, str) else (value if value is not None else [])
    if not isinstance(values, list) or not all(isinstance(one, str) and one for one in values):
        raise HandlerError(f"{where} must be a list of texts.")
    return values


def _type_name(value: Any) -> str:
    return "empty" if value is None else f"a {type(value).__name__}"
