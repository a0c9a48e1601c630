"""How a turn ends, what a handler may return to say so, and the credentials that it may ask for."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, cast, get_args

from agentkit import directives, slots
from agentkit.errors import InvalidAnswer
from agentkit.messages import Artifact, Part, text_part
from agentkit.slots import Slot

AuthType = Literal["api_key", "bearer", "basic"]
AUTH_TYPES: tuple[str, ...] = get_args(AuthType)
LONGEST_SERVICE = 100  # characters of a service's name


@dataclass(frozen=True)
class Credential:
    """What a service wants to see. Nothing that is shown or logged of it tells the secret.

    Attributes:
        service: the service's name, as the agent asked for it.
        auth_type: `api_key`, `bearer` or `basic`.
        secret: the key, the token or the password.
        username: of `basic`; otherwise empty.
    """

    service: str
    auth_type: AuthType
    secret: str = field(repr=False)
    username: str = field(default="", repr=False)

    @property
    def authorization(self) -> str:
        """The value of an HTTP `Authorization` header (RFC 6750, RFC 7617).

        Raises:
            ValueError: an API key has no place that all services share; take `secret`.
        """
        if self.auth_type == "bearer":
            return f"Bearer {self.secret}"
        if self.auth_type == "basic":
            return "Basic " + base64.b64encode(f"{self.username}:{self.secret}".encode()).decode()
        raise ValueError(f"{self.service} says where its API key goes: put credential.secret there.")


Lend = Callable[[str], Awaitable[Credential | None]]
"""Given by the host: the credential for a service that the task's owner gave to this agent, if there is one."""


async def lend_none(service: str) -> None:
    """For a task that nobody gave anything."""


def check_service(service: str, auth_type: str) -> None:
    """Raises ValueError, which says what to write, for a service or a type that cannot be asked for."""
    if auth_type not in AUTH_TYPES:
        raise ValueError(f"The auth_type of a credential is one of {', '.join(AUTH_TYPES)}; not {auth_type!r}.")
    if len(service) > LONGEST_SERVICE or any(unicodedata.category(letter).startswith("C") for letter in service):
        raise ValueError(f"Name the service in one line of at most {LONGEST_SERVICE} characters.")


class CredentialRequest(TypedDict, total=False):
    """What `AuthRequired` is given of a credential that a host can ask for."""

    service: str
    auth_type: AuthType


def credential_request(service: object, auth_type: object) -> CredentialRequest:
    """What a directive asks for, where a host can ask for that; otherwise its words have to do."""
    if not isinstance(service, str) or not service:
        return {}
    kind = str(auth_type or "api_key")
    try:
        check_service(service, kind)
    except ValueError:
        return {}
    return {"service": service, "auth_type": cast(AuthType, kind)}


type Words = str | list[Part] | None

RETURNABLE = "an outcome (Completed, InputRequired, …), text, a dict, an Artifact, a list of Artifacts, or None"


class _WithMessage:
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
class Completed(_WithMessage):
    """The work is done. Artifacts that were streamed on the way count too and need no mention here."""

    message: Words = None
    artifacts: Sequence[Artifact] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Question(_WithMessage):
    """`slot` and `schema` as they are kept; `value` is the data of a slot that is a Pydantic instance."""

    message: Words
    slot: Slot = "input"
    schema: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    value: Any = None

    def __post_init__(self) -> None:
        kept = slots.stored_slot(self.slot, self.schema)
        object.__setattr__(self, "slot", kept["name"])
        object.__setattr__(self, "schema", kept.get("schema"))
        object.__setattr__(self, "value", kept.get("value", self.value))


@dataclass(frozen=True)
class InputRequired(_Question):
    """The task waits for an answer, which arrives with `task.slot` set to the name of this `slot`.

    `slot` is a str, an Enum member, or a Pydantic model (class or instance), see `agentkit.slots`; once created, the
    outcome has the slot's name there. `schema` is a JSON Schema of the answer; people are shown a form made from it.
    """


@dataclass(frozen=True)
class AuthRequired(_Question):
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
        check_service(self.service, self.auth_type)


@dataclass(frozen=True)
class Failed(_WithMessage):
    """It could not be done; `code` is a stable word for programs, `detail` is for operators and told to nobody else."""

    message: Words
    code: str = "failed"
    metadata: dict[str, Any] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True)
class Rejected(_WithMessage):
    """The agent declines to do it."""

    message: Words
    metadata: dict[str, Any] = field(default_factory=dict)


Outcome = Completed | InputRequired | AuthRequired | Failed | Rejected


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
        return _directive_outcome(directive)
    if isinstance(value, str):
        return text_outcome(value)
    if isinstance(value, dict):
        return Completed(artifacts=[Artifact.json("answer", value)])
    if isinstance(value, Artifact):
        return Completed(artifacts=[value])
    if isinstance(value, list | tuple) and all(isinstance(item, Artifact) for item in value):
        return Completed(artifacts=list(value))
    raise InvalidAnswer(f"A handler may return {RETURNABLE}; this one returned {type(value).__name__}.")


def text_outcome(text: str) -> Completed:
    """Text as the message and as the artifact `answer`."""
    return Completed(text, [Artifact.text("answer", text)])


def _directive_outcome(directive: directives.Directive) -> Outcome:
    said, metadata = directive.message, directive.metadata
    match directive.state:
        case "input-required":
            return InputRequired(said, directive.slot or "input", directive.schema, metadata)
        case "auth-required":
            wanted = credential_request(metadata.get("service"), metadata.get("auth_type"))
            return AuthRequired(said, directive.slot or "credential", directive.schema, metadata, **wanted)
        case "failed":
            return Failed(said, directive.code or "failed", metadata)
        case "rejected":
            return Rejected(said, metadata)
        case "completed":
            return text_outcome(said)
