"""The exceptions that agents' code meets. Their texts say what to do."""


class HandlerError(Exception):
    """Something is wrong with an agent's code; the text says what to do."""


class InvalidAnswer(TypeError):
    """A handler returned or yielded what is no answer, or chose a skill that it has not."""


class UnreadableContent(Exception):
    """The content of a part cannot be had; the text says why."""


class AgentFailure(Exception):
    """Raised in a handler to fail the task with a message for people; `detail` is for operators alone."""

    def __init__(self, message: str, code: str = "failed", detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail


class Stopped(BaseException):
    """Somebody stopped the task: nothing more can be said.

    Like `asyncio.CancelledError` it is no `Exception`, so that `except Exception` in a handler lets it pass.
    """
