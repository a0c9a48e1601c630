"""kill -9 while an agent waits for others: it finds what they have done, and calls nobody twice."""

from __future__ import annotations

import time

from tests.faults.calling import JSON, Caller, text_of
from tests.faults.conftest import PATIENCE
from tests.faults.test_killed_workers import assert_it_is_whole, kill_the_worker
from tests.stack import Stack

RUNS = """
from apps.conversations.models import Run
for run in Run.objects.filter(task__parent="{task}"):
    print(run.task_id, run.state, run.attempt)
"""


def test_a_caller_that_may_be_repeated_finds_its_children(frail: Stack, patient: Caller) -> None:
    frail.manage("register_agent", "foreman", "--handler", "tests.faults.agents:Foreman")
    foreman = Caller(frail, "foreman")
    task = foreman.send("3 150")
    done, working = wait_until_one_is_done(patient)
    patient.wait_until_streaming(working, chunks=10)
    kill_the_worker(frail)
    ended = foreman.ended(task, within=2 * PATIENCE + 150 * 0.1)
    assert text_of(ended["status"]["message"]) == "3 150", ended
    runs = frail.manage("shell", "-v0", "-c", RUNS.format(task=task["id"])).stdout.splitlines()
    expected = [f"{done['id']} done 1", f"{working['id']} done 2"]
    assert sorted(runs) == sorted(expected), "the one that was done was not done again"
    for one in (ended, done, working):
        assert_it_is_whole(frail, one)


def wait_until_one_is_done(patient: Caller) -> tuple[JSON, JSON]:
    """The two newest tasks, once one of them has ended and the other works."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        by_state = {task["status"]["state"]: task for task in patient.call("ListTasks", pageSize=2)["tasks"]}
        if by_state.keys() == {"TASK_STATE_COMPLETED", "TASK_STATE_WORKING"}:
            return by_state["TASK_STATE_COMPLETED"], by_state["TASK_STATE_WORKING"]
        time.sleep(0.05)
    raise AssertionError("the children did not begin")
