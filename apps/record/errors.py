"""The errors of all edges: kind, sentence for people, and HTTP headers. Each edge maps kinds to its protocol."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import ValidationError

from apps.accounts.errors import Kind as Kind
from apps.accounts.errors import NotFound as NotFound
from apps.accounts.errors import Refusal as Refusal
from apps.accounts.principals import MissingRole as MissingRole
from apps.accounts.principals import MissingScope as MissingScope
from apps.accounts.principals import check_allowed as check_allowed
from apps.limits.current import Exceeded


class TaskNotFound(NotFound):
    """There is no such task."""


class ContextNotFound(NotFound):
    """There is no such session."""


class MessageNotFound(NotFound):
    """There is no such message."""


class ArtifactNotFound(NotFound):
    """There is no such artifact. Artifacts appear when their task completes."""


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


class UploadNotFound(NotFound):
    """There is no such upload, or it has expired. Send the file again."""


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

    sentence = "This {} was used for another message. Use a new {}."

    def __init__(self, sentence: str = sentence, field: str = "messageId"):
        super().__init__(sentence.replace("{}", field), field)
        self.sentence = sentence

    def named(self, field: str) -> KeyUsed:
        return KeyUsed(self.sentence, field)


class SessionUnreadable(Exception):
    """A stored session cannot be read. The text is for operators."""


class InvalidFields(InvalidParams):
    """Invalid values of a request, each with its field's path."""

    def __init__(self, violations: Sequence[tuple[str, str]]) -> None:
        path, sentence = violations[0]
        super().__init__(f"{path}: {sentence}" if path else sentence, path)
        self.violations = violations

    @classmethod
    def of(cls, error: ValidationError) -> InvalidFields:
        """Django's error, whose fields have the paths."""
        told = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
        return cls([(path, sentence) for path, sentences in told.items() for sentence in sentences])


class NoAnswer(Refusal):
    """The agent could not be asked. Try again, or tell its operators."""


class ParseError(Refusal):
    """The body is not valid JSON."""

    kind = Kind.UNREADABLE


class InvalidRequest(Refusal):
    """The body is not a JSON-RPC 2.0 request object."""


class MethodNotFound(NotFound):
    """There is no such method."""


class PushNotificationNotSupported(Refusal):
    """This agent does not support push notifications. Poll with GetTask."""


class ExtendedAgentCardNotConfigured(Refusal):
    """This agent has no extended card yet. Use the public card."""


class ExtensionSupportRequired(Refusal):
    """The agent requires an extension. Name it in the A2A-Extensions header."""


class VersionNotSupported(Refusal):
    """This version of A2A is not supported. Send the header A2A-Version: 1.0."""


class TaskGenerationMismatch(UnsupportedOperation):
    """The task has changed since the client read it (A2A 1.1)."""

    def __init__(self, task: str, expected: int, current: int) -> None:
        super().__init__(
            f"Task {task} has changed: its generation is {current}, not {expected}. Read it again with GetTask."
        )
        self.metadata = {"taskId": task, "expectedGeneration": str(expected), "currentGeneration": str(current)}


class UnsupportedMediaType(Refusal):
    """Send the request as JSON in UTF-8: Content-Type: application/json, without a Content-Encoding."""

    kind = Kind.MEDIA_TYPE_NOT_SUPPORTED


class Unauthenticated(Refusal):
    """This agent requires authentication. Send an API key as "Authorization: Bearer <key>"."""

    kind = Kind.UNAUTHENTICATED


class MethodNotAllowed(Refusal):
    """This address does not support the HTTP method. See the Allow header."""

    kind = Kind.METHOD_NOT_ALLOWED

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(f"This address supports {' and '.join(allowed)}.")
        self.allowed = allowed
