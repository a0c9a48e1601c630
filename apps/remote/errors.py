"""How a call to a remote agent can fail; `str()` is a sentence for people, without secrets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class RemoteError(Exception):
    """A call to a remote agent failed.

    Attributes:
        code: a stable word for programs.
        is_transient: may the same call succeed a little later?
        was_sent: did the agent get the request? None: maybe, and it may have acted on it.
    """

    code: ClassVar[str] = "remote_error"
    loggable: ClassVar[bool] = True  # see `parley.telemetry.logs`; not where the sentence has the agent's own words
    is_transient: bool = False
    was_sent: bool | None = None

    def __init__(self, message: str, *, is_transient: bool | None = None) -> None:
        super().__init__(message)
        if is_transient is not None:
            self.is_transient = is_transient


class Unreachable(RemoteError):
    """There was no connection, so nothing was sent."""

    code = "agent_unreachable"
    is_transient = True
    was_sent = False


class CutOff(RemoteError):
    """The request was sent; then the connection broke or timed out."""

    code = "connection_lost"
    is_transient = True


class Refused(RemoteError):
    """The agent answered with an error of A2A, JSON-RPC or HTTP.

    Attributes:
        reason: A2A's name (`TASK_NOT_FOUND`, …), or "HTTP_418", or "JSONRPC_-32050".
        said: the agent's own words, cut and without control characters.
    """

    code = "agent_refused"
    loggable = False
    was_sent: bool | None = True

    def __init__(
        self, message: str, *, reason: str, status: int, said: str = "", is_transient: bool | None = None
    ) -> None:
        super().__init__(message, is_transient=is_transient)
        self.reason = reason
        self.status = status
        self.said = said
        if self.is_transient:  # the agent may have begun the work before it broke down
            self.was_sent = None


class Unauthorized(RemoteError):
    """The agent requires a credential, or does not accept this one.

    Attributes:
        status: 401 or 403.
        challenge: the agent's `WWW-Authenticate`, cut.
        schemes: names of the card's security schemes of which one is required, where known.
    """

    code = "agent_unauthorized"
    loggable = False
    was_sent = False
    is_answer: ClassVar[bool] = True  # does it come from the agent itself?

    def __init__(self, message: str, *, status: int = 401, challenge: str = "", schemes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.challenge = challenge
        self.schemes = tuple(schemes)


class Overloaded(RemoteError):
    """The agent takes no more work now (429, 503); `retry_after` in seconds, at most a day, where it says so.

    `is_cut`: a proxy says that its connection to the agent broke, so the agent may have the request.
    """

    code = "agent_overloaded"
    loggable = False
    is_transient = True

    def __init__(
        self, message: str, *, status: int = 503, retry_after: float | None = None, is_cut: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.was_sent = None if is_cut else False


class Misbehaved(RemoteError):
    """The agent's answer is not valid A2A, or too large."""

    code = "agent_misbehaved"
    was_sent = True


class Unsendable(RemoteError):
    """The message has numbers that would reach the agent as other ones."""

    code = "unsendable_numbers"
    was_sent = False


class OtherTask(Misbehaved):
    """The agent spoke of another task than the one that it was asked about."""


class BadCard(RemoteError):
    """The agent's card cannot be used, or is not there.

    Attributes:
        entry: the private host that it names, which operators can allow.
        offers: the addresses of other cards that are near.
    """

    code = "bad_card"
    was_sent = False

    def __init__(self, message: str, *, entry: str = "", offers: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.entry = entry
        self.offers = tuple(offers)


class CircuitOpen(RemoteError):
    """The agent failed repeatedly and is not called for `retry_after` seconds."""

    code = "circuit_open"
    is_transient = True
    was_sent = False

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class CredentialMissing(Unauthorized):
    """The card requires a credential that nobody gave, or that is no longer valid.

    `is_personal`: each person brings their own.
    """

    code = "credential_missing"
    was_sent = False
    is_answer = False

    def __init__(self, sentence: str, *, schemes: Sequence[str] = (), is_personal: bool = False) -> None:
        super().__init__(sentence, schemes=schemes)
        self.is_personal = is_personal


class WrongOrigin(RemoteError):
    """A request to another origin than the credential's; it was not sent."""

    code = "wrong_origin"
    was_sent = False


class TokenRefused(Unauthorized):
    """The authorization server refused the client."""

    code = "token_refused"
    was_sent = False
    is_answer = False


class TokenUnavailable(RemoteError):
    """The authorization server could not be reached, or its answer was invalid."""

    code = "token_unavailable"
    is_transient = True
    was_sent = False
