"""How a turn ends, and what a handler may return to say so."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentkit.artifacts import Artifact
from agentkit.parts import Part, text_part

type Words = str | list[Part] | None

RETURNABLE = "an outcome (Completed, InputRequired, …), text, a dict, an Artifact, a list of Artifacts, or None"


class _Spoken:
    """An outcome carries words for the person or agent who asked."""

    message: Words

    @property
    def parts(self) -> list[Part]:
        """The message as parts; none when there is no message."""
        if self.message is None:
            return []
        return [text_part(self.message)] if isinstance(self.message, str) else list(self.message)


@dataclass(frozen=True)
class Completed(_Spoken):
    """The work is done. Artifacts that were streamed on the way count too and need no mention here."""

    message: Words = None
    artifacts: Sequence[Artifact] = ()


@dataclass(frozen=True)
class InputRequired(_Spoken):
    """The task waits for an answer, which arrives with `task.slot` set to this `slot`.

    `schema` is a JSON Schema of the answer; people are shown a form made from it.
    """

    message: Words
    slot: str = "input"
    schema: dict[str, Any] | None = None


@dataclass(frozen=True)
class AuthRequired(_Spoken):
    """The task waits for a credential, which arrives with `task.slot` set to this `slot`."""

    message: Words
    slot: str = "credential"
    schema: dict[str, Any] | None = None


@dataclass(frozen=True)
class Failed(_Spoken):
    """It could not be done; `code` is a stable word for programs, `detail` is for operators and told to nobody else."""

    message: Words
    code: str = "failed"
    detail: str = ""


@dataclass(frozen=True)
class Rejected(_Spoken):
    """The agent declines to do it."""

    message: Words


Outcome = Completed | InputRequired | AuthRequired | Failed | Rejected


class AgentFailure(Exception):
    """Raised in a handler to fail the task with a message for people; `detail` is for operators alone."""

    def __init__(self, message: str, code: str = "failed", detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail


def as_outcome(value: object) -> Outcome:
    """What a handler returned, as an outcome.

    Raises:
        TypeError: it is nothing that a handler may return.
    """
    if isinstance(value, Outcome):
        return value
    if value is None:
        return Completed()
    if isinstance(value, str):
        return Completed(value, [Artifact.text("answer", value)])
    if isinstance(value, dict):
        return Completed(artifacts=[Artifact.json("answer", value)])
    if isinstance(value, Artifact):
        return Completed(artifacts=[value])
    if isinstance(value, list | tuple) and all(isinstance(item, Artifact) for item in value):
        return Completed(artifacts=list(value))
    raise TypeError(f"A handler may return {RETURNABLE}; this one returned {type(value).__name__}.")
