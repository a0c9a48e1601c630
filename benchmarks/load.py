"""Concurrent requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from benchmarks.rpc import Client
from benchmarks.target import Target

Request = Callable[[Client], Awaitable[object]]


async def timed(target: Target, request: Request, *, count: int, at_once: int = 1) -> tuple[list[float], float]:
    """Make `count` requests over `at_once` kept-alive connections; the seconds of each, and in total.

    A connection's first request is not counted.
    """
    left = iter(range(count))
    seconds: list[float] = []

    async def caller(client: Client) -> None:
        for _ in left:
            began = time.perf_counter()
            await request(client)
            seconds.append(time.perf_counter() - began)

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(target.client()) for _ in range(at_once)]
        await asyncio.gather(*(request(client) for client in clients))
        began = time.perf_counter()
        await asyncio.gather(*(caller(client) for client in clients))
        return seconds, time.perf_counter() - began
