"""kill -9 while a remote agent is at work: its work is found again, nothing is sent twice, nothing is said twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.calling import Caller, text_of
from tests.faults.conftest import PATIENCE
from tests.faults.test_killed_workers import assert_it_is_whole, kill_the_worker
from tests.gateway.peers.starting import running
from tests.stack import Stack

RUN = """
from apps.conversations.models import Run
run = Run.objects.get(task="{task}")
print(run.attempt, run.fence > 1, run.remote["taskId"])
"""


@pytest.fixture
def remote(frail: Stack, tmp_path: Path) -> Iterator[Caller]:
    """The SDK's own server, registered as the agent `cast`."""
    with running("tests.gateway.peers.sdk_server") as url:
        card = tmp_path / "card.json"
        card.write_text(json.dumps(httpx.get(f"{url}.well-known/agent-card.json", trust_env=False).json()))
        frail.manage("register_agent", "cast", "--card", str(card))
        yield Caller(frail, "cast")


def test_the_work_of_a_remote_agent_is_found_again(frail: Stack, remote: Caller) -> None:
    task = remote.send("count 1000")  # ten seconds
    remote.wait_until_streaming(task, chunks=20)
    kill_the_worker(frail)
    done = remote.ended(task, within=PATIENCE + 30)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [text_of(artifact) for artifact in done["artifacts"]] == ["".join(f"{n} " for n in range(1, 1001))]
    found = frail.manage("shell", "-v0", "-c", RUN.format(task=task["id"])).stdout.split()
    assert found[1] == "True", "another worker took the run up"
    assert_it_is_whole(frail, task)
