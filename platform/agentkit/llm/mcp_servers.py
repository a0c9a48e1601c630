"""Connections to MCP servers. The MCP library takes seconds to import: import this module late."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import ClientTransport, StdioTransport, StreamableHttpTransport
from mcp.client.extension import advertise
from mcp.types import ToolListChangedNotification
from pydantic_ai import RunContext
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ToolReturn
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from agentkit.context import TaskContext
from agentkit.errors import AgentFailure
from agentkit.llm import mcp_apps
from agentkit.llm.endpoints import error_detail
from agentkit.llm.mcp_apps import NoApp
from agentkit.llm.models import surroundings
from agentkit.llm.tools import McpServer

logger = logging.getLogger(__name__)

ANSWER_SECONDS, START_SECONDS = 5.0, 30.0
"""How long a server may take to greet, and a program, which has to be started and perhaps fetched before."""
READ_SECONDS = 300.0
"""How long a server may be silent while a tool runs."""
APPS = advertise(mcp_apps.EXTENSION, {"mimeTypes": [mcp_apps.MEDIA_TYPE]})

TERMINATE_ON_PARENTS_DEATH = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"
)
ENDS_WITH_US = [sys.executable, "-ISc", TERMINATE_ON_PARENTS_DEATH] if sys.platform == "linux" else []
"""What starts a program so that it gets SIGTERM when this process dies. Elsewhere, only its standard input closes."""


async def connect(
    server: McpServer, stack: AsyncExitStack, apps: dict[str, dict[str, Any]]
) -> AbstractToolset[TaskContext]:
    """The server's tools for a model, until the stack closes. Raises AgentFailure.

    `apps` gets what the pages of called tools show (see `ToolResult.app`), by the model's ids of the calls.
    """
    toolset = await open_server(server, stack)
    only = server.only
    offered = toolset if only is None else toolset.filtered(lambda _, tool: tool.name in only)
    return WithApps(offered, toolset, server, apps)


async def open_server(server: McpServer, stack: AsyncExitStack) -> MCPToolset[TaskContext]:
    """The connected server, until the stack closes. Raises AgentFailure."""

    async def told(message: Any) -> None:
        if isinstance(getattr(message, "root", message), ToolListChangedNotification):
            toolset.cache_tools = False

    client: Client[Any] = Client(
        _transport(server),
        message_handler=told,
        init_timeout=START_SECONDS if server.command else ANSWER_SECONDS,
        timeout=READ_SECONDS,
        extensions=[APPS] if surroundings().shows_apps(server.label) else [],
    )
    toolset = MCPToolset[TaskContext](client, id=server.label, tool_error_behavior="failed")
    try:
        await stack.enter_async_context(_entered(toolset))
        await toolset.list_tools()
    except Exception as error:
        sentence = f"The tool server {server.label} cannot be used. Try again later."
        raise AgentFailure(sentence, "tools_unreachable", error_detail(error, server.secrets)) from None
    return toolset


@dataclass
class WithApps(WrapperToolset[TaskContext]):
    """Tools whose pages are read when they were called. The model gets their results alone."""

    mcp: MCPToolset[TaskContext]
    server: McpServer
    apps: dict[str, dict[str, Any]]
    _pages: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[TaskContext], tool: ToolsetTool[TaskContext]
    ) -> Any:
        value = await super().call_tool(name, tool_args, ctx, tool)
        match value:
            case ToolReturn(return_value=plain, metadata={"mcp_app": dict(told)}):
                if ctx.tool_call_id and surroundings().shows_apps(self.server.label):
                    self.apps[ctx.tool_call_id] = await self._app(told)
                return plain
        return value

    async def _app(self, told: dict[str, Any]) -> dict[str, Any]:
        uri, arguments, result = (told[name] for name in ("resource_uri", "tool_input", "result"))
        app = {"server": self.server.label, "digest": self.server.digest, "uri": uri[: mcp_apps.MAX_URI_LENGTH]}
        try:
            mcp_apps.check_result(result)
            html, wishes = self._pages[uri] = self._pages.get(uri) or await self._read(uri)
        except NoApp as problem:
            return app | {"problem": str(problem)}
        return app | {"html": html, "ui": wishes, "arguments": arguments, "result": result}

    async def _read(self, uri: str) -> tuple[str, dict[str, Any]]:
        """Raises NoApp."""
        if not uri.startswith(mcp_apps.SCHEME) or len(uri) > mcp_apps.MAX_URI_LENGTH:
            raise NoApp(f"Its page has no address that begins with {mcp_apps.SCHEME}.")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                read = await self.mcp.read_resource_for_app(uri)
        except Exception as error:
            logger.warning("the page %s of %s: %s", uri, self.server.label, error_detail(error, self.server.secrets))
            raise NoApp("The tool server did not give its page.") from None
        return mcp_apps.page_in(uri, read)


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
