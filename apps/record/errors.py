"""The errors of all edges: kind, sentence for people, and HTTP headers. Each edge maps kinds to its protocol."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum, auto
from typing import ClassVar

from django.core.exceptions import RequestAborted, RequestDataTooBig, TooManyFieldsSent
from django.db import InterfaceError, OperationalError

from apps.accounts.authentication import BadCredentials, NotSigned
from apps.accounts.bodies import BodyTooLarge
from apps.accounts.challenges import challenge
from apps.accounts.encryption import CannotDecrypt
from apps.accounts.permissions import NEEDED_FOR_SCOPE, Permission, missing_permission
from apps.accounts.principals import SCOPES, Principal
from apps.accounts.quotas import QuotaExceeded
from apps.limits.current import Exceeded


class Kind(Enum):
    INVALID = auto()
    NOT_FOUND = auto()
    CONFLICT = auto()
    TOO_LARGE = auto()
    UNAUTHENTICATED = auto()
    FORBIDDEN = auto()
    TOO_MANY = auto()
    UNAVAILABLE = auto()
    INTERNAL = auto()


class Refusal(Exception):
    """A request that cannot be done; nothing was stored. `str()` is a sentence for people."""

    kind: ClassVar[Kind] = Kind.INVALID

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.__doc__)


class MissingScope(Refusal):
    """The caller's credential lacks `scope`."""

    kind = Kind.FORBIDDEN

    def __init__(self, scope: str) -> None:
        super().__init__(f"Your API key or token is missing the scope {scope}, to {SCOPES[scope]}.")
        self.scope = scope


class MissingRole(Refusal):
    """The caller's role in the workspace does not permit this."""

    kind = Kind.FORBIDDEN

    def __init__(self, permission: Permission) -> None:
        super().__init__(missing_permission(permission))


def check_allowed(principal: Principal, scope: str, permission: Permission | None = None) -> None:
    """Whether the credential has the scope, and the role in the workspace a permission, by default that of the scope.

    What anonymous callers may do, the agent says. Raises MissingScope, MissingRole.
    """
    if not principal.may(scope):
        raise MissingScope(scope)
    needed = permission or NEEDED_FOR_SCOPE.get(scope, Permission.READ)
    if principal.is_known and not principal.can(needed):
        raise MissingRole(needed)


class TaskNotFound(Refusal):
    """There is no such task."""

    kind = Kind.NOT_FOUND


class ContextNotFound(Refusal):
    """There is no such conversation."""

    kind = Kind.NOT_FOUND


class MessageNotFound(Refusal):
    """There is no such message."""

    kind = Kind.NOT_FOUND


class TaskNotCancelable(Refusal):
    """The task has ended, so it cannot be canceled."""

    kind = Kind.CONFLICT


class UnsupportedOperation(Refusal):
    """The task does not allow this in its current state."""

    kind = Kind.CONFLICT


class TaskFinished(UnsupportedOperation):
    """The task has ended. Send the message without a taskId, with the task's id in referenceTaskIds."""


class AlreadyAnswered(UnsupportedOperation):
    """This question was already answered or withdrawn. Your answer was not used. Reload to see the current state."""


class AlreadyApproved(UnsupportedOperation):
    """You approved this call already. Another person must approve it too."""


class ApproverUnknown(UnsupportedOperation):
    """Only somebody who is signed in may decide about a tool call. A member of the agent's workspace can do it."""


class TaskBusy(UnsupportedOperation):
    """The agent does not accept messages while it works. Wait until the task asks a question or ends."""


class TaskWaits(TaskBusy):
    """The task waits for others to end. Write to it when it has begun."""


class CredentialRequired(UnsupportedOperation):
    """The task waits for a credential. Do not send it in a message: open the link in the task's status message."""


class PaymentMissing(UnsupportedOperation):
    """The task waits for a payment. Send a message with x402.payment.payload in its metadata, or cancel the task."""


class PaymentUsed(UnsupportedOperation):
    """This payment was used already. Sign a new one for what the task asks now."""


class PaymentUnderWay(UnsupportedOperation):
    """An earlier payment of this task is under way, or its result is unknown. Send that one again in two minutes."""


class NotAccepting(Refusal):
    """The agent does no new work at the moment. Try again later."""

    kind = Kind.UNAVAILABLE


class FacilitatorUnreachable(NotAccepting):
    """Nobody knows yet whether the payment was made. Send the same payment again in two minutes, and no other."""


class LimitReached(NotAccepting):
    """A limit is reached. What is sent again later may be accepted."""

    kind = Kind.TOO_MANY

    def __init__(self, exceeded: Exceeded) -> None:
        super().__init__(str(exceeded))
        self.exceeded = exceeded


class ContentTypeNotSupported(Refusal):
    """The agent does not accept this media type."""


class UploadNotFound(Refusal):
    """There is no such upload, or it has expired. Send the file again."""

    kind = Kind.NOT_FOUND


class FileTooLarge(Refusal):
    """The file is too large."""

    kind = Kind.TOO_LARGE


class StorageFull(Refusal):
    """The workspace has no room for this file."""

    kind = Kind.TOO_LARGE

    def __init__(self, exceeded: Exceeded) -> None:
        super().__init__(str(exceeded))
        self.exceeded = exceeded


class BudgetSpent(Refusal):
    """The budget for language models is spent for this month."""

    kind = Kind.TOO_MANY

    def __init__(self, exceeded: Exceeded) -> None:
        super().__init__(str(exceeded))
        self.exceeded = exceeded


class WrongOffset(Refusal):
    """The upload is at another offset, or another request is writing to it. `offset` is where it continues."""

    kind = Kind.CONFLICT

    def __init__(self, offset: int) -> None:
        super().__init__(f"Continue the upload at byte {offset}.")
        self.offset = offset


class InvalidParams(Refusal):
    """A value is not valid. `field` names it."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class KeyUsed(InvalidParams):
    """A message's id, or a caller's key, was used for something else. `field` is the caller's name for it."""

    def __init__(self, sentence: str = "This {} was used for another message. Use a new {}.", field: str = "messageId"):
        super().__init__(sentence.replace("{}", field), field)
        self._sentence = sentence

    def named(self, field: str) -> KeyUsed:
        return KeyUsed(self._sentence, field)


class SessionUnreadable(Exception):
    """A stored session cannot be read. The text is for operators."""


class InvalidFields(InvalidParams):
    """Invalid values of a request, each with its field's path."""

    def __init__(self, violations: Sequence[tuple[str, str]]) -> None:
        path, sentence = violations[0]
        super().__init__(f"{path}: {sentence}" if path else sentence, path)
        self.violations = violations


OTHER_ERRORS: dict[type[Exception], tuple[Kind, str]] = {
    BadCredentials: (Kind.UNAUTHENTICATED, ""),
    QuotaExceeded: (Kind.TOO_MANY, ""),
    BodyTooLarge: (Kind.TOO_LARGE, ""),
    RequestDataTooBig: (Kind.TOO_LARGE, "The request is too large."),
    RequestAborted: (Kind.INVALID, "The request broke off."),
    TooManyFieldsSent: (Kind.INVALID, "The query has too many parameters."),
    CannotDecrypt: (Kind.UNAVAILABLE, "A secret cannot be decrypted. Ask an operator to check the server's log."),
    SessionUnreadable: (Kind.UNAVAILABLE, "The session cannot be read. Ask an operator to check the server's log."),
    OperationalError: (Kind.UNAVAILABLE, "The database is unavailable. Try again in a moment."),
    InterfaceError: (Kind.UNAVAILABLE, "The database is unavailable. Try again in a moment."),
}
"""Other exceptions: kind, and a sentence if their own text is not for people."""
UNFORESEEN = Kind.INTERNAL, "Something went wrong on the server. The error was logged for its operators."


def kind_of(error: type[Exception]) -> Kind:
    return error.kind if issubclass(error, Refusal) else _kind_and_sentence(error)[0]


def sentence_of(error: Exception) -> str:
    """The sentence for people; unforeseen errors reveal no internals."""
    return str(error) if isinstance(error, Refusal) else _kind_and_sentence(type(error))[1] or str(error)


def _kind_and_sentence(error: type[Exception]) -> tuple[Kind, str]:
    return next((OTHER_ERRORS[base] for base in error.__mro__ if base in OTHER_ERRORS), UNFORESEEN)


def violations_of(error: Exception) -> Sequence[tuple[str, str]]:
    """The paths of invalid fields, each with a sentence that does not repeat the field."""
    if isinstance(error, InvalidFields):
        return error.violations
    if not isinstance(error, InvalidParams) or not error.field:
        return []
    sentence = str(error).removeprefix(f"{error.field}: ").removeprefix(f"{error.field.rpartition('.')[2]}: ")
    return [(error.field, sentence)]


def exceeded_by(error: Exception) -> Exceeded | None:
    """The limit that an error is about."""
    if isinstance(error, LimitReached | StorageFull | BudgetSpent):
        return error.exceeded
    return error if isinstance(error, Exceeded) else None


def headers_of(error: Exception, status: int) -> dict[str, str]:
    """The HTTP headers of an error with this status."""
    if (exceeded := exceeded_by(error)) is not None:
        return exceeded.headers
    if isinstance(error, QuotaExceeded):
        return {"Retry-After": str(error.retry_after)}
    if isinstance(error, NotAccepting):
        return {"Retry-After": "60"}
    if isinstance(error, MissingScope):
        return {"WWW-Authenticate": challenge("insufficient_scope", error.scope)}
    match status:
        case 401:
            refused = error if isinstance(error, BadCredentials) else error.__cause__
            is_wrong = isinstance(refused, BadCredentials)
            how = refused.headers if isinstance(refused, NotSigned) else {}
            return {"WWW-Authenticate": challenge("invalid_token" if is_wrong else ""), **how}
        case 503:
            return {"Retry-After": "1"}
        case _:
            return {}


def log_error(log: logging.Logger, error: Exception, status: int) -> None:
    """Log the server's own errors."""
    if status == 503:
        log.warning("a request was put off: %s", error)
    elif status == 500 and not isinstance(error, Refusal):
        log.error("a request failed", exc_info=error)
