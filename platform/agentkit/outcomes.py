"""Outcomes of a turn, values that handlers may return, and credentials."""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, cast, get_args
from urllib.parse import urlsplit

from agentkit import directives, slots
from agentkit.content.messages import Artifact, Part
from agentkit.errors import InvalidAnswer
from agentkit.slots import Slot

AuthType = Literal["api_key", "bearer", "basic"]
AUTH_TYPES: tuple[str, ...] = get_args(AuthType)
MAX_SERVICE_LENGTH = 100  # characters of a service's name


@dataclass(frozen=True)
class Credential:
    """A credential for a service. Its `repr` hides the secret.

    Attributes:
        service: the name that the agent asked for.
        auth_type: `api_key`, `bearer` or `basic`.
        secret: the key, token or password.
        username: for `basic`; otherwise empty.
        hosts: where it may be sent; empty if nobody said.
    """

    service: str
    auth_type: AuthType
    secret: str = field(repr=False)
    username: str = field(default="", repr=False)
    hosts: tuple[str, ...] = ()

    def headers_for(self, url: str) -> dict[str, str]:
        """The `Authorization` header for a request to `url`.

        Raises:
            ValueError: the credential may not be sent to that host, or it is an API key.
        """
        host = urlsplit(url).netloc.rpartition("@")[2].lower()
        if self.hosts and host not in self.hosts:
            raise ValueError(
                f"The credential for {self.service} is not sent to {host}: it is for {', '.join(self.hosts)}."
            )
        return {"Authorization": self.authorization}

    @property
    def authorization(self) -> str:
        """The HTTP `Authorization` header's value (RFC 6750, RFC 7617).

        Raises:
            ValueError: it is an API key, which each service expects elsewhere; use `secret`.
        """
        if self.auth_type == "bearer":
            return f"Bearer {self.secret}"
        if self.auth_type == "basic":
            return "Basic " + base64.b64encode(f"{self.username}:{self.secret}".encode()).decode()
        raise ValueError(f"{self.service} says where its API key goes: put credential.secret there.")


Lend = Callable[[str], Awaitable[Credential | None]]
"""Given by the host: the credential that the task's owner gave this agent for a service, or None."""


async def lend_none(service: str) -> None:
    """Without credentials."""


def check_service(service: str, auth_type: str) -> None:
    """Raises ValueError for an unfit service name or type."""
    if auth_type not in AUTH_TYPES:
        raise ValueError(f"The auth_type of a credential is one of {', '.join(AUTH_TYPES)}; not {auth_type!r}.")
    if len(service) > MAX_SERVICE_LENGTH or any(unicodedata.category(letter).startswith("C") for letter in service):
        raise ValueError(f"Name the service in one line of at most {MAX_SERVICE_LENGTH} characters.")


class CredentialRequest(TypedDict, total=False):
    """The fields of `AuthRequired` for a credential that a host can ask for."""

    service: str
    auth_type: AuthType


def credential_request(service: object, auth_type: object) -> CredentialRequest:
    """A directive's credential; empty if the host cannot ask for it."""
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


NO_ANSWER = "Completed without an answer."
CLARIFY, REJECTED = "clarify", "rejected"
"""The codes of negotiation's questions and of refusals, in `metadata.error.code` of their messages."""


def with_error_code(metadata: dict[str, Any], code: str) -> dict[str, Any]:
    """The metadata with `error.code`, which programs read."""
    error = metadata.get("error")
    return metadata | {"error": (error if isinstance(error, dict) else {}) | {"code": code}}


class _WithMessage:
    """An outcome has a message for the sender, with metadata."""

    message: Words
    metadata: dict[str, Any]

    @property
    def message_metadata(self) -> dict[str, Any]:
        """The message's metadata; that of a failure or refusal has its code in `error.code`."""
        code = self.code if isinstance(self, Failed) else REJECTED if isinstance(self, Rejected) else ""
        return with_error_code(self.metadata, code) if code else self.metadata

    @property
    def parts(self) -> list[Part]:
        """The message as parts; none without a message."""
        if self.message is None:
            return []
        return [{"text": self.message}] if isinstance(self.message, str) else list(self.message)


@dataclass(frozen=True)
class Completed(_WithMessage):
    """The work is done. Streamed artifacts are delivered too; do not repeat them.

    Attributes:
        by: the task of a called agent whose answer this is, unchanged (see `ChildResult.passed_on`).
    """

    message: Words = None
    artifacts: Sequence[Artifact] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    by: str = ""


@dataclass(frozen=True)
class _Question(_WithMessage):
    """`slot` and `schema` as stored; `value` is the data of a Pydantic instance."""

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
    """The task waits for an answer. In the next turn, `task.slot` is the slot's name.

    Attributes:
        slot: a str, an Enum member, or a Pydantic model (class or instance), see `agentkit.slots`. The created outcome
            has its name.
        schema: a JSON Schema of the answer, which becomes a form.
        calls: tool calls that people must approve; only `LlmWorker` sets it.
        repeats: the turn starts again after the answer; only `LlmWorker` sets it.
    """

    calls: Sequence[dict[str, Any]] = field(default_factory=list, kw_only=True)
    repeats: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class AuthRequired(_Question):
    """The task waits for a credential. In the next turn, `task.slot` is the slot's name.

    With a `service`, the host asks by its own link, stores the credential, and returns it from
    `task.credential(service)`. Without one, the message says where to go, and the task continues with an answer.

    Raises:
        ValueError: `auth_type` is not `api_key`, `bearer` or `basic`, or the service's name is unfit.
    """

    slot: Slot = "credential"
    service: str = field(default="", kw_only=True)
    auth_type: AuthType = field(default="api_key", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_service(self.service, self.auth_type)


PAYMENT = "payment"
"""The slot's name of every `PaymentRequired`."""


@dataclass(frozen=True)
class PaymentRequired(InputRequired):
    """The task waits for a payment by x402. In the next turn, `task.slot` is `payment` and `task.payment` the receipt.

    The host asks, has the payment verified and settled by its facilitator, and continues the task. If the host takes
    no payments, the task fails.

    Attributes:
        amount: in the asset's smallest unit, such as `"10000"` for 0.01 USDC.
        asset: the token's address on the network.
        network: as x402 names it, such as `base`.
        pay_to: the address that receives it.
        description: what is paid for.
        seconds: how long a payment may take.
        extra: what the scheme `exact` needs of the asset, such as `{"name": "USDC", "version": "2"}` (EIP-712).

    Raises:
        ValueError: the amount is not a positive whole number, or asset, network or address is missing.
    """

    amount: str | int = field(kw_only=True)
    asset: str = field(kw_only=True)
    network: str = field(kw_only=True)
    pay_to: str = field(kw_only=True)
    description: str = field(default="", kw_only=True)
    seconds: int = field(default=600, kw_only=True)
    extra: dict[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "slot", PAYMENT)
        object.__setattr__(self, "amount", str(self.amount))
        super().__post_init__()
        if not re.fullmatch(r"[1-9][0-9]{0,77}", str(self.amount)):
            raise ValueError("The amount of a payment is a positive whole number, in the asset's smallest unit.")
        if not all(isinstance(one, str) and one for one in (self.asset, self.network, self.pay_to)):
            raise ValueError("A payment needs an asset, a network and the address that it goes to.")


@dataclass(frozen=True)
class Failed(_WithMessage):
    """The work failed. `code` is a stable word for programs; only operators see `detail`."""

    message: Words
    code: str = "failed"
    metadata: dict[str, Any] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True)
class Rejected(_WithMessage):
    """The agent declines the task."""

    message: Words
    metadata: dict[str, Any] = field(default_factory=dict)


Outcome = Completed | InputRequired | AuthRequired | Failed | Rejected
"""How a turn ends."""


def as_outcome(value: object) -> Outcome:
    """A handler's return value as an outcome.

    Text becomes the message and an artifact called `answer`. A dict or an artifact is delivered. A dict (or JSON text)
    with a key `state` is an outcome (rules: `agentkit.directives`). To return text you did not write, use
    `Completed(text)`: it is never interpreted.

    Raises:
        InvalidAnswer: handlers may not return this.
    """
    if isinstance(value, Outcome):
        return value
    if value is None:
        return Completed()
    if isinstance(value, dict) and (mistake := directives.mistake_in(value)):
        raise InvalidAnswer(mistake)
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
    return Completed(text, [Artifact.text("answer", text)])


def _payment_outcome(said: str, metadata: dict[str, Any], asked: dict[str, Any]) -> PaymentRequired:
    """Raises InvalidAnswer."""
    try:
        return PaymentRequired(said, metadata=metadata, **asked)
    except (TypeError, ValueError) as mistake:
        why = mistake if isinstance(mistake, ValueError) else f"Give {', '.join(directives.PAYMENT_KEYS[:4])}."
        raise InvalidAnswer(f"A dict asks for a payment in a wrong way. {why}") from mistake


def _directive_outcome(directive: directives.Directive) -> Outcome:
    said, metadata = directive.message, directive.metadata
    match directive.state:
        case "input-required":
            return InputRequired(said, directive.slot or "input", directive.schema, metadata)
        case "auth-required":
            wanted = credential_request(metadata.get("service"), metadata.get("auth_type"))
            return AuthRequired(said, directive.slot or "credential", directive.schema, metadata, **wanted)
        case "payment-required":
            return _payment_outcome(said, metadata, directive.data)
        case "failed":
            return Failed(said, directive.code or "failed", metadata)
        case "rejected":
            return Rejected(said, metadata)
        case "completed" if directive.data is not None:
            return Completed(said, [Artifact.json("answer", directive.data)], metadata)
        case "completed":
            return text_outcome(said)
