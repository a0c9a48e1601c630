"""A model that is no language model: a function of the author's answers, offline, and says so wherever it is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai.models import Model

SCRIPTED = "scripted"


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


@dataclass(frozen=True)
class Scripted:
    """Made by `scripted`."""

    respond: Respond
    label: str
    unless_configured: bool

    @cached_property
    def model(self) -> Model:
        """As the model library takes it."""
        from agentkit.llm.scripts import function_model

        return function_model(self.label, self.respond)


def scripted(respond: Respond, *, name: str = "", unless_configured: bool = False) -> Scripted:
    """An offline model for `model=`: `respond(asked)` gives text, a `UseTool` of a tool, several, or a typed value.

    It is named `scripted`, or `scripted:<name>`, in usage and in the answer's metadata.

    Args:
        unless_configured: use the default language model instead where there is one.
    """
    return Scripted(respond, f"{SCRIPTED}:{name}" if name else SCRIPTED, unless_configured)
