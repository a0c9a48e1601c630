"""What steps delivered: as templates read it, and whether it is what the plan wants of them."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.plans.definitions import Check
from apps.record import answers
from apps.record.parts import known_media_type

JSON = dict[str, Any]

MOST_NAMED = 20


@dataclass(frozen=True, slots=True, eq=False)
class ArtifactResult:
    """An artifact of a step.

    Attributes:
        text: of its parts that are text; of a file too, where its media type, or else its name, says that it is text.
        data: its first JSON.
        parts: as A2A has them.
    """

    name: str = ""
    media_type: str = ""
    text: str = ""
    data: Any = None
    parts: Sequence[JSON] = ()

    @classmethod
    def of(cls, name: str, parts: Sequence[JSON]) -> ArtifactResult:
        """From A2A parts with their content in them."""
        first_type = next((given for part in parts if (given := known_media_type(part))), "")
        texts = [text for part in parts if (text := _text_of(part)) is not None]
        data = next((part["data"] for part in parts if "data" in part), None)
        return cls(name, first_type, "\n".join(texts), data, tuple(parts))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """How a step ended: `text` is what its agent said at the end, `data` the first JSON of its artifacts."""

    key: str = ""
    state: str = ""
    text: str = ""
    data: Any = None
    artifacts: Sequence[ArtifactResult] = ()

    @classmethod
    def of(cls, key: str, state: str, text: str, artifacts: Sequence[ArtifactResult]) -> StepResult:
        data = next((artifact.data for artifact in artifacts if artifact.data is not None), None)
        return cls(key, state, text, data, tuple(artifacts))

    def __str__(self) -> str:
        return self.text


class _Absent:
    """Of a name that a template is not given."""


ABSENT = _Absent()


def names_for(
    inputs: Mapping[str, Any],
    steps: Mapping[str, StepResult | Sequence[StepResult]],
    *,
    item: Any = ABSENT,
    index: int | _Absent = ABSENT,
    last: StepResult | _Absent | None = ABSENT,
) -> JSON:
    """The names of a step's templates. Of a fan-out a list of results stands for the step.

    Args:
        item, index: of a fan-out, its element and which one it is, from 0.
        last: of a repetition, what the round before gave; None in the first.
    """
    names = {"inputs": {"text": "", "files": [], **inputs}, "steps": dict(steps)}
    optional = {"item": item, "index": index, "last": last}
    return names | {name: given for name, given in optional.items() if given is not ABSENT}


def _text_of(part: JSON) -> str | None:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part.get("raw"), str) and known_media_type(part).startswith("text/"):
        try:
            return base64.b64decode(part["raw"]).decode("utf-8-sig", "replace")
        except ValueError:
            return None
    return None


def problem_with(check: Check, artifacts: Sequence[ArtifactResult]) -> str:
    """Why these artifacts are not what is wanted, as a sentence; empty where they are."""
    if not artifacts:
        return "There is no artifact."
    artifact = next((one for one in artifacts if check.artifact in ("", one.name)), None)
    if artifact is None:
        return f"There is no artifact `{check.artifact}`; there are {_listed(one.name for one in artifacts)}."
    what = f"The artifact `{artifact.name}`" if artifact.name else "The artifact"
    return (
        _problem_with_type(check.media_type, artifact, what)
        or _problem_with_data(check.json_schema, artifact, what)
        or _problem_with_columns(check.columns, artifact, what)
    )


def _problem_with_type(wanted: str, artifact: ArtifactResult, what: str) -> str:
    if not wanted:
        return ""
    there = [*dict.fromkeys(one for one in (artifact.media_type, *map(known_media_type, artifact.parts)) if one)]
    least = wanted.lower()
    family = least.removesuffix("*") if least.endswith("/*") else None
    if any(one == least or least == "*/*" or (family and one.startswith(family)) for one in there):
        return ""
    return f"{what} is {_listed(there) if there else 'of no stated media type'}; it has to be `{wanted}`."


def _problem_with_data(schema: JSON | None, artifact: ArtifactResult, what: str) -> str:
    if schema is None:
        return ""
    if artifact.data is None:
        return f"{what} holds no JSON."
    for steps, sentence in answers.problems(schema, artifact.data):
        return f"{what}, at `{_json_path(steps)}`: {sentence}"
    return ""


def _problem_with_columns(wanted: Sequence[str], artifact: ArtifactResult, what: str) -> str:
    if not wanted:
        return ""
    header = columns_of(artifact.text)
    missing = [name for name in wanted if name not in header]
    if not missing:
        return ""
    if not header:
        return f"{what} is no CSV file; it has to have the columns {_listed(wanted)}."
    noun = "column" if len(missing) == 1 else "columns"
    return f"{what} has no {noun} {_listed(missing)}; it has {_listed(header)}."


def columns_of(text: str) -> list[str]:
    """The names in the first line of a CSV file, between commas, semicolons or tabs; empty of what is none."""
    line = next((line for line in text.removeprefix("\ufeff").splitlines() if line.strip()), "")
    delimiter = max(",;\t", key=line.count)
    try:
        return [name.strip() for name in next(csv.reader(io.StringIO(line), delimiter=delimiter), [])]
    except csv.Error:
        return []


def _json_path(steps: Iterable[Any]) -> str:
    """RFC 9535, of plain names."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _listed(names: Iterable[str]) -> str:
    listed = [f"`{name}`" for name in names]
    return ", ".join(listed[:MOST_NAMED]) + (", …" if len(listed) > MOST_NAMED else "")
