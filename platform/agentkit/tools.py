"""Functions that language models may call: plain Python functions, described by their signature and docstring."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentkit.errors import HandlerError

type ToolFunction = Callable[..., Any]


@dataclass(frozen=True)
class ToolTraits:
    """What `@tool` says of a function."""

    name: str
    description: str


def tool[F: ToolFunction](*, name: str = "", description: str = "") -> Callable[[F], F]:
    """Describes a function as a tool, where its name and docstring do not: `@tool(name="clock")`.

    Agents without code may use it where the setting `AGENT_TOOLS` names its module.
    """

    def describe(function: F) -> F:
        function.__tool_traits__ = ToolTraits(name, description)  # type: ignore[attr-defined]
        return function

    return describe


def traits_of(function: ToolFunction) -> ToolTraits:
    """The name and description of a tool. Raises HandlerError where it has no description."""
    said = getattr(function, "__tool_traits__", ToolTraits("", ""))
    name = said.name or getattr(function, "__name__", "")
    if not name.isidentifier():
        raise HandlerError(f"A tool needs a name of letters, digits and underscores: {name or function!r}.")
    # Not inspect.getdoc: it would give an instance the docstring of its class.
    description = said.description or inspect.cleandoc(getattr(function, "__doc__", None) or "")
    if not description:
        raise HandlerError(f"The tool {name} needs a docstring: it tells the model what the tool is for.")
    return ToolTraits(name, description)


def is_tool(function: object) -> bool:
    """Was it described with `@tool`?"""
    return hasattr(function, "__tool_traits__")
