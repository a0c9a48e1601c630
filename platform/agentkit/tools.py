"""Functions that language models may call, described by their signature and docstring."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, Protocol

from agentkit.errors import HandlerError

type ToolFunction = Callable[..., Any]
type Preview = Callable[..., Awaitable[str]]
"""Gets the task and the arguments of a call as keywords. Says what the call would do, or raises ValueError."""


@dataclass(frozen=True)
class ToolTraits:
    """The arguments of `@tool`."""

    name: str
    description: str
    needs_approval: bool = False
    from_outside: bool = False
    preview: Preview | None = None


def tool[F: ToolFunction](
    *,
    name: str = "",
    description: str = "",
    needs_approval: bool = False,
    from_outside: bool = False,
    preview: Preview | None = None,
) -> Callable[[F], F]:
    """Describe a function as a tool, if its name or docstring does not: `@tool(name="clock")`.

    Agents without code may use it if the setting `AGENT_TOOLS` names its module.

    Args:
        needs_approval: a person must approve each call, unless an operator sets another policy.
        from_outside: its results come from outside, such as a web page. The model is told to treat them as data.
        preview: what a call would do, in words that people read before they approve it. Awaited with the task and the
            call's arguments as keywords. If it raises an error, the model is told that, and nobody is asked.
    """

    def describe(function: F) -> F:
        function.__tool_traits__ = ToolTraits(  # type: ignore[attr-defined]
            name, description, needs_approval, from_outside, preview
        )
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
    return replace(said, name=name, description=description)


def is_tool(function: object) -> bool:
    return hasattr(function, "__tool_traits__")


type Policy = Literal["run", "ask", "ask_each", "ask_two", "never"]
"""What happens when a model calls a tool: it runs, one or two people are asked before, or it never runs.

With `ask`, a person may allow the tool for the whole session; with `ask_each`, they are asked each time.
"""
NEEDS: Mapping[str, int] = {"ask": 1, "ask_each": 1, "ask_two": 2}
"""How many people must approve a call."""


class ToolKind(StrEnum):
    """Where a tool comes from. A tool's full name is `KIND:NAME`, such as `mcp:send_mail`."""

    FUNCTION = "function"
    AGENT = "agent"
    MCP = "mcp"


class Approvals(Protocol):
    """From the host: policies, people's decisions, and the record of approved calls."""

    @property
    def decided(self) -> Mapping[str, Any]:
        """People's decisions by the call's key: `{"approved", "arguments", "reason", "people"}`."""
        ...

    async def policy(self, kind: ToolKind, name: str, declared: bool) -> Policy:
        """What holds for a tool now. `declared`: its author wants approval (`@tool(needs_approval=True)`)."""
        ...

    async def begin(self, key: str, name: str, arguments: dict[str, Any]) -> tuple[Any, bool] | None:
        """Record durably that an approved call begins. Returns the result of an earlier try, and if it is an error."""
        ...


@dataclass(frozen=True)
class DeclaredApprovals:
    """Without a host: `declared` holds for tools that declare that they need approval, and all others run."""

    decided: Mapping[str, Any] = field(default_factory=dict)
    declared: Policy = "ask"

    async def policy(self, kind: ToolKind, name: str, declared: bool) -> Policy:
        return self.declared if declared else "run"

    async def begin(self, key: str, name: str, arguments: dict[str, Any]) -> None:
        """Nothing is kept."""
