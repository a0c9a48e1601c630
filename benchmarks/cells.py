"""The cells of `benchmarks.peers`: requests that the SDK's server answers too, by a client that knows no difference."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.load import Request, timed
from benchmarks.rpc import Client, request, said
from benchmarks.target import Target

AT_ONCE = 16  # requests
CHUNKS = 100  # of each of many streams
PAGE = 50  # tasks
STREAMING_SECONDS = 1.5  # of a round, at least: a fast server streams more than once

_tasks: dict[str, list[str]] = {}  # by target: completed ones, to be read


@dataclass(frozen=True)
class Sample:
    """A round's figure, and the requests (streams) that it took."""

    figure: float
    requests: int


Measure = Callable[[Target, int], Awaitable[Sample]]


@dataclass(frozen=True)
class Cell:
    """A compared figure.

    Attributes:
        measure: a round of `count` requests, chunks or streams.
        count, few: of a round, and of the warm-up or `--quick`.
        rounds: if there is time; many short ones bear other work of the machine best.
        must, aim: of the ratio to the SDK's server; where the aim is below 1, less is better.
    """

    key: str
    title: str
    unit: str
    measure: Measure
    count: int
    few: int
    rounds: int
    must: float
    aim: float

    @property
    def less_is_better(self) -> bool:
        return self.aim < 1

    def holds(self, ratio: float, limit: float) -> bool:
        return ratio <= limit if self.less_is_better else ratio >= limit


def in_turn(one: Request) -> Measure:
    async def measure(target: Target, count: int) -> Sample:
        seconds, _ = await timed(target, one, count=count)
        return Sample(statistics.median(seconds) * 1000, count + 1)

    return measure


def at_once(one: Request, number: int = AT_ONCE) -> Measure:
    async def measure(target: Target, count: int) -> Sample:
        _, whole = await timed(target, one, count=count, at_once=number)
        return Sample(count / whole, count + number)

    return measure


async def send(client: Client) -> Any:
    """A blocking send to `echo`, in a new conversation."""
    text = f"hello {uuid.uuid4()}"
    task = (await client.call("echo", "SendMessage", _message(text)))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    assert [part["text"] for artifact in task["artifacts"] for part in artifact["parts"]] == [text], task
    return task


async def get(target: Target, count: int) -> Sample:
    if target.name not in _tasks:  # in the warm-up
        async with target.client() as client:
            _tasks[target.name] = [(await send(client))["id"] for _ in range(AT_ONCE)]
    chosen = itertools.cycle(_tasks[target.name])

    async def one(client: Client) -> None:
        task = await client.call("echo", "GetTask", {"id": next(chosen)})
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task

    return await at_once(one)(target, count)


async def page(client: Client) -> None:
    found = await client.call("bench-many", "ListTasks", {"pageSize": PAGE})
    assert len(found["tasks"]) == PAGE, found


async def stream(target: Target, chunks: int, streams: int = 1) -> Sample:
    """Events of as many streams at once, repeated for STREAMING_SECONDS."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(target.client()) for _ in range(streams)]
        began, times = time.perf_counter(), 0
        while not times or time.perf_counter() - began < STREAMING_SECONDS:
            await asyncio.gather(*(_read(client, chunks) for client in clients))
            times += 1
        return Sample(times * streams * chunks / (time.perf_counter() - began), times * streams)


async def streams(target: Target, count: int) -> Sample:
    return await stream(target, CHUNKS, count)


async def _read(client: Client, chunks: int) -> None:
    """A stream from `bench-chunks`, read whole and then checked."""
    body = request("SendStreamingMessage", _message(str(chunks)))
    whole = await client.fetch("POST", "/a2a/bench-chunks", body)
    events = whole.count(b'"artifactUpdate"')
    assert events >= chunks, f"{events} of {chunks} chunks"
    assert b"TASK_STATE_COMPLETED" in whole, whole[-2000:]


def _message(text: str) -> dict[str, Any]:
    params = said(text)
    params["message"]["contextId"] = str(uuid.uuid4())
    return params


CELLS = (
    Cell("send1", "Blocking send, 1 at a time", "p50 ms", in_turn(send), 70, 5, 9, 1.0, 0.7),
    Cell("send16", "Blocking send, 16 at a time", "requests/s", at_once(send), 224, 16, 9, 1.8, 2.5),
    Cell("get16", "GetTask, 16 at a time", "requests/s", get, 640, 16, 9, 1.5, 2.0),
    Cell("stream", "One stream of 1,000 chunks", "events/s", stream, 1000, 10, 3, 25, 30),
    Cell("streams", "50 streams of 100 chunks", "events/s", streams, 50, 2, 3, 10, 20),
    Cell("list", "ListTasks, a page of 100,000 tasks", "p50 ms", in_turn(page), 5, 2, 9, 0.1, 0.05),
)
