"""The broker or Redis stops and returns while a task works."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from apps.engine.jobs import REPUBLISH_AFTER
from tests.faults.agents import lines_to
from tests.faults.calling import JSON, Caller, message, text_of
from tests.faults.conftest import PATIENCE, wait_for_stop
from tests.stack import Stack


def work_on_without(own: Stack, goes: Callable[[], object], comes_back: Callable[[], None], folder: Path) -> None:
    """Stop it during a stream, a wait and new messages; everything is done once."""
    patient = Caller(own, "patient")
    said = message(f"30 {folder}")
    task = patient.call("SendMessage", message=said, configuration={"returnImmediately": True})["task"]
    with ThreadPoolExecutor() as callers:
        stream = callers.submit(patient.streamed, "SendStreamingMessage", message=said)
        waiting = callers.submit(patient.call, "SendMessage", message=said)
        wait_for_stop(own, task, 10)
        under_way = patient.send("40")
        goes()
        meanwhile = [patient.send("3") for _ in range(5)]
        Path(folder, "10").touch()
        wait_for_stop(own, task, 20)
        comes_back()
        afterwards = patient.send("3")
        Path(folder, "20").touch()
        assert stream.result(2 * PATIENCE) == {"text": lines_to(30), "state": "TASK_STATE_COMPLETED"}
        assert_it_counted(waiting.result(PATIENCE)["task"], 30)
    for sent, last in ((under_way, 40), (afterwards, 3), *((short, 3) for short in meanwhile)):
        assert_it_counted(patient.ended(sent, within=PATIENCE + REPUBLISH_AFTER.total_seconds()), last)


def assert_it_counted(task: JSON, last: int) -> None:
    assert [text_of(artifact) for artifact in task["artifacts"]] == [lines_to(last)]
    assert [one["role"] for one in task["history"]] == ["ROLE_USER", "ROLE_AGENT"]
