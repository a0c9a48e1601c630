"""kill -9 in the middle of the work: it goes on, or fails with a reason, and nothing is doubled."""

from __future__ import annotations

import base64
import random

import pytest
from django.conf import settings

from tests import stack
from tests.faults.agents import lines_to
from tests.faults.calling import JSON, Caller, text_of
from tests.faults.conftest import PATIENCE
from tests.stack import Stack


def kill_the_worker(standing: Stack) -> None:
    """What executes runs dies at once, and is started again."""
    name = "serve" if standing.is_embedded else "worker"
    standing.kill(name)
    standing.start(name)


def assert_it_is_whole(standing: Stack, task: JSON) -> None:
    """The log has no gap and says what the rows say."""
    replayed = standing.manage("replay", task["contextId"], check=False)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_work_that_may_be_repeated_goes_on_and_is_delivered_once(frail: Stack, patient: Caller) -> None:
    task = patient.send("100")
    patient.wait_until_streaming(task, chunks=20)
    kill_the_worker(frail)
    done = patient.ended(task, within=PATIENCE + 100 * 0.1)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(100)]
    assert [one["role"] for one in done["history"]] == ["ROLE_USER", "ROLE_AGENT"]
    assert_it_is_whole(frail, task)


def test_work_that_may_not_be_repeated_fails_with_a_reason(frail: Stack, countdown: Caller) -> None:
    task = countdown.send("100")
    countdown.wait_until_streaming(task, chunks=20)
    kill_the_worker(frail)
    failed = countdown.ended(task, within=PATIENCE)
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    assert "not repeated" in text_of(failed["status"]["message"])
    assert not failed.get("artifacts")
    assert_it_is_whole(frail, task)


def test_a_report_is_made_though_its_worker_died(frail: Stack) -> None:
    report = Caller(frail, "report")
    numbers = random.Random(7)
    table = "a,b,c,d\n" + "".join(f"{numbers.random()},{numbers.gauss(5, 2)},x,{n % 7}\n" for n in range(60_000))
    raw = base64.b64encode(table.encode()).decode()
    sheet = {"raw": raw, "filename": "measurements.csv", "mediaType": "text/csv"}
    task = report.send("a report as PDF", sheet)
    with report.streaming("SubscribeToTask", id=task["id"]) as events:
        assert any("progress" in event.get("statusUpdate", {}).get("metadata", {}) for event in events)
    kill_the_worker(frail)
    done = report.ended(task, within=PATIENCE + 60)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert sorted(artifact["name"] for artifact in done["artifacts"]) == ["chart.png", "report.pdf"]
    assert_it_is_whole(frail, task)


def test_sigterm_gives_the_work_back_at_once(frail: Stack, patient: Caller) -> None:
    name = "serve" if frail.is_embedded else "worker"
    task = patient.send("240")  # 12 seconds: longer than a process that is told to end waits for it
    patient.wait_until_streaming(task, chunks=20)
    frail.terminate(name, within=20)
    runs = frail.manage("shell", "-v0", "-c", STATES_OF.format(task=task["id"])).stdout
    assert runs.split() == ["queued", "None"]
    frail.start(name)
    done = patient.ended(task, within=PATIENCE + 240 * 0.1)
    assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(240)]
    assert_it_is_whole(frail, task)


STATES_OF = """
from apps.conversations.models import Run
for run in Run.objects.filter(task="{task}"):
    print(run.state, run.lease_until)
"""


@pytest.mark.services("needs several processes or a real broker", only=True)
def test_a_stream_outlives_the_worker_behind_it(frail: Stack, patient: Caller) -> None:
    task = patient.send("100")
    with patient.streaming("SubscribeToTask", id=task["id"]) as events:
        for event in events:
            if "artifactUpdate" in event:
                break
        kill_the_worker(frail)
        states = [event["statusUpdate"]["status"]["state"] for event in events if "statusUpdate" in event]
    assert states[-1] == "TASK_STATE_COMPLETED"


@pytest.mark.services("needs several processes or a real broker", only=True)
def test_another_worker_takes_over_within_the_lease_that_an_installation_has() -> None:
    with stack.running() as standing:
        standing.manage("register_agent", "patient", "--handler", "tests.faults.agents:Patient")
        patient = Caller(standing, "patient")
        task = patient.send("100")
        patient.wait_until_streaming(task, chunks=20)
        kill_the_worker(standing)
        done = patient.ended(task, within=settings.RUN_LEASE_SECONDS + 15 + 100 * 0.1)
        assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(100)]
        assert_it_is_whole(standing, task)
