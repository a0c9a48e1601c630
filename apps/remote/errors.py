"""How a call to a remote agent can fail; `str()` is a sentence for people that says what happened, without secrets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class RemoteError(Exception):
    """A call to a remote agent came to nothing.

    Attributes:
        code: a stable word for programs.
        is_transient: may the same call succeed a little later?
        was_sent: did the agent get the request? None where nobody can know: it may have, and may have acted on it.
    """

    code: ClassVar[str] = "remote_error"
    is_transient: bool = False
    was_sent: bool | None = None

    def __init__(self, message: str, *, is_transient: bool | None = None) -> None:
        super().__init__(message)
        if is_transient is not None:
            self.is_transient = is_transient


class Unreachable(RemoteError):
    """No connection to the agent came about, so nothing was sent."""

    code = "agent_unreachable"
    is_transient = True
    was_sent = False


class CutOff(RemoteError):
    """The request was sent; then the connection broke, or the agent fell silent or became too slow."""

    code = "connection_lost"
    is_transient = True


class Refused(RemoteError):
    """The agent answered with an error of A2A, JSON-RPC or HTTP.

    Attributes:
        reason: what A2A calls it (`TASK_NOT_FOUND`, …), "HTTP_418" for a bare status, "JSONRPC_-32050" for a bare code.
        status: of HTTP; that of JSON-RPC's errors is mostly 200.
        said: what the agent says about it, cut and without control characters; "" for nothing.
    """

    code = "agent_refused"
    was_sent: bool | None = True

    def __init__(
        self, message: str, *, reason: str, status: int, said: str = "", is_transient: bool | None = None
    ) -> None:
        super().__init__(message, is_transient=is_transient)
        self.reason = reason
        self.status = status
        self.said = said
        if self.is_transient:  # a server or a proxy that broke down may have begun the work
            self.was_sent = None


class Unauthorized(RemoteError):
    """The agent wants a credential, or takes this one as too little.

    Attributes:
        status: 401 or 403; 401 where the card asks for a credential and there is none to send.
        challenge: the agent's `WWW-Authenticate`, cut; "" for none.
        schemes: names of the card's security schemes of which one is wanted, where that is known.
    """

    code = "agent_unauthorized"
    was_sent = False
    is_answer: ClassVar[bool] = True  # the agent said so; where it was not even asked, nothing is known of it

    def __init__(self, message: str, *, status: int = 401, challenge: str = "", schemes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.challenge = challenge
        self.schemes = tuple(schemes)


class Overloaded(RemoteError):
    """The agent takes no more work now (429, 503).

    Attributes:
        retry_after: seconds after which it wants to be asked again, at most a day; None where it does not say.
    """

    code = "agent_overloaded"
    is_transient = True

    def __init__(self, message: str, *, status: int = 503, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        # 429 is said before anything is done. 503 may come from a proxy whose connection to the agent broke.
        self.was_sent = False if status == 429 or retry_after is not None else None


class Misbehaved(RemoteError):
    """The agent answered with what A2A does not allow, or with more than is taken."""

    code = "agent_misbehaved"
    was_sent = True


class BadCard(RemoteError):
    """The agent's card cannot be used."""

    code = "bad_card"
    was_sent = False


class CircuitOpen(RemoteError):
    """The agent failed again and again, so that it is not called for a while.

    Attributes:
        retry_after: seconds until it is tried again.
    """

    code = "circuit_open"
    is_transient = True
    was_sent = False

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
