"""MCP servers' tools: HTTP through `outbound`; programs if an operator allows them; pages (MCP Apps)."""

import asyncio
import logging
import shlex
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from agentkit import AgentFailure, Completed, HandlerError, ToolResult, testing
from agentkit.llm import LlmWorker, McpServer, mcp_apps, mcp_servers
from agentkit.llm.toolsets import connected
from tests.model_agents import tool_servers
from tests.model_agents.agents import handler_of
from tests.model_agents.endpoint import Endpoint, calls, says

KEY = "tools-0ddba11"
PROGRAM = [sys.executable, "-m", "tests.model_agents.tool_servers"]


async def worked(*tools: Any) -> testing.Run:
    return await testing.run(handler_of(LlmWorker("Help.", list(tools))), "x")


def results(run: testing.Run) -> list[tuple[object, bool]]:
    return [(one.result, one.is_error) for one in run.emissions if isinstance(one, ToolResult)]


@pytest.mark.usefixtures("opened")
async def test_its_tools_are_called_with_the_headers(endpoint):
    with tool_servers.running(KEY) as server:
        endpoint.replies = [calls(("add", {"a": 2, "b": 3})), says("5")]
        chosen = McpServer(server.url, {"Authorization": f"Bearer {KEY}"}, only=["add"])
        run = await worked(chosen)
    assert isinstance(run.outcome, Completed)
    assert results(run) == [(5, False)]
    [offered] = [one["function"] for one in endpoint.requests[0]["tools"]]
    assert (offered["name"], offered["description"]) == ("add", "Adds two numbers.")
    assert {one["authorization"] for one in server.headers} == {f"Bearer {KEY}"}


@pytest.mark.usefixtures("opened")
async def test_an_unusable_server_fails_and_shows_no_key(endpoint, caplog):
    caplog.set_level(logging.DEBUG)
    wrong = "wrong-c0ffee"
    with tool_servers.running(KEY) as server:
        run = await worked(McpServer(server.url, {"Authorization": wrong}))
    assert run.outcome.message == f"The tool server {server.url} cannot be used. Try again later."
    assert run.outcome.code == "tools_unreachable"
    assert run.outcome.detail
    assert wrong not in run.outcome.detail + caplog.text + repr(McpServer(server.url, {"Authorization": wrong}))
    assert (await worked(McpServer("http://127.0.0.1:1/mcp"))).outcome.code == "tools_unreachable"
    assert endpoint.requests == []


async def test_a_private_address_is_refused_unless_opened(endpoint):
    with tool_servers.running() as server:
        run = await worked(McpServer(server.url))
        assert run.outcome.code == "tools_unreachable"
        assert "OUTBOUND_ALLOW" in run.outcome.detail
        assert server.headers == []


def programs() -> list[str]:
    """Command lines of this process's children that are tool servers."""
    children = [*Path("/proc/self/task").glob("*/children")]
    ids = [each for one in children for each in one.read_text().split()]
    lines = [Path(f"/proc/{one}/cmdline").read_bytes().decode() for one in ids if Path(f"/proc/{one}").exists()]
    return [line for line in lines if "tests.model_agents.tool_servers" in line or "sleep" in line]


async def test_only_programs_named_in_settings_start(endpoint, settings):
    settings.MCP_STDIO_ALLOW = [shlex.join(PROGRAM)]
    endpoint.replies = [calls(("add", {"a": 2, "b": 3})), says("5")]
    assert results(await worked(McpServer(command=PROGRAM))) == [(5, False)]
    assert programs() == [], "it ends with its turn"
    run = await worked(McpServer(command=[*PROGRAM, "--more"]))
    assert (run.outcome.code, "MCP_STDIO_ALLOW" in run.outcome.message) == ("tools_forbidden", True)


def running(mark: str) -> bool:
    listed = subprocess.run(["ps", "-ewwo", "args="], capture_output=True, text=True, check=True).stdout
    return mark in listed


HOST = """
import asyncio, sys
from contextlib import AsyncExitStack
from agentkit.llm import McpServer, Surroundings, use_surroundings
from agentkit.llm.mcp_servers import connect

async def main():
    use_surroundings(Surroundings(may_start=lambda command: True))
    async with AsyncExitStack() as stack:
        await connect(McpServer(command=sys.argv[1:]), stack, {})
        print("connected", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow("processes of its own, one in the other")
@pytest.mark.skipif(sys.platform != "linux", reason="needs the parent-death signal")
async def test_a_killed_worker_leaves_no_program():
    stubborn = "import time, tests.model_agents.tool_servers as servers; servers.tools().run('stdio'); time.sleep(300)"
    mark = f"mark-{uuid.uuid4()}"
    command = [sys.executable, "-c", HOST, sys.executable, "-c", stubborn, mark]
    pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    host = await asyncio.create_subprocess_exec(*command, **pipes)
    assert host.stdout is not None
    assert await host.stdout.readline() == b"connected\n"
    assert running(mark)
    host.kill()
    async with asyncio.timeout(10):
        await host.communicate()  # until nobody holds its standard error any more
    assert not running(mark)


async def test_programs_of_stopped_turns_end(settings, monkeypatch):
    """They never greet; the first is stopped, the second too slow."""
    settings.MCP_STDIO_ALLOW = ["sleep 1000"]

    async def turn() -> None:
        async with connected([McpServer(command=["sleep", "1000"])], {}):
            raise AssertionError("it greeted")

    starting = asyncio.create_task(turn())
    async with asyncio.timeout(30):
        while not programs():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert programs() == []
    monkeypatch.setattr(mcp_servers, "START_SECONDS", 0.1)
    with pytest.raises(AgentFailure, match="cannot be used"):
        await turn()
    assert programs() == []


def test_a_server_is_named_without_its_secrets():
    server = McpServer("https://a.example/mcp?key=secret", {"Authorization": "Bearer abc"})
    assert server.label == "https://a.example/mcp"
    assert set(server.secrets) == {"Bearer abc", "abc", "key=secret"}
    for given in ({}, {"url": "http://a.example", "command": ["a"]}):
        with pytest.raises(HandlerError, match="either a url or a command"):
            McpServer(**given)


# Pages of tool servers (MCP Apps)


async def app_results(endpoint: Endpoint, *called: str, **arguments: str) -> list[ToolResult]:
    with tool_servers.running(made=tool_servers.clock) as server:
        endpoint.replies = [calls(*((name, arguments) for name in called)), says("There.")]
        run = await worked(McpServer(server.url))
    assert isinstance(run.outcome, Completed)
    return [one for one in run.emissions if isinstance(one, ToolResult)]


@pytest.mark.usefixtures("opened")
async def test_called_tool_brings_its_page(endpoint):
    [told] = await app_results(endpoint, "tell_time", zone="UTC")
    assert told.result == {"time": "12:00"}
    assert told.app is not None
    assert told.app["html"] == "<!doctype html><p>A clock</p>"
    assert told.app["ui"] == {"csp": tool_servers.CSP, "prefersBorder": False}
    assert told.app["arguments"] == {"zone": "UTC"}
    assert told.app["result"]["content"] == [{"type": "text", "text": "12:00 in UTC"}]  # both sides negotiated it
    offered = [one["function"]["name"] for one in endpoint.requests[0]["tools"]]
    assert "set_alarm" not in offered  # for its page alone
    assert "stop_clock" in offered


@pytest.mark.usefixtures("opened")
async def test_unfit_and_forbidden_pages_leave_the_result(endpoint, settings):
    told = await app_results(endpoint, "broken_0", "broken_1")
    assert [one.result for one in told] == ["told", "told"]
    problems = {one.name: one.app["problem"] for one in told if one.app}
    assert "4 MB" in problems["broken_0"]
    assert "text/plain" in problems["broken_1"]
    settings.MCP_APPS_ALLOW = ["https://tools.example.org/mcp"]
    [told] = await app_results(endpoint, "tell_time", zone="UTC")
    assert told.app is None, "operators turn pages off"


def page(**given: object) -> dict[str, object]:
    return {"contents": [{"uri": "ui://a", "mimeType": mcp_apps.MEDIA_TYPE, "text": "<p>a", **given}]}


def test_policy_opens_declared_names_alone():
    closed = (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; font-src 'none'; "
        "media-src data:; connect-src 'none'; frame-src 'none'; base-uri 'none'; object-src 'none'; "
        "form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts allow-forms"
    )
    assert mcp_apps.content_security_policy({}) == closed
    unsafe = ["*", "https:", "http://a.example", "https://a.example; script-src *", "https://*.com", "data:", 7]
    unsafe += ["https://127.0.0.1", "https://localhost", "https://[::1]", "https://a.example/x", "'unsafe-eval'"]
    unsafe += ["https://printer.local", "https://1.2.3.0x4", "https://a.example:65536"]
    _, wishes = mcp_apps.page_in("ui://a", page(_meta={"ui": {"csp": {"connectDomains": unsafe}}}))
    assert wishes["csp"] == {}
    named = {"connectDomains": ["wss://a.example:8443"], "resourceDomains": ["https://*.cdn.example"]}
    _, wishes = mcp_apps.page_in("ui://a", page(_meta={"ui": {"csp": named}}))
    opened = mcp_apps.content_security_policy(wishes["csp"])
    assert "connect-src wss://a.example:8443;" in opened
    assert "script-src 'unsafe-inline' https://*.cdn.example;" in opened
    assert "frame-src 'none';" in opened
    names = [f"https://{'a' * 60}.{number}.example" for number in range(20)]
    with pytest.raises(mcp_apps.NoApp, match="4 kB"):
        mcp_apps.page_in("ui://a", page(_meta={"ui": {"csp": {"resourceDomains": names}}}))


@pytest.mark.parametrize(
    "given",
    [{"mimeType": "text/html"}, {"mimeType": None}, {"text": None, "blob": "?"}, {"text": None, "blob": "/w=="}],
)
def test_page_is_utf_8_html_of_its_type(given):
    with pytest.raises(mcp_apps.NoApp):
        mcp_apps.page_in("ui://a", page(**given))
    assert mcp_apps.page_in("ui://a", page())[0] == "<p>a"
    assert mcp_apps.page_in("ui://a", page(text=None, blob="PHA+YQ=="))[0] == "<p>a"
    with pytest.raises(mcp_apps.NoApp):
        mcp_apps.page_in("ui://a", {})
