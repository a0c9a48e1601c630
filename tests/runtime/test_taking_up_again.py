"""A process that takes up a run again, which it had lost without noticing, stops what it was at before."""

import pytest

from apps.agents.registration import register_hosted
from apps.conversations import intake
from apps.conversations.leases import Hold
from apps.runtime.process import WorkerProcess
from tests.runtime.agents import Stoppable
from tests.working import let_the_lease_run_out


@pytest.mark.django_db(transaction=True)
def test_the_earlier_attempt_is_stopped(ada, said):
    agent = register_hosted("stoppable", "tests.runtime.agents:Stoppable", retry_safe=True)
    sent = intake.accept(ada.principal, agent, said())
    process = WorkerProcess()
    try:
        Stoppable.begun.clear()
        Stoppable.stopped.clear()
        assert process.offer(sent.run)
        assert Stoppable.begun.wait(15)
        let_the_lease_run_out(Hold(sent.run, 1))
        assert process.offer(sent.run)
        assert Stoppable.stopped.wait(15)
    finally:
        process.close(0)
