"""Agents with a folder: what a process of its own costs a send, and what others notice of one that misbehaves."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.rpc import Client
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
