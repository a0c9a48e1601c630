"""A worker's tools: other agents, MCP servers, and searching what people gave the agent."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentkit.context import TaskContext
from agentkit.errors import HandlerError
from agentkit.tools import ToolFunction, tool

MAX_NAME_LENGTH = 64
"""Characters of a tool's name that OpenAI's API takes."""


@dataclass(frozen=True)
class AgentTool:
    """Another agent of the platform. The model sends it a message and files, and receives its answer.

    Each call is a child task (see `TaskContext.call`). The tool's name is `ask_SLUG`.
    """

    slug: str
    description: str

    @property
    def name(self) -> str:
        return f"ask_{self.slug.replace('-', '_')}"[:MAX_NAME_LENGTH]


@dataclass(frozen=True)
class McpServer:
    """An MCP server's tools: at a URL (streamable HTTP) or of a program (standard streams).

    Attributes:
        url: the server's address.
        headers: sent with each request, for instance with a key; never shown.
        command: a program with arguments, as a list; the host must allow it (`MCP_STDIO_ALLOW`).
        only: names of the tools to use; all by default.
    """

    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: Sequence[str] = ()
    only: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.command):
            raise HandlerError("An MCP server has either a url or a command.")

    @property
    def label(self) -> str:
        """The server's name for people: its URL without the query, which may have a key."""
        return self.url.partition("?")[0] or shlex.join(self.command)

    @property
    def digest(self) -> str:
        """Tells servers of one label apart: the SHA-256 of the whole URL or command line, in hex."""
        return hashlib.sha256((self.url or shlex.join(self.command)).encode()).hexdigest()

    @property
    def secrets(self) -> list[str]:
        """Values to hide: the headers' (also without their scheme) and the URL's query."""
        values = list(self.headers.values())
        return [*values, *(value.rpartition(" ")[2] for value in values), self.url.partition("?")[2]]


type Tool = ToolFunction | AgentTool | McpServer


# Knowledge

SEARCH = """Search the files and pages that people gave you. Do it before you answer what they may tell.

Ask one question at a time, with the words that its answer would have. If nothing fits, search again in other words.
After each statement that you take from a passage, put the link that stands above the passage, unchanged, such as
[1](/knowledge/passages/0a1b2c3d4e "handbook.pdf, page 3"). Never make up such a link. If no passage has the answer, say
so."""
NOTHING_FOUND = "No passage fits. Try other words, or say that there is nothing about it."
FOUND = 5  # passages at once


def search_tool(named: Sequence[str] = ()) -> ToolFunction:
    """The tool. `named`: what can be searched, a line each, for its description."""
    places = "\n".join(["You can search:", *named]) if named else ""

    @tool(name="search_knowledge", description=f"{SEARCH}\n{places}".strip(), from_outside=True)
    async def search_knowledge(task: TaskContext, query: str) -> str:
        told = []
        for one in await task.find(query, FOUND):
            under = f"\nUnder the heading {one.heading}" if one.heading else ""
            told.append(f"{task.cite(one)}{under}\n{one.text}")
        return "\n\n".join(told) or NOTHING_FOUND

    return search_knowledge


search_knowledge = search_tool()
"""A tool by which the model of an `LlmWorker` searches what people gave the agent (`task.search`), and can cite it.

    helper = LlmWorker("You answer questions about the handbook.", [search_knowledge])

Agents without code have it where there is something to search.
"""
