"""How a turn ends, and what a handler may return to say so."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit import credentials, directives, slots
from agentkit.artifacts import Artifact
from agentkit.credentials import AuthType
from agentkit.errors import InvalidAnswer
from agentkit.parts import Part, text_part
from agentkit.slots import Slot

type Words = str | list[Part] | None

RETURNABLE = "an outcome (Completed, InputRequired, …), text, a dict, an Artifact, a list of Artifacts, or None"


class _Spoken:
    """An outcome carries words for the person or agent who asked, and metadata of the message that they become."""

    message: Words
    metadata: dict[str, Any]

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
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Asking(_Spoken):
    """`slot` and `schema` as they are kept; `value` is the data of a slot that is a Pydantic instance."""

    message: Words
    slot: Slot = "input"
    schema: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    value: Any = None

    def __post_init__(self) -> None:
        kept = slots.stored(self.slot, self.schema)
        object.__setattr__(self, "slot", kept["name"])
        object.__setattr__(self, "schema", kept.get("schema"))
        object.__setattr__(self, "value", kept.get("value", self.value))


@dataclass(frozen=True)
class InputRequired(_Asking):
    """The task waits for an answer, which arrives with `task.slot` set to the name of this `slot`.

    `slot` is a str, an Enum member, or a Pydantic model (class or instance), see `agentkit.slots`; once created, the
    outcome has the slot's name there. `schema` is a JSON Schema of the answer; people are shown a form made from it.
    """


@dataclass(frozen=True)
class AuthRequired(_Asking):
    """The task waits for a credential, after which it goes on with `task.slot` set to the name of this `slot`.

    With a `service`, the host asks for it by a link of its own, keeps it, and gives it by `task.credential(service)`.
    Without one the message says where to go, and the task goes on when somebody answers it.

    Raises:
        ValueError: `auth_type` is none of `api_key`, `bearer` and `basic`, or the service's name is unfit.
    """

    slot: Slot = "credential"
    service: str = field(default="", kw_only=True)
    auth_type: AuthType = field(default="api_key", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        credentials.check(self.service, self.auth_type)


@dataclass(frozen=True)
class Failed(_Spoken):
    """It could not be done; `code` is a stable word for programs, `detail` is for operators and told to nobody else."""

    message: Words
    code: str = "failed"
    metadata: dict[str, Any] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True)
class Rejected(_Spoken):
    """The agent declines to do it."""

    message: Words
    metadata: dict[str, Any] = field(default_factory=dict)


Outcome = Completed | InputRequired | AuthRequired | Failed | Rejected


class AgentFailure(Exception):
    """Raised in a handler to fail the task with a message for people; `detail` is for operators alone."""

    def __init__(self, message: str, code: str = "failed", detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail


def as_outcome(value: object) -> Outcome:
    """What a handler returned, as an outcome.

    Text is the message and an artifact called `answer`; a dict or an artifact is delivered as it is. A dict, or JSON in
    text, that has a `state` such as `input-required` becomes that outcome: `agentkit.directives` says exactly when.
    Whoever passes on what others wrote returns `Completed(text)`, which nothing is read from.

    Raises:
        InvalidAnswer: it is nothing that a handler may return.
    """
    if isinstance(value, Outcome):
        return value
    if value is None:
        return Completed()
    if isinstance(value, str | dict) and (directive := directives.directive_in(value)):
        return _directed(directive)
    if isinstance(value, str):
        return answered(value)
    if isinstance(value, dict):
        return Completed(artifacts=[Artifact.json("answer", value)])
    if isinstance(value, Artifact):
        return Completed(artifacts=[value])
    if isinstance(value, list | tuple) and all(isinstance(item, Artifact) for item in value):
        return Completed(artifacts=list(value))
    raise InvalidAnswer(f"A handler may return {RETURNABLE}; this one returned {type(value).__name__}.")


def answered(text: str) -> Completed:
    """Text as the message and as the artifact `answer`."""
    return Completed(text, [Artifact.text("answer", text)])


def _directed(directive: directives.Directive) -> Outcome:
    said, metadata = directive.message, directive.metadata
    match directive.state:
        case "input-required":
            return InputRequired(said, directive.slot or "input", directive.schema, metadata)
        case "auth-required":
            wanted = credentials.wanted(metadata.get("service"), metadata.get("auth_type"))
            return AuthRequired(said, directive.slot or "credential", directive.schema, metadata, **wanted)
        case "failed":
            return Failed(said, directive.code or "failed", metadata)
        case "rejected":
            return Rejected(said, metadata)
        case "completed":
            return answered(said)
