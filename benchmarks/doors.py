"""What a send through another protocol costs, beside A2A's: processor time of all the installation's processes."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.figures import Figures
from benchmarks.http import Connection
from benchmarks.rpc import Client, request, said
from benchmarks.scale import Scale
from benchmarks.target import Target

SENDS, TURNS = 100, 3
FOLLOWERS, CHUNKS = 40, 100


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
    for name, peer in PEERS.items():
        figures[f"{name}, ratio to {peer}"] = whole[name] / whole[peer]
        figures[f"{name}, web process, ratio"] = web[name] / web[peer]
    return figures


A2A, A2A_STREAMING = "SendMessage", "SendStreamingMessage"
PEERS = {"chat completion": A2A, "response": A2A, "MCP tool": A2A, "AG-UI run": A2A_STREAMING}
"""What A2A has instead. An AG-UI run is a stream."""


def agui_run(text: str, run: str) -> bytes:
    said = [{"id": "1", "role": "user", "content": text}]
    body = {"threadId": f"thread-{run}", "runId": run, "state": {}, "messages": said, "tools": [], "context": []}
    return json.dumps(body | {"forwardedProps": {}}).encode()


def post(path: str, body: Callable[[str], dict[str, Any]]) -> Callable[[Client], Awaitable[object]]:
    async def send(client: Client) -> object:
        return await client.fetch("POST", path, json.dumps(body(f"Hello {uuid.uuid4()}")).encode())

    return send


DOORS: dict[str, Callable[[Client], Awaitable[object]]] = {
    A2A: lambda client: client.send("echo", f"Hello {uuid.uuid4()}"),
    A2A_STREAMING: lambda client: client.fetch(
        "POST", "/a2a/echo", request("SendStreamingMessage", said(f"Hello {uuid.uuid4()}"))
    ),
    "chat completion": post(
        "/v1/chat/completions", lambda text: {"model": "echo", "messages": [{"role": "user", "content": text}]}
    ),
    "response": post("/v1/responses", lambda text: {"model": "echo", "input": text}),
    "AG-UI run": lambda client: client.fetch(
        "POST", "/agui/echo", agui_run(f"Hello {uuid.uuid4()}", str(uuid.uuid4()))
    ),
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


async def fan_out(target: Target, scale: Scale) -> Figures:
    """What FOLLOWERS of one task's stream cost the web process, by each protocol."""
    serving = "serve" if target.inside.is_embedded else "web"
    costs = {}
    for name, start in STREAMS.items():
        async with target.client() as client:
            path, body, headers = await start(client)
        before = target.processor_seconds()[serving]
        sizes = await asyncio.gather(*(_follow(target, path, body, headers) for _ in range(FOLLOWERS)))
        costs[name] = target.processor_seconds()[serving] - before
        assert min(sizes) > CHUNKS * len("line 10"), f"{name}: a follower got {min(sizes)} bytes"
    events = FOLLOWERS * CHUNKS
    figures = {f"{name}, processor µs an event and follower": cost / events * 1e6 for name, cost in costs.items()}
    return figures | {f"{name}, ratio to A2A's": costs[name] / costs[A2A_STREAM] for name in list(STREAMS)[1:]}


async def _follow(target: Target, path: str, body: bytes, headers: dict[str, str]) -> int:
    """The bytes of a whole stream."""
    base = {"Authorization": f"Bearer {target.key}", "A2A-Version": "1.0", "Content-Type": "application/json"}
    async with Connection(target.url, base | headers) as connection:
        return sum([len(piece) async for piece in connection.stream("POST" if body else "GET", path, body)])


type Start = Callable[[Client], Awaitable[tuple[str, bytes, dict[str, str]]]]
"""Starts a task; gives the request that follows it."""


async def _start_a2a(client: Client) -> tuple[str, bytes, dict[str, str]]:
    params = said(str(CHUNKS)) | {"configuration": {"returnImmediately": True}}
    task = (await client.call("bench-paced", "SendMessage", params))["task"]["id"]
    return "/a2a/bench-paced", request("SubscribeToTask", {"id": task}), {}


async def _start_response(client: Client) -> tuple[str, bytes, dict[str, str]]:
    asked = {"model": "bench-paced", "input": str(CHUNKS), "background": True}
    answer = json.loads(await client.fetch("POST", "/v1/responses", json.dumps(asked).encode()))
    return f"/v1/responses/{answer['id']}?stream=true", b"", {}


async def _start_agui(client: Client) -> tuple[str, bytes, dict[str, str]]:
    run = agui_run(str(CHUNKS), str(uuid.uuid4()))
    async for _ in client.stream("POST", "/agui/bench-paced", run):
        break
    return "/agui/bench-paced", run, {"Last-Event-ID": "1"}


A2A_STREAM = "SubscribeToTask"
STREAMS: dict[str, Start] = {A2A_STREAM: _start_a2a, "response": _start_response, "AG-UI run": _start_agui}
