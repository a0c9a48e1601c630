"""What offline models are asked and answer: plain values, so that a script needs no model library."""

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
    """What a tool gave back."""

    tool: str
    content: Any
    is_error: bool = False


@dataclass(frozen=True)
class Asked:
    """What a scripted model is asked.

    Attributes:
        text: the newest message of the user.
        earlier: what was said before, as (role, text); the roles are `user` and `agent`.
        instructions: those of the function or worker.
        tools: the names of the tools that may be called.
        results: what the tools gave since the newest message, oldest first.
        attempt: 1, and more when an answer did not fit and is asked for again.
    """

    text: str
    earlier: Sequence[tuple[str, str]] = ()
    instructions: str = ""
    tools: Sequence[str] = ()
    results: Sequence[Returned] = ()
    attempt: int = 1


Respond = Callable[[Asked], Any]
"""Gives text (streamed word by word), a `UseTool` or a list of them, or the value of a typed output; sync or async."""
