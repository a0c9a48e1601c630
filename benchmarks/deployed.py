"""Agents with a folder: what a process of its own costs a send, and what others notice of one that misbehaves."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from benchmarks.figures import Figures, latencies
from benchmarks.rpc import Client, said
from benchmarks.scale import Scale
from benchmarks.target import Target, seconds_of

HOSTED, FOLDER = "bench-says", "bench-folder"
ROUNDS = 4  # of each way, in turn
AGENT = """
from agentkit import SkillHandler, TaskContext


class Says(SkillHandler):
    name = "Says"

    async def on_request(self, task: TaskContext) -> str:
        return task.message.text
"""
UNRULY = """
import os, sys, time
from pathlib import Path
from agentkit import SkillHandler, TaskContext

HANGS = Path.home() / "hangs"
if HANGS.exists():
    time.sleep(3600)


class Unruly(SkillHandler):
    name = "Unruly"

    async def on_request(self, task: TaskContext) -> str:
        await task.progress("…")
        getattr(self, task.message.text)()
        return "done"

    def allocates(self):
        held = []
        while True:
            held.append(b"x" * 2**20)

    def forks(self):
        while True:
            try:
                os.fork()
            except OSError:
                pass

    def prints(self):
        for _ in range(256):
            os.write(1, b"x" * 2**20)

    def computes(self):
        while True:
            pass

    def hangs(self):
        HANGS.touch()
        os._exit(1)

    def exits(self):
        os._exit(1)

    def cuts(self):
        os.closerange(3, 256)
"""
WAYS = ("allocates", "forks", "prints", "computes", "hangs", "exits", "cuts")
PAUSE_SECONDS = 0.1  # between measured sends
AGAIN_SECONDS = 1.0  # between messages to an unruly agent
SETTLING_SECONDS = 3.0


def add(target: Target, slug: str, code: str, *, described: str = "handler: agent:Says\n") -> None:
    """An agent from a folder, whose environment is made as a user's."""
    with tempfile.TemporaryDirectory() as made:
        Path(made, "agent.yaml").write_text(f"name: {slug}\naccess: authenticated\n{described}")
        Path(made, "agent.py").write_text(code)
        target.inside.manage("agents", "add", made, "--slug", slug)


def prepare(target: Target, scale: Scale) -> None:
    add(target, FOLDER, AGENT)


async def cost(target: Target, scale: Scale) -> Figures:
    """Processor time of a blocking send: web and worker, the agent's process, and the same agent hosted here."""
    spent = {HOSTED: 0.0, FOLDER: 0.0}
    own = 0.0
    async with target.client() as client:
        for slug in spent:
            await _sends(client, slug, 10)
        for _ in range(ROUNDS):
            for slug in spent:
                before, agents = _parleys(target), agents_seconds(target)
                await _sends(client, slug, scale.deployed_calls)
                spent[slug] += _parleys(target) - before
                own += agents_seconds(target) - agents if slug == FOLDER else 0.0
    sends = ROUNDS * scale.deployed_calls / 1000
    hosted, folder, own = spent[HOSTED] / sends, spent[FOLDER] / sends, own / sends
    return {
        "hosted here, ms": hosted,
        "from a folder, ms": folder,
        "its process, ms": own,
        "more, ms": folder + own - hosted,
    }


def prepare_unruly(target: Target, scale: Scale) -> None:
    add(target, FOLDER, AGENT)
    for way in WAYS:
        add(target, f"bench-{way}", UNRULY, described="handler: agent:Unruly\nmemory: 128\n")


async def neighbors(target: Target, scale: Scale) -> Figures:
    """Sends to a folder's agent and to a hosted one, alone and beside each unruly agent in turn, in one run."""
    figures: Figures = {}
    async with target.client() as client:
        for slug in (FOLDER, HOSTED):
            await _sends(client, slug, 10)
        for way in WAYS:
            alone = await _paced(client, scale.echoes)
            async with _unruly(target, way):
                await asyncio.sleep(SETTLING_SECONDS)
                beside = await _paced(client, scale.echoes)
            for slug, name in ((FOLDER, "folder"), (HOSTED, "hosted")):
                for percent in (50, 95):
                    [before], [during] = (latencies(one[slug], "", percent).values() for one in (alone, beside))
                    figures[f"one {way}: {name}, p{percent} ratio"] = during / before
    return figures


async def _paced(client: Client, count: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {FOLDER: [], HOSTED: []}
    for _ in range(count):
        for slug, taken in seconds.items():
            began = time.perf_counter()
            await _sends(client, slug, 1)
            taken.append(time.perf_counter() - began)
            await asyncio.sleep(PAUSE_SECONDS)
    return seconds


@asynccontextmanager
async def _unruly(target: Target, way: str) -> AsyncGenerator[None]:
    """An agent that does this again and again."""

    async def provoke() -> None:
        async with target.client() as client:
            while True:
                message = said(way) | {"configuration": {"returnImmediately": True}}
                await client.call(f"bench-{way}", "SendMessage", message)
                await asyncio.sleep(AGAIN_SECONDS)

    provoking = asyncio.create_task(provoke())
    try:
        yield
    finally:
        provoking.cancel()
        with suppress(asyncio.CancelledError):
            await provoking


async def _sends(client: Client, slug: str, count: int) -> None:
    for _ in range(count):
        task = await client.send(slug)
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task


def _parleys(target: Target) -> float:
    return sum(target.processor_seconds().values())


def agents_seconds(target: Target) -> float:
    """Processor time of all processes of agents, which are at home in its folder."""
    found = 0.0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                is_agent = os.readlink(f"{entry.path}/cwd").startswith(f"{target.inside.data_dir}/agents/")
            except OSError:
                continue
            found += seconds_of(int(entry.name)) if is_agent else 0.0
    return found
