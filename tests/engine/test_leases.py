"""A run needs its lease; its fence rejects later writes."""

import datetime

import pytest

from agentkit import Completed, Failed
from apps.engine import accept, cancel
from apps.engine.claim import claim
from apps.engine.jobs import sweep
from apps.engine.worker import check_leases, release_runs
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Artifact
from apps.record.runs import Lease, LeaseLost
from tests.working import begin, chunk, end, let_the_lease_run_out, log_of, say, state_of

pytestmark = [pytest.mark.django_db, pytest.mark.services("the ledger writes each database's own SQL")]


@pytest.fixture(autouse=True)
def published(monkeypatch):
    runs = []
    for module in ("jobs", "worker", "claim"):
        monkeypatch.setattr(f"apps.engine.{module}.publish", runs.append)
    return runs


@pytest.fixture(autouse=True)
def unrepeatable(echo):
    echo.retry_safe = False
    echo.save()


@pytest.fixture
def repeatable(echo, unrepeatable):
    echo.retry_safe, echo.attempts = True, 2
    echo.save()
    return echo


@pytest.fixture
def sent(ada, echo, said):
    return accept.accept(ada.principal, echo, said())


def test_a_hold_whose_lease_ran_out_writes_nothing(sent):
    held = begin(sent.run)
    say(held, chunk("in-time", "text"))
    let_the_lease_run_out(held.lease)
    before = log_of(sent.context)
    with pytest.raises(LeaseLost):
        say(held, chunk("late", "text"))
    with pytest.raises(LeaseLost):
        end(held, Completed("late"))
    assert log_of(sent.context) == before
    assert state_of(sent.task) == "working"


def test_an_old_fence_writes_nothing_though_the_run_is_held(repeatable, sent):
    old = begin(sent.run)
    let_the_lease_run_out(old.lease)
    new = begin(sent.run, "another")
    before = log_of(sent.context)
    with pytest.raises(LeaseLost):
        say(old, chunk("late", "text"))
    with pytest.raises(LeaseLost):
        end(old, Failed("late"))
    assert log_of(sent.context) == before
    end(new, Completed("in time"))
    assert state_of(sent.task) == "completed"


def test_what_is_said_extends_the_lease(sent):
    held = begin(sent.run)
    before = Run.objects.get().lease_until - datetime.timedelta(seconds=5)
    Run.objects.update(lease_until=before)
    say(held, chunk("one", "text"))
    assert Run.objects.get().lease_until > before


def test_a_heartbeat_extends_what_is_held_and_tells_of_what_is_not(repeatable, sent, ada, said):
    lost = begin(sent.run)
    let_the_lease_run_out(lost.lease)
    new = begin(sent.run, "another")
    canceled = begin(accept.accept(ada.principal, repeatable, said()).run)
    cancel.cancel_task(canceled.task)
    before = Run.objects.get(pk=sent.run).lease_until
    assert check_leases([canceled.lease], extend=True) == {}
    assert lost.lease not in check_leases([lost.lease], extend=True)
    assert Run.objects.get(pk=sent.run).lease_until == before
    assert check_leases([new.lease], extend=True) == {new.lease: False}
    assert Run.objects.get(pk=sent.run).lease_until > before


def test_a_second_attempt_begins_what_the_first_had_begun_again(repeatable, sent):
    first = begin(sent.run)
    say(first, chunk("first", "half", last=False))
    let_the_lease_run_out(first.lease)
    second = begin(sent.run)
    assert second.attempt == 2
    say(second, chunk("second", "whole"))
    end(second, Completed("done"))
    assert dict(Artifact.objects.values_list("artifact_id", "state")) == {"first": "discarded", "second": "delivered"}
    assert projection.differences(sent.context) == []


def test_work_that_was_given_back_costs_no_attempt_and_is_begun_again(repeatable, sent, published):
    first = begin(sent.run)
    say(first, chunk("first", "half", last=False))
    release_runs([first])
    assert published == [sent.run]
    second = begin(sent.run)
    assert (second.attempt, second.lease) == (1, Lease(sent.run, 2))
    end(second, Completed("done"))
    assert dict(Artifact.objects.values_list("artifact_id", "state"))["first"] == "discarded"
    assert projection.differences(sent.context) == []


def test_work_that_may_not_be_repeated_fails_with_a_reason_when_its_process_ends(sent):
    held = begin(sent.run)
    release_runs([held])
    assert state_of(sent.task) == "failed"
    assert Run.objects.get().error["code"] == "worker_lost"
    release_runs([held])
    assert projection.differences(sent.context) == []


def test_what_is_in_no_queue_is_found_by_the_sweep(sent, published, settings):
    assert sweep() == 0, "its wake-up may still be on its way"
    settings.SWEEP_SECONDS = -1
    assert sweep() == 1
    assert published == [sent.run]


def test_a_run_whose_worker_is_alive_is_left_alone(sent, published, settings):
    settings.SWEEP_SECONDS = -1
    begin(sent.run)
    assert sweep() == 0


def test_a_run_whose_worker_is_lost_is_found_and_tried_as_often_as_the_agent_allows(repeatable, sent, published):
    for attempt in (1, 2, 3):  # the first loss may be a neighbor's fault
        held = begin(sent.run)
        assert held.attempt == attempt
        let_the_lease_run_out(held.lease)
        assert sweep() == 1
    assert claim(sent.run, "a third") is None
    assert state_of(sent.task) == "failed"
    run = Run.objects.get()
    assert (run.state, run.attempt, run.error["code"]) == (Run.State.FAILED, 3, "worker_lost")
    assert "3 times" in run.error["message"]
    assert sweep() == 0


def test_a_run_that_may_not_be_repeated_is_not(sent):
    let_the_lease_run_out(begin(sent.run).lease)
    assert claim(sent.run, "another") is None
    assert state_of(sent.task) == "failed"
    assert "not retry" in Run.objects.get().error["message"]
