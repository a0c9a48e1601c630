"""The circuit breaker rejects calls to a failing agent, and lets one at a time try it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections

from apps.remote import circuit_breaker, errors
from apps.remote.models import Breaker
from tests.remote.registered import remote_agent

pytestmark = [pytest.mark.django_db, pytest.mark.services("one of many calls tries the agent again")]

LOST = errors.Unreachable("far.invalid cannot be reached.")


@pytest.fixture
def far(db, settings):
    settings.REMOTE_BREAKER_FAILURES = 3
    return remote_agent("far")


@pytest.fixture
def opened(far):
    for _ in range(3):
        circuit_breaker.record_failure(far, LOST)
    return far


def pass_time(agent, **of):
    row = Breaker.objects.get(agent=agent)
    for name in ("failing_since", "opened_at", "retry_at", "trial_at"):
        if getattr(row, name) is not None:
            setattr(row, name, getattr(row, name) - timedelta(**of))
    row.save()
    circuit_breaker.clear_cache()


def state_of(agent):
    return Breaker.objects.get(agent=agent).state


def health_of(agent):
    agent.refresh_from_db()
    return agent.health


def test_it_opens_after_some_failures_in_a_row(far):
    for _ in range(2):
        circuit_breaker.record_failure(far, LOST)
        circuit_breaker.admit(far)
    circuit_breaker.record_failure(far, LOST)
    with pytest.raises(errors.CircuitOpen, match=r"Far failed again and again .* Try again in 30 s\."):
        circuit_breaker.admit(far)
    assert (health_of(far), far.is_enabled) == ("unavailable", True)
    assert "far.invalid cannot be reached" in far.ailment
    circuit_breaker.admit(remote_agent("near"))
    before = Breaker.objects.get(agent=far)
    circuit_breaker.record_failure(far, LOST)  # a call that began before it opened
    after = Breaker.objects.get(agent=far)
    assert (after.retry_at, after.openings) == (before.retry_at, before.openings)


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (errors.CutOff("It fell silent."), True),
        (errors.Misbehaved("What it answers is not JSON."), True),
        (errors.Refused("It broke down.", reason="HTTP_500", status=500, is_transient=True), True),
        (errors.Refused("There is no such task.", reason="TASK_NOT_FOUND", status=404), False),
        (errors.Unauthorized("It wants a credential."), False),
        (errors.Unreachable("This address is not open.", is_transient=False), False),
    ],
)
def test_only_the_agents_own_faults_count(far, error, counts):
    for _ in range(3):
        circuit_breaker.record_failure(far, error)
    if counts:
        with pytest.raises(errors.CircuitOpen):
            circuit_breaker.admit(far)
    else:
        circuit_breaker.admit(far)
        assert health_of(far) == "ok"


@pytest.mark.django_db(transaction=True)
def test_one_of_many_calls_tries_it_again(opened):
    pass_time(opened, seconds=31)
    assert state_of(opened) == "half-open"
    together = threading.Barrier(6)

    def attempt(_):
        together.wait(10)
        try:
            circuit_breaker.admit(opened)
        except errors.CircuitOpen as refusal:
            return str(refusal)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as threads:
        told = list(threads.map(attempt, range(6)))
    assert told.count(None) == 1
    assert any("is being tried by another call now" in one for one in told if one)
    assert state_of(opened) == "half-open"


def test_failed_trials_double_the_wait(opened, far):
    waits = []
    for retry_after in (None,) * 7 + (200,):
        pass_time(opened, seconds=601)
        circuit_breaker.admit(opened)
        if retry_after:
            circuit_breaker.record_success(opened)
        for _ in range(3 if retry_after else 1):
            circuit_breaker.record_failure(opened, errors.Overloaded("It is busy.", retry_after=retry_after))
        with pytest.raises(errors.CircuitOpen) as refused:
            circuit_breaker.admit(opened)
        waits.append(round(refused.value.retry_after))
    assert waits == [60, 120, 240, 480, 600, 600, 600, 200], "the last as the agent wanted"


@pytest.mark.parametrize("heard", ["success", "credential wanted", "nothing"])
def test_a_trial_closes_it_or_leaves_room(opened, heard):
    pass_time(opened, seconds=31)
    circuit_breaker.admit(opened)
    assert health_of(opened) == "unavailable"  # as noted when it opened; no check ran since
    match heard:
        case "success":
            circuit_breaker.record_success(opened)
            assert (state_of(opened), health_of(opened)) == ("closed", "ok")
        case "credential wanted":
            circuit_breaker.record_failure(opened, errors.Unauthorized("It wants a credential."))
            assert state_of(opened) == "closed", "the agent is back"
        case "nothing":
            with pytest.raises(errors.CircuitOpen):
                circuit_breaker.admit(opened)
            pass_time(opened, seconds=31)
    circuit_breaker.admit(opened)


def test_calls_that_asked_nothing_change_nothing(far):
    unasked = errors.CredentialMissing("Nobody gave it.")
    for _ in range(2):
        circuit_breaker.record_failure(far, LOST)
        circuit_breaker.record_failure(far, unasked)
    assert Breaker.objects.get(agent=far).failures == 2
    circuit_breaker.record_failure(far, LOST)
    pass_time(far, seconds=31)
    circuit_breaker.admit(far)
    circuit_breaker.record_failure(far, unasked)
    assert state_of(far) == Breaker.State.HALF_OPEN
    with pytest.raises(errors.CircuitOpen):
        circuit_breaker.admit(far)
