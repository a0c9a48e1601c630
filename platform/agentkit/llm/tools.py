"""A worker's tools besides Python functions: other agents and MCP servers."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentkit.errors import HandlerError
from agentkit.tools import ToolFunction

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
