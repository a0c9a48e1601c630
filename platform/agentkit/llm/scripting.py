"""Requests and replies of offline models, as plain values without a model library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


class UseTool:
    """A reply that calls a tool: `UseTool("weather", city="Rome")`."""

    def __init__(self, tool: str, /, **arguments: Any) -> None:
        self.tool = tool
        self.arguments = arguments


@dataclass(frozen=True)
class Returned:
    """A tool's result."""

    tool: str
    content: Any
    is_error: bool = False


@dataclass(frozen=True)
class Asked:
    """A request to a scripted model.

    Attributes:
        text: the user's newest message.
        earlier: earlier messages as (role, text); the roles are `user` and `agent`.
        instructions: those of the function or worker.
        tools: the names of the available tools.
        results: tool results since the newest message, oldest first.
        attempt: 1, or more if an answer did not fit.
    """

    text: str
    earlier: Sequence[tuple[str, str]] = ()
    instructions: str = ""
    tools: Sequence[str] = ()
    results: Sequence[Returned] = ()
    attempt: int = 1


Respond = Callable[[Asked], Any]
"""Gives text (streamed word by word), a `UseTool` or a list of them, or the value of a typed output; sync or async."""
