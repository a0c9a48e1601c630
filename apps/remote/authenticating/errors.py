"""Why Parley could not let itself in. Nothing was sent to the agent then."""

from __future__ import annotations

from collections.abc import Sequence

from apps.remote.errors import RemoteError, Unauthorized


class CredentialMissing(Unauthorized):
    """The card asks for a credential that nobody gave, or that is good no longer.

    Attributes:
        is_personal: is it one that the person has to bring who asked?
    """

    code = "credential_missing"
    was_sent = False
    is_answer = False

    def __init__(self, sentence: str, *, schemes: Sequence[str] = (), is_personal: bool = False) -> None:
        super().__init__(sentence, schemes=schemes)
        self.is_personal = is_personal


class WrongOrigin(RemoteError):
    """A request went to another address than its credential is for: it was not sent."""

    code = "wrong_origin"
    was_sent = False


class TokenRefused(Unauthorized):
    """The authorization server refused the client."""

    code = "token_refused"
    was_sent = False
    is_answer = False


class TokenUnavailable(RemoteError):
    """The authorization server could not be asked, or its answer was none."""

    code = "token_unavailable"
    is_transient = True
    was_sent = False
