"""What a send through another protocol costs, beside A2A's: processor time of all the installation's processes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.figures import Figures
from benchmarks.rpc import Client
from benchmarks.scale import Scale
from benchmarks.target import Target

SENDS, TURNS = 100, 3


async def sends(target: Target, scale: Scale) -> Figures:
    """Protocols take turns, so that what else the machine does counts for all."""
    count = max(5, SENDS * scale.plans // 100)
    serving = "serve" if target.inside.is_embedded else "web"
    whole, web = dict.fromkeys(DOORS, 0.0), dict.fromkeys(DOORS, 0.0)
    target.inside.manage("register_agent", "echo", "--handler", "examples.agents.echo:Echo", "--mcp-tools", "agent")
    async with target.client() as client:
        for send in DOORS.values():
            await send(client)
        for _ in range(TURNS):
            for name, send in DOORS.items():
                before = target.processor_seconds()
                for _ in range(count):
                    await send(client)
                after = target.processor_seconds()
                whole[name] += sum(after.values()) - sum(before.values())
                web[name] += after[serving] - before[serving]
    figures = {f"{name}, processor ms": seconds / count / TURNS * 1000 for name, seconds in whole.items()}
    for name in list(DOORS)[1:]:
        figures[f"{name}, ratio to A2A's"] = whole[name] / whole[A2A]
        figures[f"{name}, web process, ratio"] = web[name] / web[A2A]
    return figures


A2A = "SendMessage"


def post(path: str, body: Callable[[str], dict[str, Any]]) -> Callable[[Client], Awaitable[object]]:
    async def send(client: Client) -> object:
        return await client.fetch("POST", path, json.dumps(body(f"Hello {uuid.uuid4()}")).encode())

    return send


DOORS: dict[str, Callable[[Client], Awaitable[object]]] = {
    A2A: lambda client: client.send("echo", f"Hello {uuid.uuid4()}"),
    "chat completion": post(
        "/v1/chat/completions", lambda text: {"model": "echo", "messages": [{"role": "user", "content": text}]}
    ),
    "response": post("/v1/responses", lambda text: {"model": "echo", "input": text}),
    "MCP tool": post(
        "/mcp",
        lambda text: {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "echo", "arguments": {"message": text}},
        },
    ),
}
