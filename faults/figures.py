"""`python -m faults.figures [races subscribers readers readiness flood restart]`: single promises in numbers.

They run on a stack of services, and need PostgreSQL, Redis and RabbitMQ as `make bench` does. Exits with 1 where a
promise is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import psycopg

from benchmarks import variants
from benchmarks.agents import JOIN_SECONDS, WORK_SECONDS
from benchmarks.crowd import user_key
from benchmarks.flood import FLOOD, first_tasks, flooded
from benchmarks.http import Connection
from benchmarks.load import timed
from benchmarks.rpc import Client, request, said
from benchmarks.target import Target

RACES, AT_ONCE = 1_000, 10
SUBSCRIBERS, CUTS, CHUNKS = 200, 20, 300
READERS, LARGE_CHUNKS, PAUSE_SECONDS = 50, 500, 0.1  # of each of two turns: one may bring at most 200 MB
OTHERS, FLOOD_ROUNDS = 100, 2
HOSTILE, BUSY = 30, 20  # readers that never read, and callers whose runs work
PROBED_SECONDS, PROBE_SECONDS, READY_SECONDS = 60, 0.25, 1.0
UNFINISHED = "SELECT count(*) FROM record_task WHERE id = %s AND state IN ('submitted', 'working')"
EVENT_ID = re.compile(rb"^id: ?(\d+)", re.MULTILINE)

Found = tuple[str, bool]
"""What a promise gave, in words, and whether it was kept."""


async def races(target: Target) -> Found:
    """Cancel tasks at about the moment when they complete."""
    dice, turns = random.Random(1), iter(range(RACES))
    ends: Counter[str] = Counter()

    async def racer() -> None:
        async with target.client() as client:
            for _ in turns:
                ends[await _race(client, dice.uniform(0, 3 * WORK_SECONDS))] += 1

    await asyncio.gather(*(racer() for _ in range(AT_ONCE)))
    seconds = _scalar(
        target,
        "SELECT count(*) FROM (SELECT task_id FROM record_event WHERE type = 'agent_status' AND payload->>'state'"
        " IN ('completed', 'failed', 'canceled', 'rejected') GROUP BY task_id HAVING count(*) > 1) AS twice",
    )
    disagreements = sum(count for end, count in ends.items() if "but" in end)
    text = f"{RACES} races: {dict(ends)}; {disagreements} disagreements, {seconds} second terminal states"
    return text, not disagreements and not seconds and len(ends) > 1


async def _race(client: Client, wait: float) -> str:
    params = said("race") | {"configuration": {"returnImmediately": True}}
    task = (await client.call("bench-waits", "SendMessage", params))["task"]["id"]
    await asyncio.sleep(wait)
    answer = json.loads(await client.fetch("POST", "/a2a/bench-waits", request("CancelTask", {"id": task})))
    told = "canceled" if "result" in answer else "not cancelable"
    state = ""
    while state not in ("completed", "canceled", "failed"):
        shown = await client.call("bench-waits", "GetTask", {"id": task})
        state = shown["status"]["state"].removeprefix("TASK_STATE_").lower()
    agrees = (told == "canceled") == (state == "canceled")
    return f"{told} {'and' if agrees else 'but'} {state}"


async def subscribers(target: Target) -> Found:
    """Followers of one task's stream who hang up again and again, and go on with Last-Event-ID."""
    async with target.client() as client:
        params = said(str(CHUNKS)) | {"configuration": {"returnImmediately": True}}
        task = (await client.call("bench-paced", "SendMessage", params))["task"]["id"]
    dice = random.Random(2)
    heard = await asyncio.gather(*(_follow_with_cuts(target, task, dice) for _ in range(SUBSCRIBERS)))
    expected = heard[0]
    wrong = [ids for ids in heard if ids != sorted(set(ids)) or set(ids) != set(expected)]
    missing = max((len(set(expected) ^ set(ids)) for ids in heard), default=0)
    found = f"{len(wrong)} differ, by {missing} at most"
    text = f"{SUBSCRIBERS} subscribers, {CUTS} cuts each, {len(expected)} events: {found}"
    return text, not wrong and len(expected) > CHUNKS


async def _follow_with_cuts(target: Target, task: str, dice: random.Random) -> list[int]:
    await asyncio.sleep(dice.uniform(0, JOIN_SECONDS / 2))
    body = request("SubscribeToTask", {"id": task})
    ids: list[int] = []
    for cut in range(CUTS + 1):
        headers = {"Authorization": f"Bearer {target.key}", "A2A-Version": "1.0", "Content-Type": "application/json"}
        headers |= {"Last-Event-ID": str(ids[-1])} if ids else {}
        most = dice.randint(1, 2 * CHUNKS // CUTS) if cut < CUTS else 10 * CHUNKS
        with suppress(RuntimeError):  # the task has ended meanwhile
            ids += await _hear(target.url, headers, body, most)
    return ids


async def _hear(url: str, headers: dict[str, str], body: bytes, most: int) -> list[int]:
    """The ids of so many events, or of all."""
    ids, rest = list[int](), b""
    async with Connection(url, headers) as connection:
        async for piece in connection.stream("POST", "/a2a/bench-paced", body):
            *frames, rest = (rest + piece).split(b"\n\n")
            ids += [int(found[1]) for frame in frames if (found := EVENT_ID.search(frame))]
            if len(ids) >= most:
                break
    return ids[:most]


async def readers(target: Target) -> Found:
    """Clients that never read, each offered a large stream: what they cost in memory, and others in time.

    The same stream without these clients comes first: writing it costs time, too.
    """
    async with target.client() as client:
        await client.send("echo")
        before = target.resident_kilobytes()
        alone, _ = await _stream_large(target, client, 0)
        beside, most = await _stream_large(target, client, READERS)
    grown, ratio = (most - before) / 1024, _p95(beside) / _p95(alone)
    offered = f"{READERS} readers that never read, {2 * LARGE_CHUNKS * 256 // 1024} MB offered to each"
    text = f"{offered}: web process +{grown:.0f} MB, an echo beside them takes {ratio:.2f} times as long (p95)"
    return text, grown <= 64 and ratio < 2


async def _stream_large(target: Target, client: Client, readers: int) -> tuple[list[float], float]:
    """The seconds of each echo until a large stream has ended, and the most memory meanwhile."""
    task = await _offer(client, f"{LARGE_CHUNKS} more")
    took, most = list[float](), 0.0
    lines = [_silent(target, task) for _ in range(readers)]
    for turn in range(2):
        if turn:
            await _offer(client, str(LARGE_CHUNKS), task)
        while await asyncio.to_thread(_scalar, target, UNFINISHED, [task]):
            took.append(await _echo_seconds(client))
            most = max(most, target.resident_kilobytes())
            await asyncio.sleep(PAUSE_SECONDS)
    for line in lines:
        line.close()
    return took, most


async def _offer(client: Client, text: str, task: str = "") -> str:
    """Have a large stream made; returns its task."""
    params = said(text) | {"configuration": {"returnImmediately": True}}
    params["message"] |= {"taskId": task} if task else {}
    return str((await client.call("bench-heavy", "SendMessage", params))["task"]["id"])


def _p95(seconds: list[float]) -> float:
    return sorted(seconds)[-(-len(seconds) * 95 // 100) - 1]


def _silent(target: Target, task: str) -> socket.socket:
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    line.connect(("127.0.0.1", int(target.url.rpartition(":")[2])))
    body = request("SubscribeToTask", {"id": task})
    head = (
        f"POST /a2a/bench-heavy HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {target.key}\r\nA2A-Version: 1.0"
    )
    line.sendall(f"{head}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    return line


async def _echo_seconds(client: Client) -> float:
    began = time.perf_counter()
    await client.send("echo")
    return time.perf_counter() - began


async def readiness(target: Target) -> Found:
    """Is `/readyz` answered in time while runs work and clients never read?"""
    async with AsyncExitStack() as exits:
        for load in (_keep_offering(target), *(_keep_working(target) for _ in range(BUSY))):
            exits.push_async_callback(_end, asyncio.create_task(load))
        probes, began = list[asyncio.Task[tuple[int, float]]](), time.monotonic()
        while time.monotonic() < began + PROBED_SECONDS:
            probes.append(asyncio.create_task(_probe(target)))
            await asyncio.sleep(PROBE_SECONDS)
        answers = await asyncio.gather(*probes)
    refused, slowest = sum(status != 200 for status, _ in answers), max(took for _, took in answers)
    beside = f"{HOSTILE} readers that never read and {BUSY} runs at work"
    text = f"{len(answers)} probes beside {beside}: {refused} answers other than 200, the slowest {slowest:.2f} s"
    return text, not refused and slowest < READY_SECONDS


async def _probe(target: Target) -> tuple[int, float]:
    began = time.perf_counter()
    async with Connection(target.url, {}) as connection:
        try:
            await connection.fetch("GET", "/readyz")
            status = 200
        except RuntimeError as refusal:
            print(refusal, file=sys.stderr)
            status = 503
    return status, time.perf_counter() - began


async def _keep_offering(target: Target) -> None:
    """Large streams, one after the other, each to as many readers that never read."""
    async with target.client() as client:
        while True:
            task = await _offer(client, str(LARGE_CHUNKS))
            lines = [_silent(target, task) for _ in range(HOSTILE)]
            try:
                while await asyncio.to_thread(_scalar, target, UNFINISHED, [task]):  # noqa: ASYNC110 - not in here
                    await asyncio.sleep(0.5)
            finally:
                for line in lines:
                    line.close()


async def _keep_working(target: Target) -> None:
    async with target.client() as client:
        while True:
            await client.send("bench-works")


async def _end(load: asyncio.Task[None]) -> None:
    """Raises what the load raised, since without it the figure says nothing."""
    load.cancel()
    with suppress(asyncio.CancelledError):
        await load


async def flood(target: Target) -> Found:
    """A tenant sends ten times its usual load: what another tenant's tasks take then."""
    other = user_key(target, "other@parley.local")
    sends = 4 * OTHERS
    _, whole = await timed(target, lambda client: client.send("echo"), count=sends, at_once=AT_ONCE)
    usual = sends / whole / FLOOD
    seconds: dict[int, list[float]] = {1: [], FLOOD: []}
    for times in [*seconds] * FLOOD_ROUNDS:
        async with flooded(target, "echo", usual * times, "normal"):
            seconds[times] += await first_tasks(target, "echo", other, OTHERS)
    one, ten = (_p95(seconds[times]) for times in seconds)
    text = f"{usual:.0f} messages a second of one tenant, then {FLOOD} times as many, which is all that is taken"
    found = f"an echo of another tenant takes {one * 1000:.0f} ms, then {ten * 1000:.0f} ms (p95)"
    return f"{text}: {found}", ten < 2 * one


async def restart(target: Target) -> Found:
    """A kill of everything, with 1,000,000 events in the database."""
    await asyncio.to_thread(target.run, "benchmarks.rows", "record", "bench-many", "500000")
    events = _scalar(target, "SELECT count(*) FROM record_event")
    stack = target.inside
    for process in stack.processes.values():
        process.send_signal(signal.SIGKILL)
        process.wait()
    began = time.monotonic()
    names = list(stack.processes)
    stack.processes.clear()
    for name in names:
        stack.begin(name)
    await asyncio.to_thread(stack.wait_for, "/readyz")
    async with target.client() as client:
        await client.send("echo")
    took = time.monotonic() - began
    return f"{events:,} events, all processes killed: an echo is answered {took:.1f} s after the start", took <= 5


def _scalar(target: Target, sql: str, values: Sequence[object] = ()) -> Any:
    with psycopg.connect(target.inside.environment["DATABASE_URL"]) as connection:
        row = connection.execute(sql, values).fetchone()
        return row[0] if row else None


FIGURES: dict[str, Callable[[Target], Coroutine[Any, Any, Found]]] = {
    one.__name__: one for one in (races, subscribers, readers, readiness, flood, restart)
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="faults.figures", description="Measures single promises under faults.")
    parser.add_argument("names", nargs="*", choices=FIGURES, default=list(FIGURES), help="by default all")
    names = parser.parse_args().names
    found = variants.services()
    kept = True
    for name in names:
        with variants.running({"services": found.get("services, Redis") or found["embedded"]}) as [target]:
            text, is_kept = asyncio.run(FIGURES[name](target))
        kept &= is_kept
        print(f"{name}: {text}{'' if is_kept else ': BROKEN'}", flush=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
