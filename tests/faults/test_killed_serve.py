"""kill -9 of `serve` by a run of its own: a restart continues the neighbors' work, and the run then dies alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.faults.agents import lines_to
from tests.faults.calling import Caller, text_of
from tests.faults.conftest import PATIENCE, standing


def test_run_that_kills_its_process_fails_alone():
    with standing({}) as own:
        patient, reckless, poison = (Caller(own, slug) for slug in ("patient", "reckless", "poison"))
        neighbor, unrepeatable = patient.send("30 held"), reckless.send("30 held")
        for caller, task in ((patient, neighbor), (reckless, unrepeatable)):
            caller.until(lambda now: now["status"]["state"] == "TASK_STATE_WORKING", task, within=PATIENCE)
        with ThreadPoolExecutor() as beside:  # the process may die before it answers
            sending = beside.submit(poison.send_through, "Drink this.")
            own.processes["serve"].wait(PATIENCE)
            own.start()
            killer = sending.result(PATIENCE)
        killed, done = poison.ended(killer, within=4 * PATIENCE), patient.ended(neighbor, within=4 * PATIENCE)
        failed = reckless.ended(unrepeatable, within=PATIENCE)
        assert own.is_running("serve")
    assert all(word in text_of(killed["status"]["message"]) for word in ("killed its worker", "SIGKILL"))
    assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(30)]
    assert [one["role"] for one in done["history"]] == ["ROLE_USER", "ROLE_AGENT"]
    assert "not retry" in text_of(failed["status"]["message"])
    assert not failed.get("artifacts")
