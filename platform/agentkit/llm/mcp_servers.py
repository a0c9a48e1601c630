"""Connections to MCP servers. The MCP library takes seconds to import: import this module late."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastmcp.client.transports import ClientTransport, StdioTransport, StreamableHttpTransport
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.toolsets import AbstractToolset

from agentkit.context import TaskContext
from agentkit.errors import AgentFailure
from agentkit.llm.endpoints import error_detail
from agentkit.llm.models import surroundings
from agentkit.llm.tools import McpServer

logger = logging.getLogger(__name__)

ANSWER_SECONDS, START_SECONDS = 5.0, 30.0
"""How long a server may take to greet, and a program, which has to be started and perhaps fetched before."""

TERMINATE_ON_PARENTS_DEATH = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"
)
ENDS_WITH_US = [sys.executable, "-ISc", TERMINATE_ON_PARENTS_DEATH] if sys.platform == "linux" else []
"""What starts a program so that it gets SIGTERM when this process dies. Elsewhere, only its standard input closes."""


async def connect(server: McpServer, stack: AsyncExitStack) -> AbstractToolset[TaskContext]:
    """The server's tools, until the stack closes. Raises AgentFailure."""
    toolset = MCPToolset[TaskContext](
        _transport(server),
        id=server.label,
        tool_error_behavior="failed",
        init_timeout=START_SECONDS if server.command else ANSWER_SECONDS,
    )
    try:
        await stack.enter_async_context(_entered(toolset))
        await toolset.list_tools()
    except Exception as error:
        sentence = f"The tool server {server.label} cannot be used. Try again later."
        raise AgentFailure(sentence, "tools_unreachable", error_detail(error, server.secrets)) from None
    only = server.only
    return toolset if only is None else toolset.filtered(lambda _, tool: tool.name in only)


@asynccontextmanager
async def _entered(toolset: MCPToolset[TaskContext]) -> AsyncIterator[None]:
    """Connected until the end. Only tool calls report a lost connection."""
    await toolset.__aenter__()
    try:
        yield
    finally:
        try:
            await toolset.__aexit__(None, None, None)
        except Exception as error:
            logger.warning("the tool server %s was lost: %s", toolset.id, type(error).__name__)


def _transport(server: McpServer) -> ClientTransport:
    if server.url:
        return StreamableHttpTransport(
            server.url, headers=dict(server.headers), httpx_client_factory=surroundings().http_client
        )
    if not surroundings().may_start(server.label):
        raise AgentFailure(
            f"The tool server {server.label!r} is a program, which this host does not start. "
            "An operator can allow it with MCP_STDIO_ALLOW.",
            "tools_forbidden",
        )
    program, *arguments = [*ENDS_WITH_US, *server.command]
    return StdioTransport(program, arguments, keep_alive=False)
