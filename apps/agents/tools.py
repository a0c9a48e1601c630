"""The functions that agents without code may be given: those of the modules that the setting AGENT_TOOLS names."""

from functools import cache

from django.conf import settings

from agentkit import HandlerError, Tool, load_tools


def registered() -> dict[str, Tool]:
    """The tools by their names, in the order of the setting.

    Raises HandlerError for a module without tools, or two tools of one name.
    """
    return _loaded(tuple(settings.AGENT_TOOLS))


@cache
def _loaded(modules: tuple[str, ...]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for module in modules:
        for tool in load_tools(module):
            if found.setdefault(tool.name, tool) is not tool:
                raise HandlerError(f"Two functions of AGENT_TOOLS are named {tool.name}. Give one another name.")
    return found
