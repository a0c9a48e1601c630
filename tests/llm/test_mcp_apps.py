"""MCP Apps: pages of tool servers, as a worker meets them."""

from __future__ import annotations

import pytest

import outbound
from agentkit import Completed, TaskContext, ToolResult, testing
from agentkit.llm import LlmWorker, McpServer, mcp_apps
from tests.llm import tool_servers
from tests.llm.endpoint import Endpoint, calls, says


@pytest.fixture
def opened(settings):
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure(settings.OUTBOUND_ALLOW)


async def results(endpoint: Endpoint, *called: str, **arguments: str) -> list[ToolResult]:
    with tool_servers.running(made=tool_servers.clock) as server:

        async def handler(task: TaskContext) -> str:
            return await LlmWorker("Help.", [McpServer(server.url)]).run(task)

        endpoint.replies = [calls(*((name, arguments) for name in called)), says("There.")]
        run = await testing.run(handler, "x")
    assert isinstance(run.outcome, Completed)
    return [one for one in run.emissions if isinstance(one, ToolResult)]


@pytest.mark.usefixtures("opened")
async def test_called_tool_brings_its_page(endpoint: Endpoint):
    [told] = await results(endpoint, "tell_time", zone="UTC")
    assert told.result == {"time": "12:00"}
    assert told.app is not None
    assert told.app["html"] == "<!doctype html><p>A clock</p>"
    assert told.app["ui"] == {"csp": tool_servers.CSP, "prefersBorder": False}
    assert told.app["arguments"] == {"zone": "UTC"}
    assert told.app["result"]["content"] == [{"type": "text", "text": "12:00 in UTC"}]  # both sides negotiated it
    assert told.app["result"]["structuredContent"] == {"time": "12:00"}
    assert told.app["result"]["_meta"]["zone"] == "UTC"
    offered = [one["function"]["name"] for one in endpoint.requests[0]["tools"]]
    assert "set_alarm" not in offered  # for its page alone
    assert "stop_clock" in offered


@pytest.mark.usefixtures("opened")
async def test_unfit_pages_leave_the_result(endpoint: Endpoint):
    told = await results(endpoint, "broken_0", "broken_1")
    assert [one.result for one in told] == ["told", "told"]
    problems = {one.name: one.app["problem"] for one in told if one.app}
    assert "4 MB" in problems["broken_0"]
    assert "text/plain" in problems["broken_1"]


@pytest.mark.usefixtures("opened")
async def test_operators_turn_pages_off(endpoint: Endpoint, settings):
    settings.MCP_APPS_ALLOW = ["https://tools.example.org/mcp"]
    [told] = await results(endpoint, "tell_time", zone="UTC")
    assert told.app is None


def page(**given: object) -> dict[str, object]:
    return {"contents": [{"uri": "ui://a", "mimeType": mcp_apps.MEDIA_TYPE, "text": "<p>a", **given}]}


@pytest.mark.parametrize(
    "given",
    [{"mimeType": "text/html"}, {"mimeType": None}, {"text": None, "blob": "?"}, {"text": None, "blob": "/w=="}],
)
def test_page_is_utf_8_html_of_its_type(given: dict[str, object]):
    with pytest.raises(mcp_apps.NoApp):
        mcp_apps.page_in("ui://a", page(**given))
    assert mcp_apps.page_in("ui://a", page())[0] == "<p>a"
    assert mcp_apps.page_in("ui://a", page(text=None, blob="PHA+YQ=="))[0] == "<p>a"
    with pytest.raises(mcp_apps.NoApp):
        mcp_apps.page_in("ui://a", {})


def test_policy_opens_declared_names_alone():
    closed = (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; font-src 'none'; "
        "media-src data:; connect-src 'none'; frame-src 'none'; base-uri 'none'; object-src 'none'; "
        "form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts allow-forms"
    )
    assert mcp_apps.content_security_policy({}) == closed
    unsafe = ["*", "https:", "http://a.example", "https://a.example; script-src *", "https://*.com", "data:", 7]
    unsafe += ["https://127.0.0.1", "https://localhost", "https://[::1]", "https://a.example/x", "'unsafe-eval'"]
    unsafe += ["https://a.localhost", "https://printer.local", "https://a.internal", "https://1.2.3.0x4"]
    unsafe += ["https://a.example:65536", "https://*.io"]
    _, wishes = mcp_apps.page_in("ui://a", page(_meta={"ui": {"csp": {"connectDomains": unsafe}}}))
    assert wishes["csp"] == {}
    named = {"connectDomains": ["wss://a.example:8443"], "resourceDomains": ["https://*.cdn.example"]}
    _, wishes = mcp_apps.page_in("ui://a", page(_meta={"ui": {"csp": named}}))
    opened = mcp_apps.content_security_policy(wishes["csp"])
    assert "connect-src wss://a.example:8443;" in opened
    assert "script-src 'unsafe-inline' https://*.cdn.example;" in opened
    assert "frame-src 'none';" in opened


def test_too_long_policy_leaves_no_page():
    names = [f"https://{'a' * 60}.{number}.example" for number in range(20)]
    with pytest.raises(mcp_apps.NoApp, match="4 kB"):
        mcp_apps.page_in("ui://a", page(_meta={"ui": {"csp": {"resourceDomains": names}}}))
