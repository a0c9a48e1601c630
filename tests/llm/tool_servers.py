"""MCP servers over HTTP and as a program (`-m tests.llm.tool_servers`)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError


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


@dataclass
class ToolServer:
    """`headers` are the requests' headers."""

    url: str
    headers: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def running(key: str = "") -> Iterator[ToolServer]:
    listening = socket.create_server(("127.0.0.1", 0))
    told = ToolServer(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
    app: Any = tools().streamable_http_app()

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
