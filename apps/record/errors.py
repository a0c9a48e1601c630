"""What can be refused, in one vocabulary; each edge maps it to its protocol by a table."""


class Refusal(Exception):
    """Something was asked that cannot be done; nothing was stored. `str()` is a sentence for people."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.__doc__)


class TaskNotFound(Refusal):
    """There is no such task."""


class ContextNotFound(Refusal):
    """There is no such conversation."""


class MessageNotFound(Refusal):
    """There is no such message."""


class TaskNotCancelable(Refusal):
    """The task has ended, so it cannot be canceled."""


class UnsupportedOperation(Refusal):
    """This cannot be done with the task as it is."""


class TaskFinished(UnsupportedOperation):
    """The task has ended. Send the message without a taskId, with the task's id in referenceTaskIds."""


class AlreadyAnswered(UnsupportedOperation):
    """This was answered meanwhile, or is asked no more. Your answer was not used; look at how it stands now."""


class TaskBusy(UnsupportedOperation):
    """The agent takes no message while it works. Wait until the task asks for one or ends."""


class CredentialWanted(UnsupportedOperation):
    """The task waits for a credential, which no message may carry. Give it by the link of the task's status message."""


class ContentTypeNotSupported(Refusal):
    """The agent does not take this media type."""


class UploadNotFound(Refusal):
    """There is no such upload, or it has expired. Send the file again."""


class FileTooLarge(Refusal):
    """The file is larger than is taken."""


class WrongOffset(Refusal):
    """The upload is elsewhere, or somebody is sending to it. `offset` is where it goes on."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"The upload goes on at byte {offset}.")
        self.offset = offset


class InvalidParams(Refusal):
    """A value cannot be used. `field` names it."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field
