"""kill -9 while a project is being built: it goes on, and no file is written twice."""

from __future__ import annotations

from tests.faults.calling import JSON, Caller
from tests.faults.conftest import PATIENCE
from tests.faults.test_killed_workers import assert_it_is_whole, kill_the_worker
from tests.stack import Stack

CHILDREN = """
from apps.conversations.models import Artifact, Run, Task
for child in Task.objects.filter(parent="{task}").order_by("created_at"):
    made = Artifact.objects.delivered().filter(task=child.pk)
    runs = Run.objects.filter(task=child.pk)
    print(*(one.name for one in made), child.state, runs.count(), sum(run.attempt for run in runs), sep=",")
"""


def children(standing: Stack, task: JSON) -> list[list[str]]:
    """Of each child in order: what it delivered, its state, how many turns it had, and in how many attempts."""
    told = standing.manage("shell", "-v0", "-c", CHILDREN.format(task=task["id"])).stdout
    return [line.split(",") for line in told.splitlines() if line]


def test_a_project_whose_worker_died_is_built_and_each_file_written_once(frail: Stack) -> None:
    handler = "tests.faults.agents:SlowBuilderWorker"
    frail.manage("register_agent", "builder-worker", "--handler", handler)
    builder = Caller(frail, "builder")
    task = builder.send("a.md and b.md and c.md and d.md")
    wait_for_a_file(builder, task)
    kill_the_worker(frail)
    ended = builder.ended(task, within=2 * PATIENCE + 10)
    assert ended["status"]["state"] == "TASK_STATE_COMPLETED", ended
    assert [artifact["name"] for artifact in ended["artifacts"]] == ["a.md", "b.md", "c.md", "d.md"]
    plan, *files = children(frail, task)
    assert plan == ["plan.json", "completed", "1", "1"]
    assert sorted(name for name, *_ in files) == ["a.md", "b.md", "c.md", "d.md"]
    assert all(state == "completed" and turns == "1" for _, state, turns, _ in files)
    attempts = {name: int(attempts) for name, _, _, attempts in files}
    assert attempts["a.md"] == 1, "what was done when the worker died was not done again"
    assert attempts["d.md"] == 2, "what was being done was taken up again"
    assert_it_is_whole(frail, ended)


def wait_for_a_file(builder: Caller, task: JSON) -> None:
    """Wait until the builder tells that a file is there: it is in the middle of its work then."""
    with builder.streaming("SubscribeToTask", id=task["id"]) as events:
        assert any("File 1 of 4" in str(event) for event in events), "no file was written"
