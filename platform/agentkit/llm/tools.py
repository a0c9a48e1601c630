"""What a worker may be given as tools, besides Python functions: other agents and MCP servers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentkit.errors import HandlerError
from agentkit.tools import ToolFunction

LONGEST_NAME = 64
"""Characters of a tool's name that OpenAI's API takes."""


@dataclass(frozen=True)
class AgentTool:
    """Another agent of the platform. The model writes it a message and is given its answer.

    Each call is a task of that agent, a child of the task at hand (see `TaskContext.call`).
    """

    slug: str
    description: str

    @property
    def name(self) -> str:
        return f"ask_{self.slug.replace('-', '_')}"[:LONGEST_NAME]


@dataclass(frozen=True)
class McpServer:
    """The tools of an MCP server: at a URL, over streamable HTTP, or of a program, over its standard streams.

    Attributes:
        url: where the server listens.
        headers: sent with each request, for a key for instance; they are shown nowhere.
        command: a program with its arguments, as a list; the host must allow it (`MCP_STDIO_ALLOW`).
        only: the names of the tools to use; all by default.
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
        """What it is called where people read it: a URL without its query, which may hold a key."""
        return self.url.partition("?")[0] or shlex.join(self.command)

    @property
    def secrets(self) -> list[str]:
        """What must be shown to nobody: the headers' values, without their scheme too, and the URL's query."""
        values = list(self.headers.values())
        return [*values, *(value.rpartition(" ")[2] for value in values), self.url.partition("?")[2]]


type Tool = ToolFunction | AgentTool | McpServer
