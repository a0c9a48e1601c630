"""MCP servers' tools: HTTP through `outbound`; programs if an operator allows them."""

import asyncio
import logging
import shlex
import subprocess
import sys
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest

import outbound
from agentkit import AgentFailure, Completed, HandlerError, TaskContext, ToolResult, testing
from agentkit.llm import LlmWorker, McpServer, mcp_servers
from agentkit.llm.toolsets import connected
from tests.llm import tool_servers
from tests.llm.endpoint import Endpoint, calls, says

KEY = "tools-0ddba11"
PROGRAM = [sys.executable, "-m", "tests.llm.tool_servers"]


@pytest.fixture
def opened(settings):
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure(settings.OUTBOUND_ALLOW)


async def worked(server: McpServer) -> testing.Run:
    async def handler(task: TaskContext) -> str:
        return await LlmWorker("Help.", [server]).run(task)

    return await testing.run(handler, "x")


def results(run: testing.Run) -> list[tuple[object, bool]]:
    return [(one.result, one.is_error) for one in run.emissions if isinstance(one, ToolResult)]


@pytest.mark.usefixtures("opened")
async def test_its_tools_are_offered_and_called_with_the_headers(endpoint: Endpoint):
    with tool_servers.running(KEY) as server:
        endpoint.replies = [calls(("add", {"a": 2, "b": 3})), says("5")]
        run = await worked(McpServer(server.url, {"Authorization": f"Bearer {KEY}"}))
    assert isinstance(run.outcome, Completed)
    assert results(run) == [(5, False)]
    offered = {one["function"]["name"]: one["function"] for one in endpoint.requests[0]["tools"]}
    assert offered.keys() == {"add", "explode", "repeat"}
    assert offered["add"]["description"] == "Adds two numbers."
    assert {one["authorization"] for one in server.headers} == {f"Bearer {KEY}"}


@pytest.mark.usefixtures("opened")
async def test_only_those_that_were_chosen_are_offered_and_errors_go_back_to_the_model_in_few_words(endpoint: Endpoint):
    with tool_servers.running() as server:
        endpoint.replies = [calls(("explode", {"text": "boom "})), says("No.")]
        run = await worked(McpServer(server.url, only=["explode"]))
    assert [one["function"]["name"] for one in endpoint.requests[0]["tools"]] == ["explode"]
    ((told, is_error),) = results(run)
    assert is_error
    assert "boom" in told
    assert len(told) < 1100
    assert isinstance(run.outcome, Completed)


@pytest.mark.usefixtures("opened")
async def test_two_with_a_tool_of_one_name_fail_in_a_sentence_and_operators_read_which(endpoint: Endpoint):
    with tool_servers.running() as one, tool_servers.running() as other:
        servers = [McpServer(one.url), McpServer(f"{other.url}?key=secret")]

        async def handler(task: TaskContext) -> str:
            return await LlmWorker("Help.", servers).run(task)

        run = await testing.run(handler, "x")
    assert run.outcome.code == "agent_unfit"
    assert run.outcome.message == "The agent is set up in a way that cannot work. An operator must look at it."
    assert all(named in run.outcome.detail for named in (one.url, other.url, "'add'"))
    assert "secret" not in run.outcome.detail


@pytest.mark.usefixtures("opened")
async def test_one_that_refuses_or_is_not_there_fails_in_a_sentence_and_shows_no_key(endpoint: Endpoint, caplog):
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


@pytest.mark.usefixtures("opened")
async def test_one_that_goes_away_in_the_middle_is_an_error_for_the_model(endpoint: Endpoint):
    with ExitStack() as stack:
        server = stack.enter_context(tool_servers.running())

        async def close() -> str:
            """Closes the server."""
            await asyncio.to_thread(stack.close)
            return "closed"

        async def handler(task: TaskContext) -> str:
            return await LlmWorker("Help.", [close, McpServer(server.url)]).run(task)

        endpoint.replies = [calls(("close", {})), calls(("add", {"a": 2, "b": 3})), says("It is gone.")]
        run = await testing.run(handler, "x")
    assert run.outcome == Completed("It is gone.", run.artifacts)
    assert [is_error for _, is_error in results(run)] == [False, True]


async def test_a_private_address_is_refused_unless_an_operator_opened_it(endpoint: Endpoint):
    with tool_servers.running() as server:
        run = await worked(McpServer(server.url))
        assert run.outcome.code == "tools_unreachable"
        assert "OUTBOUND_ALLOW" in run.outcome.detail
        assert server.headers == []


async def test_a_program_is_started_where_settings_name_it_and_no_other(endpoint: Endpoint, settings):
    settings.MCP_STDIO_ALLOW = [shlex.join(PROGRAM)]
    endpoint.replies = [calls(("add", {"a": 2, "b": 3})), says("5")]
    assert results(await worked(McpServer(command=PROGRAM))) == [(5, False)]
    run = await worked(McpServer(command=[*PROGRAM, "--more"]))
    assert run.outcome.code == "tools_forbidden"
    assert "MCP_STDIO_ALLOW" in run.outcome.message
    with pytest.raises(AgentFailure, match="MCP_STDIO_ALLOW"):
        await LlmWorker("Help.", [McpServer(command=["true"])]).run(message="x")


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


@pytest.mark.skipif(sys.platform != "linux", reason="needs the parent-death signal")
async def test_a_killed_worker_leaves_no_program():
    stubborn = "import time, tests.llm.tool_servers as servers; servers.tools().run('stdio'); time.sleep(300)"
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


def programs() -> list[str]:
    """Command lines of this process's children that are tool servers."""
    children = [*Path("/proc/self/task").glob("*/children")]
    ids = [each for one in children for each in one.read_text().split()]
    lines = [Path(f"/proc/{one}/cmdline").read_bytes().decode() for one in ids if Path(f"/proc/{one}").exists()]
    return [line for line in lines if "tests.llm.tool_servers" in line or "sleep" in line]


async def test_a_turns_program_ends_with_it(endpoint: Endpoint, settings):
    settings.MCP_STDIO_ALLOW = [shlex.join(PROGRAM)]
    endpoint.replies = [calls(("add", {"a": 2, "b": 3})), says("5")]
    assert isinstance((await worked(McpServer(command=PROGRAM))).outcome, Completed)
    assert programs() == []


async def test_a_stopped_turns_program_ends(endpoint: Endpoint, settings):
    settings.MCP_STDIO_ALLOW = [shlex.join(PROGRAM)]
    is_connected = asyncio.Event()

    async def turn() -> None:
        async with connected([McpServer(command=PROGRAM)], {}):
            is_connected.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(turn())
    await is_connected.wait()
    assert len(programs()) == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert programs() == []


async def test_a_program_that_never_greets_is_ended(endpoint: Endpoint, settings, monkeypatch):
    settings.MCP_STDIO_ALLOW = ["sleep 1000"]
    monkeypatch.setattr(mcp_servers, "START_SECONDS", 0.1)
    assert (await worked(McpServer(command=["sleep", "1000"]))).outcome.code == "tools_unreachable"
    assert programs() == []


def test_a_server_has_either_a_url_or_a_command_its_name_shows_no_query_and_its_keys_are_known():
    server = McpServer("https://a.example/mcp?key=secret", {"Authorization": "Bearer abc"})
    assert server.label == "https://a.example/mcp"
    assert set(server.secrets) == {"Bearer abc", "abc", "key=secret"}
    for given in ({}, {"url": "http://a.example", "command": ["a"]}):
        with pytest.raises(HandlerError, match="either a url or a command"):
            McpServer(**given)
