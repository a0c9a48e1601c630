"""A killed `make run` continues after a restart."""

from __future__ import annotations

from tests.faults.agents import lines_to
from tests.faults.calling import Caller, text_of
from tests.faults.conftest import PATIENCE, kill_the_worker, standing


def test_a_serve_that_is_killed_goes_on_where_it_was() -> None:
    with standing() as own:
        patient, reckless = Caller(own, "patient"), Caller(own, "reckless")
        task, other = patient.send("30 held"), reckless.send("30 held")
        for caller, one in ((patient, task), (reckless, other)):
            caller.until(lambda now: now["status"]["state"] == "TASK_STATE_WORKING", one, within=PATIENCE)
        kill_the_worker(own)
        done = patient.ended(task, within=PATIENCE)
        assert [text_of(artifact) for artifact in done["artifacts"]] == [lines_to(30)]
        assert [one["role"] for one in done["history"]] == ["ROLE_USER", "ROLE_AGENT"]
        failed = reckless.ended(other, within=PATIENCE)
        assert "not retry" in text_of(failed["status"]["message"])
        assert not failed.get("artifacts")
