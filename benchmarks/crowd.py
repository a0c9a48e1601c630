"""One key's many streams: what they cost another key's caller, and what many sessions cost a stream.

`python -m benchmarks.crowd URL KEY STREAMS A_SECOND` is the crowd: it opens streams of `GET /events`, says "open", and
sends messages to `echo` until its input ends. It is a process of its own, so that it does not delay the measured one.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import httpx
import uvloop

from benchmarks.figures import Figures, latencies
from benchmarks.rpc import Client
from benchmarks.scale import Scale
from benchmarks.target import Target

OPENING = 50  # streams opened at once
A_SECOND = 10  # messages of the crowd
SETTLING_SECONDS = 2.0  # after the streams have opened
PAUSE_SECONDS = 0.02  # between the measured sends
FEW = 10  # sessions


class Stream(asyncio.Protocol):
    """A stream that takes as little of the measured machine as it can. `heard` is when the awaited words came."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key, self.bytes = url, key, 0
        self.begun = asyncio.get_running_loop().create_future()
        self.awaited = b""

    def await_words(self, words: str) -> None:
        self.awaited = words.encode()
        self.heard: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        target = urlsplit(self.url)
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_connection(lambda: self, target.hostname, target.port)
        head = f"GET /api/v1/events HTTP/1.1\r\nHost: {target.netloc}\r\nAuthorization: Bearer {self.key}\r\n\r\n"
        self.transport.write(head.encode())
        await self.begun

    def data_received(self, data: bytes) -> None:
        if not self.begun.done() and b"still here\n" in data:  # it has caught up
            self.begun.set_result(None)
        self.bytes += len(data)
        if self.awaited and self.awaited in data:
            self.awaited = b""
            self.heard.set_result(time.perf_counter())

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.begun.done():
            self.begun.set_exception(exc or ConnectionError("refused"))


async def crowd(url: str, key: str, count: int, a_second: float) -> None:
    streams = [Stream(url, key) for _ in range(count)]
    for at in range(0, count, OPENING):
        await asyncio.gather(*(stream.open() for stream in streams[at : at + OPENING]))
    print("open", flush=True)
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    async with asyncio.TaskGroup() as sends:
        while not ended.done():
            sends.create_task(_send(url, key))
            await asyncio.wait({ended}, timeout=1 / a_second if a_second else None)
    for stream in streams:
        stream.await_words("the last message")
    sent = time.perf_counter()
    await _send(url, key, "the last message")
    async with asyncio.timeout(60):
        heard = await asyncio.gather(*(stream.heard for stream in streams))
    print(max(heard, default=sent) - sent, sum(stream.bytes for stream in streams) / max(1, count) / 1000, flush=True)


async def _send(url: str, key: str, text: str = "hello") -> None:
    async with Client(url, key) as client:
        await client.send("echo", text)


@asynccontextmanager
async def crowded(target: Target, streams: int, a_second: float) -> AsyncGenerator[list[float]]:
    """The crowd; at the end, gives the seconds until all heard its last message, and the kB that a stream got."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.crowd", target.url, target.key, str(streams), str(a_second),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    said: list[float] = []
    try:
        assert await process.stdout.readline() == b"open\n"
        yield said
        process.stdin.close()
        said += map(float, (await process.stdout.readline()).split())
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def noisy_neighbor(target: Target, scale: Scale) -> Figures:
    """Blocking echoes of another key: alone, beside the crowd's messages, and beside its messages and streams."""
    quiet = user_key(target, "quiet@parley.local")
    await _echoes(target, quiet, 10)
    alone = await _echoes(target, quiet, scale.echoes)
    async with crowded(target, 0, A_SECOND):
        beside_messages = await _echoes(target, quiet, scale.echoes)
    before = await _looked_into(target)
    async with crowded(target, scale.crowd, A_SECOND) as said:
        await asyncio.sleep(SETTLING_SECONDS)
        after = await _looked_into(target)
        beside_streams = await _echoes(target, quiet, scale.echoes)
    p95 = "{}, p95 ms"
    figures = latencies(alone, "alone", 50, 95)
    figures |= latencies(beside_messages, "beside messages", 50, 95) | latencies(beside_streams, "crowded", 50, 95)
    return figures | {
        "crowded to alone, p95 ratio": figures[p95.format("crowded")] / figures[p95.format("alone")],
        "last message heard by all after s": said[0],
        "kB that a stream got": said[1],
        "kB of memory a stream": (after[0] - before[0]) / scale.crowd,
        "more threads": after[1] - before[1],
        "more database connections": after[2] - before[2],
    }


async def _looked_into(target: Target) -> tuple[float, int, int]:
    return target.resident_kilobytes(), target.threads(), await asyncio.to_thread(target.database_connections)


def user_key(target: Target, email: str) -> str:
    target.inside.manage("create_user", email, check=False)  # it may be there
    return target.inside.manage("create_api_key", email).stdout.strip()


async def _echoes(target: Target, key: str, count: int) -> list[float]:
    seconds = []
    async with Client(target.url, key) as client:
        for _ in range(count):
            began = time.perf_counter()
            await client.send("echo")
            seconds.append(time.perf_counter() - began)
            await asyncio.sleep(PAUSE_SECONDS)
    return seconds


async def many_sessions(target: Target, scale: Scale) -> Figures:
    """Processor time of the server for an event that one client hears, of few sessions and of many."""
    figures, costs = {}, []
    for count in (FEW, scale.heard_sessions):
        key = user_key(target, f"hears-{count}@parley.local")
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=f"{target.url}/api/v1", headers=headers, timeout=60) as http:
            sessions = [await _begin(http) for _ in range(count)]
            silent, _ = await _rename(target, http, sessions, scale.renames, None)
            stream = Stream(target.url, key)
            await stream.open()
            heard, delay = await _rename(target, http, sessions, scale.renames, stream)
            stream.transport.close()
        costs.append(max(heard - silent, 1e-6) / scale.renames * 1000)
        figures |= {f"{count} sessions, processor ms an event": costs[-1], f"{count} sessions, p50 ms": delay * 1000}
    return figures | {"many to few, ratio": costs[1] / costs[0]}


async def _begin(http: httpx.AsyncClient) -> str:
    answer = await http.post("/sessions", json={"agent": "echo", "title": "Heard"})
    return str(answer.raise_for_status().json()["session"]["id"])


async def _rename(
    target: Target, http: httpx.AsyncClient, sessions: list[str], count: int, stream: Stream | None
) -> tuple[float, float]:
    """Rename them in turn; gives the server's processor seconds, and the median seconds until the stream hears it."""
    before, delays = target.processor_seconds(), []
    for number in range(count):
        title = f"Name {time.perf_counter()}"
        if stream:
            stream.await_words(title)
        began = time.perf_counter()
        await http.patch(f"/sessions/{sessions[number % len(sessions)]}", json={"title": title})
        if stream:
            delays.append(await stream.heard - began)
    after = target.processor_seconds()
    spent = sum(after[name] - before[name] for name in after if name in ("serve", "web", "PostgreSQL"))
    return spent, statistics.median(delays or [0.0])


if __name__ == "__main__":
    uvloop.run(crowd(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
