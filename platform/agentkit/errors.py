"""The exceptions of agents' code. Their texts say what to do."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def near_miss(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant; "" if none is close."""
    return next(iter(get_close_matches(name, list(known), 1, 0.8)), "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error's text: a question, with a space before it; "" if no name is close."""
    near = near_miss(name, known)
    return f" Did you mean {near!r}?" if near else ""


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


class HostSignal(BaseException):
    """The host ends a turn by it. Like `asyncio.CancelledError` it is no `Exception`, so `except Exception` does not
    catch it.
    """


class Stopped(HostSignal):
    """The task was stopped, so the handler can report nothing more."""


class Escaped(Exception):
    """An agent's code raised what would end the process, such as `SystemExit`."""

    code = "agent_exited"
    loggable = True  # it names only the type

    def __init__(self, raised: BaseException) -> None:
        super().__init__(
            f"The agent stopped: its code raised {type(raised).__name__}, which is for whole programs. Its author can "
            "raise AgentFailure instead."
        )
