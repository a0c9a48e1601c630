"""A run whose process died runs alone next time, so that another death shows whose fault it is."""

import datetime
import signal

import pytest
from django.core import mail

from agentkit import Completed
from apps.agents.models import Agent
from apps.engine import accept
from apps.engine.claim import SUSPICION, RunsAlone, claim
from apps.engine.isolation import PAUSE_AFTER, note_end
from apps.installation.models import Activity
from apps.record import projection
from apps.record.execution import Run
from db import sql
from tests.working import begin, end, let_the_lease_run_out, state_of

pytestmark = [pytest.mark.django_db, pytest.mark.services("claims compare and swap in each database's own SQL")]

FIRST, SECOND = "host:1:aaaaaa:1", "other:2:bbbbbb:1"


@pytest.fixture(autouse=True)
def repeatable(echo):
    echo.retry_safe, echo.attempts = True, 1
    echo.save()
    return echo


@pytest.fixture
def send(ada, echo, said):
    return lambda: accept.accept(ada.principal, echo, said())


def lose(run_id, worker=FIRST):
    held = claim(run_id, worker, alone=True)
    let_the_lease_run_out(held.lease)


def kill(send, code=-signal.SIGKILL):
    """Send a message whose run ends the process that it has alone."""
    sent = send()
    lose(sent.run)
    with pytest.raises(RunsAlone):
        claim(sent.run, SECOND)
    begin(sent.run, SECOND)
    note_end(sent.run, SECOND, code)
    return sent


def test_lost_runs_wait_for_their_own_process(send):
    sent = send()
    lose(sent.run)
    with pytest.raises(RunsAlone) as reserved:
        claim(sent.run, SECOND)
    run = Run.objects.get()
    assert (reserved.value.run_id, reserved.value.worker) == (sent.run, SECOND)
    assert (run.state, run.alone, run.worker) == (Run.State.QUEUED, True, SECOND)
    assert run.lease_until > sql.database_time()


def test_neighbors_lose_no_attempt(send):
    sent = send()
    lose(sent.run)
    end(begin(sent.run, SECOND), Completed("done"))
    assert state_of(sent.task) == "completed"


def test_deaths_that_nobody_saw_cost_attempts(send):
    sent = send()
    for worker in (FIRST, SECOND):
        lose(sent.run, worker)
    assert claim(sent.run, "a third:3:c:1") is None
    assert Run.objects.get().error["code"] == "worker_lost"


@pytest.mark.parametrize(
    ("code", "how"), [(-signal.SIGSEGV, "SIGSEGV"), (-signal.SIGKILL, "SIGKILL"), (3, "exit code 3")]
)
def test_runs_that_kill_twice_fail_by_name(send, echo, code, how):
    sent = kill(send, code)
    error = Run.objects.get().error
    assert (state_of(sent.task), error["code"]) == ("failed", "worker_killed")
    assert "killed its worker" in error["message"]
    assert echo.name in error["message"]
    assert how in error["message"]
    assert projection.differences(sent.context) == []


def test_ended_runs_are_not_blamed(send):
    sent = send()
    end(begin(sent.run, SECOND), Completed("done"))
    note_end(sent.run, SECOND, -signal.SIGKILL)
    assert state_of(sent.task) == "completed"


def test_others_runs_are_not_blamed(send):
    sent = send()
    lose(sent.run, SECOND)
    begin(sent.run, FIRST)
    note_end(sent.run, SECOND, -signal.SIGKILL)
    assert state_of(sent.task) == "working"


def test_unclaimed_runs_are_queued_again(send):
    sent = send()
    lose(sent.run)
    with pytest.raises(RunsAlone):
        claim(sent.run, SECOND)
    note_end(sent.run, SECOND, -signal.SIGKILL)
    assert Run.objects.get().lease_until is None
    begin(sent.run)


def test_a_living_process_does_not_suspect_itself(send):
    sent = send()
    lose(sent.run, "host:1:aaaaaa:1")
    Agent.objects.update(attempts=2)
    assert claim(sent.run, "host:1:aaaaaa:2").attempt == 2


def test_the_third_kill_pauses_the_agent(send, echo, settings):
    settings.ADMINS, settings.EMAIL_URL = ["olga@parley.local"], "memory://"
    for kills in range(1, PAUSE_AFTER + 1):
        assert Agent.objects.get(pk=echo.pk).activity == Activity.ACTIVE, kills
        kill(send)
    assert Agent.objects.get(pk=echo.pk).activity == Activity.PAUSED
    [letter] = mail.outbox
    assert (letter.to, echo.slug in letter.subject) == (["olga@parley.local"], True)


def test_kills_of_long_ago_pause_nobody(send, echo):
    for _ in range(PAUSE_AFTER - 1):
        kill(send)
    Run.objects.update(finished_at=sql.database_time() - SUSPICION - datetime.timedelta(minutes=1))
    kill(send)
    assert Agent.objects.get(pk=echo.pk).activity == Activity.ACTIVE


@pytest.fixture
def suspected(send, echo):
    """An agent that may not repeat a turn, after a process died with one."""
    Agent.objects.update(retry_safe=False)
    lost = send()
    lose(lost.run)
    assert claim(lost.run, SECOND) is None
    assert state_of(lost.task) == "failed"


@pytest.mark.usefixtures("suspected")
def test_unrepeatable_agents_run_alone_after_a_death(send):
    with pytest.raises(RunsAlone):
        claim(send().run, SECOND)


@pytest.mark.usefixtures("suspected")
def test_a_run_through_clears_its_agent(send):
    sent = send()
    end(begin(sent.run, SECOND), Completed("done"))
    note_end(sent.run, SECOND, 0)
    assert claim(send().run, FIRST) is not None


def test_a_killer_is_not_cleared_by_one_success(send):
    kill(send)
    sent = send()
    end(begin(sent.run, SECOND), Completed("done"))
    note_end(sent.run, SECOND, 0)
    with pytest.raises(RunsAlone):
        claim(send().run, FIRST)
