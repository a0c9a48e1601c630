"""Typed results, files and choices that the agents of a plan pass on to each other."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from agentkit import AgentFailure, Artifact, File, Message, TaskContext, UnreadableContent
from examples.texts import cut


def one_line(text: str) -> str:
    """The text on one line, without invisible characters."""
    return cut(text, max(len(text), 1))


Line = Annotated[str, AfterValidator(one_line)]


class Result(BaseModel):
    """The result of one agent, delivered as JSON. `MAKER` names the agent in error messages."""

    MAKER: ClassVar[str] = ""

    model_config = ConfigDict(frozen=True)

    kind: str

    @classmethod
    def called(cls) -> str:
        """Its kind, which is also the file name without its ending."""
        return str(cls.model_fields["kind"].default)


def needed[R: Result](task: TaskContext, wanted: type[R]) -> R:
    """The nearest result of that kind. Raises AgentFailure if it is missing or invalid."""
    if found := optional(task, wanted):
        return found
    raise AgentFailure(
        f"I need {wanted.called()}.json, which the agent {wanted.MAKER} delivers: send it along as JSON, or refer to "
        "the task that delivered it.",
        "missing_input",
    )


def optional[R: Result](task: TaskContext, wanted: type[R]) -> R | None:
    """The nearest result of that kind, or None. Raises AgentFailure if it is invalid."""
    for value in _data(task):
        if isinstance(value, dict) and value.get("kind") == wanted.called():
            try:
                return wanted.model_validate(value)
            except ValidationError as error:
                where = ".".join(map(str, error.errors()[0]["loc"])) or "as a whole"
                raise AgentFailure(
                    f"The {wanted.called()} that I was given cannot be read ({cut(where, 80)} is not as it should "
                    f"be): take it as the agent {wanted.MAKER} delivered it.",
                    "unreadable_input",
                ) from None
    return None


def files(task: TaskContext) -> list[File]:
    """The files of this turn, or else all earlier ones, nearest first."""
    if task.files:
        return task.files
    delivered = [file for reference in task.references for one in reference.artifacts for file in one.files]
    return [*task.all_files, *delivered]


def picture(task: TaskContext, name: str) -> bytes | None:
    for file in [*files(task), *(one for each in task.references for art in each.artifacts for one in art.files)]:
        if file.name == name and file.media_type == "image/png":
            try:
                content = file.read()
            except UnreadableContent:
                continue
            return content if content.startswith(b"\x89PNG\r\n\x1a\n") else None
    return None


def chosen[Option: str](task: TaskContext, field: str, options: Mapping[Option, Sequence[str]]) -> Option | None:
    """The option that this turn's message names, in a form or in words; None for none or several.

    Args:
        field: the name in the form.
        options: the words that name each option.
    """
    forms = [value for value in task.message.data if not (isinstance(value, dict) and "kind" in value)]
    filled_in = [value.get(field, "") if isinstance(value, dict) else value for value in forms]
    said = " ".join([*(one for one in filled_in if isinstance(one, str)), task.message.text]).casefold()
    named = [option for option, words in options.items() if any(word in said for word in words)]
    return named[0] if len(named) == 1 else None


def document(name: str, text: str, media_type: str = "text/markdown", description: str = "") -> Artifact:
    """A text file as an artifact. Other agents receive it as a file with this name."""
    return Artifact([{"text": text, "filename": name, "mediaType": media_type}], name, description)


def csv_table(name: str, rows: Sequence[Mapping[str, Any]]) -> Artifact:
    """A CSV file; numbers with six significant digits."""
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(rows[0] if rows else [])
    for row in rows:
        lines.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row.values()])
    return document(name, file.getvalue(), "text/csv")


def as_json(result: Result, description: str = "") -> Artifact:
    return Artifact.json(f"{result.called()}.json", result.model_dump(mode="json"), description=description)


def _data(task: TaskContext) -> Iterator[Any]:
    """All JSON of the task, its references and its history, nearest first."""
    yield from task.message.data
    for reference in task.references:
        for artifact in reference.artifacts:
            yield from artifact.data
    said: list[Message] = [*reversed(task.history)]
    said += [one for reference in task.references for one in reversed(reference.messages)]
    for message in said:
        yield from message.data
