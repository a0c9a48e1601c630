"""A language model's tool for `task.search`."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit.context import TaskContext
from agentkit.tools import ToolFunction, tool

DESCRIPTION = """Search the files and pages that people gave you. Do it before you answer what they may tell.

Ask one question at a time, with the words that its answer would have. If nothing fits, search again in other words.
After each statement that you take from a passage, put the link that stands above the passage, unchanged, such as
[1](/knowledge/passages/0a1b2c3d4e "handbook.pdf, page 3"). Never make up such a link. If no passage has the answer, say
so."""
NOTHING = "No passage fits. Try other words, or say that there is nothing about it."
FOUND = 5  # passages at once


def search_tool(named: Sequence[str] = ()) -> ToolFunction:
    """The tool. `named`: what can be searched, a line each, for its description."""
    places = "\n".join(["You can search:", *named]) if named else ""

    @tool(name="search_knowledge", description=f"{DESCRIPTION}\n{places}".strip(), from_outside=True)
    async def search_knowledge(task: TaskContext, query: str) -> str:
        told = []
        for one in await task.find(query, FOUND):
            under = f"\nUnder the heading {one.heading}" if one.heading else ""
            told.append(f"{task.cite(one)}{under}\n{one.text}")
        return "\n\n".join(told) or NOTHING

    return search_knowledge


search_knowledge = search_tool()
"""A tool by which the model of an `LlmWorker` searches what people gave the agent (`task.search`), and can cite it.

    helper = LlmWorker("You answer questions about the handbook.", [search_knowledge])

Agents without code have it where there is something to search.
"""
