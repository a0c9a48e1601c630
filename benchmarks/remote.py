"""Remote agents: the gateway's overhead for calls, and for many streams.

The peer is the SDK's server; the same agent is also hosted here for comparison.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import httpx
from a2a.client import Client as SdkClient
from a2a.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types import a2a_pb2 as a2a

from benchmarks.figures import Figures, latencies
from benchmarks.rpc import Client
from benchmarks.scale import Scale
from benchmarks.target import Target
from tests.a2a.talking import request
from tests.remote import peers

PEER = "SDK 1.3 JSON-RPC"
HOSTED, REMOTE = "bench-hosted", "bench-remote"
CHUNKS = 40  # of each stream
PAUSE = 0.25  # seconds between chunks
BETWEEN = 0.02  # seconds between starts of streams


def register(target: Target, scale: Scale) -> None:
    target.run("tests.remote.peers.registering", HOSTED, f"{REMOTE}={peers.peer(PEER).card_url}")


async def calls(target: Target, scale: Scale) -> Figures:
    """A streamed answer until the task's end, by three ways in turn.

    The gateway's overhead is the time beyond a hosted agent's call, and beyond the same two requests to the peer.
    """
    ways: dict[str, list[float]] = {"the peer itself": [], "hosted here": [], "remote": []}
    async with AsyncExitStack() as stack:
        bare = await _bare(stack)
        client = await stack.enter_async_context(target.client())
        for _ in range(scale.remote_calls + 3):
            for name, call in (
                ("the peer itself", lambda: _directly(bare)),
                ("hosted here", lambda: _through(client, HOSTED)),
                ("remote", lambda: _through(client, REMOTE)),
            ):
                ways[name].append(await _seconds(call))
    figures: Figures = {}
    for name, seconds in ways.items():
        ways[name] = seconds[3:]  # the first ones connect and import
        figures |= latencies(ways[name], name, 50)
    own = statistics.median(remote - hosted - bare for bare, hosted, remote in zip(*ways.values(), strict=True))
    return figures | {"the gateway's own, p50 ms": max(0.0, own * 1000)}


async def streams(target: Target, scale: Scale) -> Figures:
    """As many open streams as the scale says, in one worker process."""
    before = _look(target)
    began = time.perf_counter()
    reading = []
    for _ in range(scale.remote_streams):
        reading.append(asyncio.create_task(_read(target)))
        await asyncio.sleep(BETWEEN)
    during = before
    while not all(one.done() for one in reading):
        await asyncio.sleep(0.2)
        during = max(during, _look(target))
    events = sum([await one for one in reading])
    seconds = time.perf_counter() - began
    assert events == scale.remote_streams * CHUNKS, f"{events} chunks came"
    return {
        "threads before": before[0],
        "threads at most": during[0],
        "kB a stream": max(0.0, during[1] - before[1]) / scale.remote_streams,
        "events/s": events / seconds,
        "whole s": seconds,
    }


async def _read(target: Target) -> int:
    """Read one stream; returns its number of chunks."""
    async with target.client() as client:
        pieces = [piece async for piece in client.send_streaming(REMOTE, f"chunks {CHUNKS} {PAUSE}")]
    whole = b"".join(pieces)
    assert b"TASK_STATE_COMPLETED" in whole, whole
    return whole.count(b'"artifactUpdate"')


async def _bare(stack: AsyncExitStack) -> SdkClient:
    http = await stack.enter_async_context(httpx.AsyncClient(timeout=30, trust_env=False))
    return await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(peers.peer(PEER).url)


async def _directly(client: SdkClient) -> None:
    """The gateway's two requests: a stream, then a get that confirms its end."""
    seen = [event async for event in client.send_message(request("hello"))]
    await client.get_task(a2a.GetTaskRequest(id=seen[0].task.id, history_length=1))


async def _through(client: Client, slug: str) -> None:
    pieces = [piece async for piece in client.send_streaming(slug, "hello")]
    assert b"TASK_STATE_COMPLETED" in pieces[-1], pieces[-1]


async def _seconds(call: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


def _look(target: Target) -> tuple[int, float]:
    """Threads and kilobytes of the process that executes runs."""
    return target.threads(worker=True), target.resident_kilobytes(worker=True)
