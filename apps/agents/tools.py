"""The functions that agents without code may be given: those of the modules that the setting AGENT_TOOLS names."""

from dataclasses import dataclass
from functools import cache
from importlib import import_module

from django.conf import settings

from agentkit import HandlerError
from agentkit.tools import ToolFunction, is_tool, traits_of


@dataclass(frozen=True)
class RegisteredTool:
    """A function as operators and language models see it; its signature says what it takes."""

    name: str
    description: str
    function: ToolFunction

    @property
    def summary(self) -> str:
        """The first paragraph of the description, as one line."""
        return " ".join(self.description.split("\n\n")[0].split())


def registered() -> dict[str, RegisteredTool]:
    """The tools by their names, in the order of the setting.

    Raises HandlerError for a module that cannot be imported or has no tools, and for two tools of one name.
    """
    return _loaded(tuple(settings.AGENT_TOOLS))


@cache
def _loaded(modules: tuple[str, ...]) -> dict[str, RegisteredTool]:
    found: dict[str, RegisteredTool] = {}
    for module in modules:
        for tool in _tools_of(module):
            if found.setdefault(tool.name, tool) is not tool:
                raise HandlerError(f"Two functions of AGENT_TOOLS are named {tool.name}. Give one another name.")
    return found


def _tools_of(module_name: str) -> list[RegisteredTool]:
    try:
        module = import_module(module_name)
    except Exception as error:
        raise HandlerError(f"The module {module_name!r} of AGENT_TOOLS cannot be imported: {error}") from error
    if functions := [one for one in vars(module).values() if is_tool(one)]:
        described = [(traits_of(function), function) for function in functions]
        return [RegisteredTool(traits.name, traits.description, function) for traits, function in described]
    raise HandlerError(f"The module {module_name!r} of AGENT_TOOLS has no tools: mark its functions with @tool().")
