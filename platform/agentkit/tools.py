"""Functions that an operator can give to an agent without code: `@tool` names and describes them."""

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from agentkit.handlers import HandlerError

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
"""What the interfaces of language models take as the name of a function."""


@dataclass(frozen=True)
class Tool:
    """A function as operators and language models see it; its signature says what it takes."""

    name: str
    description: str
    function: Callable[..., Any]


@overload
def tool[F: Callable[..., Any]](function: F, /) -> F: ...
@overload
def tool[F: Callable[..., Any]](*, name: str = "", description: str = "") -> Callable[[F], F]: ...
def tool(function: Callable[..., Any] | None = None, /, *, name: str = "", description: str = "") -> Any:
    """Marks a function as a tool: `@tool`, or `@tool(name="add", description="Adds two numbers.")`.

    Without a name it has the function's, without a description the first paragraph of its docstring. A parameter that
    is annotated `TaskContext` is given the task; all others are the model's to fill.

    Raises:
        HandlerError: the name cannot be that of a tool, or nothing describes it.
    """

    def mark(marked: Callable[..., Any]) -> Callable[..., Any]:
        known = Tool(name or marked.__name__, description or _first_paragraph(marked), marked)
        if not NAME.match(known.name):
            raise HandlerError(f"{known.name!r} cannot name a tool: use letters, digits, _ and -, at most 64.")
        if not known.description:
            raise HandlerError(f"The tool {known.name} needs a docstring, or @tool(description=…), for models to read.")
        marked.__agent_tool__ = known  # type: ignore[attr-defined]
        return marked

    return mark if function is None else mark(function)


def load_tools(module_name: str) -> list[Tool]:
    """The tools of a module, in its order.

    Raises:
        HandlerError: it cannot be imported, or has none.
    """
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise HandlerError(f"The module {module_name!r} of tools cannot be imported: {error}") from error
    if found := [one.__agent_tool__ for one in vars(module).values() if hasattr(one, "__agent_tool__")]:
        return found
    raise HandlerError(f"The module {module_name!r} has no tools: mark its functions with @agentkit.tool.")


def _first_paragraph(function: Callable[..., Any]) -> str:
    return " ".join(inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].split())
