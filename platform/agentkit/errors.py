"""The exceptions of agents' code. Their texts say what to do."""

from typing import Any


class HandlerError(Exception):
    """An agent's code is wrong. The text says what to do."""


class InvalidAnswer(TypeError):
    """A handler returned or yielded a value of a wrong type, or chose an unknown skill."""


class UnreadableContent(Exception):
    """The content of a part cannot be read. The text says why."""


class AgentFailure(Exception):
    """Raise it in a handler to fail the task. People see the message; only operators see `detail`.

    `metadata` is the message's, for programs.
    """

    def __init__(
        self, message: str, code: str = "failed", detail: str = "", metadata: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail
        self.metadata = metadata or {}


class Stopped(BaseException):
    """The task was stopped, so the handler can report nothing more.

    Like `asyncio.CancelledError` it is no `Exception`, so `except Exception` does not catch it.
    """
