"""Real clients of MCP, over HTTP."""

import httpx2
import pytest
from fastmcp.client.transports import StreamableHttpTransport
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.test import TestModel


@pytest.fixture(scope="module")
def offering(server):
    """The address and a key of a Parley that offers an agent and a plan as tools."""
    server.manage("register_agent", "speaking", "--handler", "tests.doors.agents:Speaking", "--mcp-tools", "agent")
    key = server.manage("create_api_key", "demo@parley.local").stdout.strip()
    return f"{server.url}/mcp", {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client(offering, mode):
    url, headers = offering
    told = []

    async def on_progress(progress, total, message):
        told.append(message)

    async def on_question(context, params):
        return ElicitResult(action="accept", content={"answer": "tea"})

    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=on_question) as client:
            assert "speaking" in [tool.name for tool in (await client.list_tools()).tools]
            steps = await client.call_tool("speaking", {"message": "steps"}, progress_callback=on_progress)
            assert (steps.content[0].text, told) == ("Both.", ["half", "half, too"])
            asked = await client.call_tool("speaking", {"message": "ask"})
            if mode == "legacy":
                asked = await client.call_tool("speaking", {"task": asked.structured_content["task"], "message": "tea"})
            assert asked.content[0].text == "It was tea."
            made = await client.call_tool("speaking", {"message": "file"})
            link = next(one for one in made.content if one.type == "resource_link")
            assert (await client.read_resource(link.uri)).contents[0].mime_type == "text/csv"


async def test_the_client_of_pydantic_ai(offering):
    url, headers = offering
    toolset = MCPToolset(StreamableHttpTransport(url, headers=headers))
    agent = Agent(TestModel(call_tools=["speaking"]), toolsets=[toolset])
    async with agent:
        ran = await agent.run("x")
    assert '"state":"completed"' in ran.output
