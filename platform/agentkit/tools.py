"""Functions that language models may call, described by their signature and docstring."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentkit.errors import HandlerError

type ToolFunction = Callable[..., Any]


@dataclass(frozen=True)
class ToolTraits:
    """The arguments of `@tool`."""

    name: str
    description: str


def tool[F: ToolFunction](*, name: str = "", description: str = "") -> Callable[[F], F]:
    """Describe a function as a tool, if its name or docstring does not: `@tool(name="clock")`.

    Agents without code may use it if the setting `AGENT_TOOLS` names its module.
    """

    def describe(function: F) -> F:
        function.__tool_traits__ = ToolTraits(name, description)  # type: ignore[attr-defined]
        return function

    return describe


def traits_of(function: ToolFunction) -> ToolTraits:
    """A tool's name and description. Raises HandlerError without a description."""
    said = getattr(function, "__tool_traits__", ToolTraits("", ""))
    name = said.name or getattr(function, "__name__", "")
    if not name.isidentifier():
        raise HandlerError(f"A tool needs a name of letters, digits and underscores: {name or function!r}.")
    # Not inspect.getdoc, which inherits docstrings.
    description = said.description or inspect.cleandoc(getattr(function, "__doc__", None) or "")
    if not description:
        raise HandlerError(f"The tool {name} needs a docstring: it tells the model what the tool is for.")
    return ToolTraits(name, description)


def is_tool(function: object) -> bool:
    return hasattr(function, "__tool_traits__")
