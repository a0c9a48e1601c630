"""A run that kills its process takes one worker at most, and no neighbor's work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.agents import lines_to
from tests.faults.calling import Caller, text_of
from tests.faults.conftest import PATIENCE, standing

pytestmark = pytest.mark.services("a child process of a Celery worker, beside the server's own")


def test_a_run_that_kills_its_process_fails_alone() -> None:
    with standing() as own:
        name = "serve" if own.is_embedded else "worker"
        patient, poison = Caller(own, "patient"), Caller(own, "poison")
        neighbor = patient.send("30 held")
        patient.until(lambda now: now["status"]["state"] == "TASK_STATE_WORKING", neighbor, within=PATIENCE)
        with ThreadPoolExecutor() as beside:  # the process may die before it answers
            sending = beside.submit(poison.send_through, "Drink this.")
            own.processes[name].wait(PATIENCE)
            own.start(name)
            killer = sending.result(PATIENCE)
        failed, done = poison.ended(killer, within=4 * PATIENCE), patient.ended(neighbor, within=4 * PATIENCE)
        assert own.is_running(name)
    assert "killed its worker" in text_of(failed["status"]["message"])
    assert "SIGKILL" in text_of(failed["status"]["message"])
    assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(30)]
