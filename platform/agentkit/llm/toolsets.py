"""The tools of a worker as the model library takes them, which this module imports: import it late."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from pydantic_ai import RunContext, Tool
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from agentkit.context import TaskContext
from agentkit.llm.calling import Bounded, function_tool
from agentkit.llm.conversations import words_of
from agentkit.llm.importing import imported
from agentkit.llm.tools import AgentTool, McpServer
from agentkit.llm.tools import Tool as AnyTool
from agentkit.messages import Message

Toolset = AbstractToolset[TaskContext]


def functions_and_agents(tools: Sequence[AnyTool]) -> list[Toolset]:
    """What needs no connection; made once for a worker."""
    found = [one for one in tools if not isinstance(one, McpServer)]
    made = [_agent_tool(one) if isinstance(one, AgentTool) else function_tool(one) for one in found]
    return [Bounded(FunctionToolset(made))] if made else []


@asynccontextmanager
async def connected(tools: Sequence[AnyTool]) -> AsyncIterator[list[Toolset]]:
    """The tools of MCP servers, for one run. Raises AgentFailure for a server that cannot be used."""
    servers = [one for one in tools if isinstance(one, McpServer)]
    if not servers:
        yield []
        return
    await imported("agentkit.llm.mcp_servers")
    from agentkit.llm.mcp_servers import connect

    async with AsyncExitStack() as stack:
        yield [Bounded(await connect(server, stack)) for server in servers]


def _agent_tool(tool: AgentTool) -> Tool[TaskContext]:
    async def ask(ctx: RunContext[TaskContext], message: str) -> str:
        return _said(await ctx.deps.call(tool.slug, message))

    return Tool(ask, takes_ctx=True, name=tool.name, description=tool.description)


def _said(result: Any) -> str:
    """The words of a child's result, and what it delivered that is not in them."""
    delivered = []
    for artifact in result.artifacts:
        load = artifact.files[0].load if artifact.files else None
        content = words_of(Message.from_wire({"parts": artifact.parts}, load))
        if content != result.text:
            delivered.append(f"{artifact.name}:\n{content}" if artifact.name else content)
    return "\n\n".join([result.text, *delivered])
