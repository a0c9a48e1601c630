"""Skills from files: a `SKILL.md` (YAML front matter, then instructions) or a `skill.yaml` (one skill, or a list)."""

from os import PathLike
from pathlib import Path
from typing import Any

from agentkit.errors import HandlerError
from agentkit.skills import Skill, unique

TEXTS = ("id", "name", "description")
LISTS = {
    "tags": "tags",
    "examples": "examples",
    "input_modes": "input_modes",
    "output_modes": "output_modes",
    "inputModes": "input_modes",
    "outputModes": "output_modes",
}
NEEDED = ("name", "description")


def load_skills(path: str | PathLike[str], *, beside: str | PathLike[str] | None = None) -> list[Skill]:
    """The skills that a file describes: `skills = load_skills("SKILL.md", beside=__file__)`.

    A `.md` file has one skill: its front matter says `name`, `description` and, if wanted, `id` (otherwise made from
    the name), `tags` (otherwise the id), `examples`, `input_modes` and `output_modes`; what follows becomes the skill's
    `instructions`. A `.yaml` file has one skill or a list of them, with `instructions` as one more field.
    Other fields, such as those that other tools keep there, are left alone.

    Args:
        beside: a file or folder that a relative path starts from; the working directory by default.

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
    return unique([_skill(entry, at) for entry, at in zip(entries, where, strict=True)], str(file))


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
    except (LookupError, AttributeError) as error:  # of `!!bool maybe`, say
        raise HandlerError(f"{file} is no YAML: a value is not of the type that its tag names.") from error


def _skill(entry: Any, where: str) -> Skill:
    if not isinstance(entry, dict):
        raise HandlerError(f"{where} must have fields, such as name: and description:; it is {_kind(entry)}.")
    for name in NEEDED:
        if not entry.get(name):
            raise HandlerError(f"{where}: {name} is missing.")
    texts = {name: entry[name] for name in (*TEXTS, "instructions") if entry.get(name) is not None}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise HandlerError(f"{where}: {name} must be text, not {_kind(value)}.")
    lists = {LISTS[name]: _list(value, f"{where}: {name}") for name, value in entry.items() if name in LISTS}
    known_as = texts.get("id") or "-".join(texts["name"].lower().split())
    lists["tags"] = lists.get("tags") or [known_as]
    return Skill(**{**texts, "id": known_as, **lists})


def _list(value: Any, where: str) -> list[str]:
    values = [value] if isinstance(value, str) else (value if value is not None else [])
    if not isinstance(values, list) or not all(isinstance(one, str) and one for one in values):
        raise HandlerError(f"{where} must be a list of texts.")
    return values


def _kind(value: Any) -> str:
    return "empty" if value is None else f"a {type(value).__name__}"
