"""MCP servers over HTTP and as a program (`-m tests.model_agents.tool_servers`)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server.apps import Apps, ResourceCsp, client_supports_apps
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent


def tools() -> MCPServer:
    server = MCPServer("tools")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    @server.tool()
    def explode(text: str) -> str:
        """Explodes."""
        raise ToolError(text * 1000)

    @server.tool()
    def repeat(text: str) -> str:
        """Says it again."""
        return text

    return server


PAGE = "ui://clock/page.html"
BROKEN = {"ui://clock/large.html": "x" * 5 * 1024**2, "ui://clock/plain.txt": "Not a page."}
CSP = {"connectDomains": ["https://api.example.org"], "resourceDomains": ["https://*.example.net"]}


def clock(html: str = "<!doctype html><p>A clock</p>") -> MCPServer:
    """A server whose tools have pages, by the SDK's own extension."""
    apps = Apps()

    @apps.tool(resource_uri=PAGE)
    def tell_time(ctx: Context[Any], zone: str) -> CallToolResult:
        """Tells the time."""
        told = f"12:00 in {zone}" if client_supports_apps(ctx) else "no page here"
        return CallToolResult(
            content=[TextContent(type="text", text=told)], structured_content={"time": "12:00"}, _meta={"zone": zone}
        )

    @apps.tool(resource_uri=PAGE, visibility=["app"])
    def set_alarm(at: str) -> str:
        """Sets an alarm."""
        return f"Alarm at {at}"

    @apps.tool(resource_uri=PAGE, visibility=["model"])
    def stop_clock() -> str:
        """Stops the clock."""
        return "Stopped"

    for number, (uri, text) in enumerate(BROKEN.items()):
        apps.tool(resource_uri=uri, name=f"broken_{number}")(lambda: "told")
        apps.add_html_resource(uri, text)
    apps.add_html_resource(PAGE, html, csp=ResourceCsp.model_validate(CSP), prefers_border=False)
    next(one.resource for one in apps.resources() if one.resource.uri.endswith(".txt")).mime_type = "text/plain"
    return MCPServer("clock", extensions=[apps])


@dataclass
class ToolServer:
    """`headers` are the requests' headers."""

    url: str
    headers: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def running(key: str = "", made: Callable[[], MCPServer] = tools) -> Iterator[ToolServer]:
    listening = socket.create_server(("127.0.0.1", 0))
    told = ToolServer(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
    app: Any = made().streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            told.headers.append(headers)
            if key and headers.get("authorization") != f"Bearer {key}":
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": headers.get("authorization", "").encode()})
                return
        await app(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(guarded, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listening],), name="tools")
    thread.start()
    try:
        yield told
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


if __name__ == "__main__":
    tools().run("stdio")
