"""Connections to MCP servers. This module imports the MCP library, which takes seconds: import it late."""

from __future__ import annotations

from contextlib import AsyncExitStack

from fastmcp.client.transports import ClientTransport, StdioTransport, StreamableHttpTransport
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.toolsets import AbstractToolset

from agentkit.context import TaskContext
from agentkit.llm.failures import detail_of
from agentkit.llm.surroundings import surroundings
from agentkit.llm.tools import McpServer
from agentkit.outcomes import AgentFailure


async def connect(server: McpServer, stack: AsyncExitStack) -> AbstractToolset[TaskContext]:
    """The server's tools, until the end of the stack. Raises AgentFailure."""
    toolset = MCPToolset[TaskContext](_transport(server), id=server.label, tool_error_behavior="failed")
    try:
        await stack.enter_async_context(toolset)
        await toolset.list_tools()
    except Exception as error:
        detail = detail_of(error, server.headers.values())
        raise AgentFailure(
            f"The tool server {server.label} cannot be used. Try again later.", "tools_unreachable", detail
        ) from None
    only = server.only
    return toolset if only is None else toolset.filtered(lambda _, tool: tool.name in only)


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
    program, *arguments = server.command
    return StdioTransport(program, arguments)
