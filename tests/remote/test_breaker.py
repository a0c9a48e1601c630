"""The circuit breaker rejects calls to a failing agent, and lets one at a time try it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

import db as database
from apps.remote import circuit_breaker
from apps.remote.errors import (
    BadCard,
    CircuitOpen,
    CredentialMissing,
    CutOff,
    Misbehaved,
    Overloaded,
    Refused,
    TokenRefused,
    TokenUnavailable,
    Unauthorized,
    Unreachable,
)
from apps.remote.models import Breaker
from tests.remote import conversing, scripted
from tests.remote.registered import remote_agent

pytestmark = [pytest.mark.django_db, pytest.mark.services("one of many calls tries the agent again")]

LOST = Unreachable("far.invalid cannot be reached.")


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


def test_it_opens_after_so_many_failures_in_a_row_and_says_when_to_try_again(far):
    for _ in range(2):
        circuit_breaker.record_failure(far, LOST)
        circuit_breaker.admit(far)
    circuit_breaker.record_failure(far, LOST)
    with pytest.raises(CircuitOpen, match=r"Far failed again and again .* Try again in 30 s\."):
        circuit_breaker.admit(far)
    assert (health_of(far), far.is_enabled) == ("unavailable", True)
    assert "far.invalid cannot be reached" in far.ailment
    circuit_breaker.admit(remote_agent("near"))


def test_failures_far_apart_or_with_a_success_in_between_do_not_open_it(far):
    for _ in range(4):
        circuit_breaker.record_failure(far, LOST)
        circuit_breaker.record_failure(far, LOST)
        circuit_breaker.record_success(far)
    circuit_breaker.admit(far)
    assert state_of(far) == "closed"
    for _ in range(6):
        circuit_breaker.record_failure(far, LOST)
        pass_time(far, seconds=200)
    circuit_breaker.admit(far)


def test_calls_to_an_agent_that_answers_cost_no_statement(far):
    circuit_breaker.admit(far)
    with CaptureQueriesContext(connections["default"]) as queries:
        for _ in range(100):
            circuit_breaker.admit(far)
            circuit_breaker.record_success(far)
    assert len(queries) == 0


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (CutOff("It fell silent."), True),
        (Overloaded("It is busy.", retry_after=1), True),
        (Misbehaved("What it answers is not JSON."), True),
        (Refused("It broke down.", reason="HTTP_500", status=500, is_transient=True), True),
        (Refused("There is no such task.", reason="TASK_NOT_FOUND", status=404), False),
        (Unauthorized("It wants a credential."), False),
        (Unreachable("This address is not open.", is_transient=False), False),
        (BadCard("It has no card."), False),
        (CircuitOpen("It is left alone."), False),
    ],
)
def test_only_what_is_the_agents_fault_counts(far, error, counts):
    for _ in range(3):
        circuit_breaker.record_failure(far, error)
    if counts:
        with pytest.raises(CircuitOpen):
            circuit_breaker.admit(far)
    else:
        circuit_breaker.admit(far)
        assert health_of(far) == "ok"


@pytest.mark.django_db(transaction=True)
def test_one_of_many_calls_at_the_same_moment_tries_it_again(opened):
    pass_time(opened, seconds=31)
    assert state_of(opened) == "half-open"
    together = threading.Barrier(6)

    def attempt(_):
        together.wait(10)
        try:
            circuit_breaker.admit(opened)
        except CircuitOpen as refusal:
            return str(refusal)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as threads:
        told = list(threads.map(attempt, range(6)))
    assert told.count(None) == 1
    assert any("is being tried by another call now" in one for one in told if one)
    assert state_of(opened) == "half-open"


def test_a_trial_that_succeeds_closes_it(opened):
    pass_time(opened, seconds=31)
    circuit_breaker.admit(opened)
    assert health_of(opened) == "unavailable"  # as noted when it opened; no check ran since
    circuit_breaker.record_success(opened)
    assert (state_of(opened), health_of(opened)) == ("closed", "ok")
    for _ in range(3):
        circuit_breaker.admit(opened)


def test_the_credential_that_is_wanted_shows_that_the_agent_is_back(opened):
    pass_time(opened, seconds=31)
    circuit_breaker.admit(opened)
    circuit_breaker.record_failure(opened, Unauthorized("It wants a credential."))
    assert state_of(opened) == "closed"


def test_each_trial_that_fails_doubles_the_wait_up_to_ten_minutes(opened):
    waits = []
    for _ in range(7):
        pass_time(opened, seconds=601)
        circuit_breaker.admit(opened)
        circuit_breaker.record_failure(opened, LOST)
        with pytest.raises(CircuitOpen) as refused:
            circuit_breaker.admit(opened)
        waits.append(round(refused.value.retry_after))
    assert waits == [60, 120, 240, 480, 600, 600, 600]


def test_a_trial_of_which_nothing_is_heard_leaves_room_for_another(opened):
    pass_time(opened, seconds=31)
    circuit_breaker.admit(opened)
    with pytest.raises(CircuitOpen):
        circuit_breaker.admit(opened)
    pass_time(opened, seconds=31)
    circuit_breaker.admit(opened)


def test_calls_that_began_before_it_opened_do_not_prolong_it(opened):
    before = Breaker.objects.get(agent=opened)
    circuit_breaker.record_failure(opened, LOST)
    after = Breaker.objects.get(agent=opened)
    assert (after.retry_at, after.openings) == (before.retry_at, before.openings)


def test_an_agent_that_says_how_long_it_wants_to_be_left_alone_is(far):
    for _ in range(3):
        circuit_breaker.record_failure(far, Overloaded("It is busy.", retry_after=200))
    with pytest.raises(CircuitOpen) as refused:
        circuit_breaker.admit(far)
    assert 199 < refused.value.retry_after <= 200


def test_an_agent_that_was_deleted_meanwhile_is_no_error(far):
    gone = remote_agent("gone")
    kept = gone.pk
    gone.delete()
    gone.pk = kept
    circuit_breaker.record_failure(gone, LOST)
    circuit_breaker.record_success(gone)
    circuit_breaker.admit(gone)


@pytest.mark.parametrize(
    "unasked",
    [CredentialMissing("Nobody gave it."), TokenRefused("The client is unknown."), TokenUnavailable("It is away.")],
)
def test_a_call_that_asked_the_agent_nothing_says_nothing_of_it(far, unasked):
    for _ in range(2):
        circuit_breaker.record_failure(far, LOST)
        circuit_breaker.record_failure(far, unasked)
    assert Breaker.objects.get(agent=far).failures == 2
    circuit_breaker.record_failure(far, LOST)
    pass_time(far, seconds=31)
    circuit_breaker.admit(far)
    circuit_breaker.record_failure(far, unasked)
    assert state_of(far) == Breaker.State.HALF_OPEN
    with pytest.raises(CircuitOpen):
        circuit_breaker.admit(far)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker", "outward")
async def test_an_agent_that_goes_away_is_left_alone_and_taken_up_again_when_it_is_back(ada, settings):
    settings.REMOTE_RETRY_SECONDS = 0.1
    settings.REMOTE_BREAKER_FAILURES = 3
    settings.REMOTE_BREAKER_SECONDS = (600.0, 600.0)
    with scripted.serving() as at:
        at.sent = scripted.events({"task": scripted.task("COMPLETED")})
        at.is_at("COMPLETED", "Done.")
        talk = conversing.Talk(ada, await database.run(conversing.remote_agent, at.card()))
        at.is_down = True
        assert [(await talk.ask()).state for _ in range(3)] == ["failed"] * 3
        await conversing.until(lambda: health_of(talk.agent) == "unavailable")
        at.is_down = False
        refused = await talk.ask()
        assert refused.state == "failed"
        assert "failed again and again and is left alone for now. Try again in " in conversing.words(refused)
        assert at.sends == []
        await database.run(Breaker.objects.filter(agent=talk.agent).update, retry_at="2020-01-01T00:00:00Z")
        circuit_breaker.clear_cache()
        assert (await talk.ask()).state == "completed"
        await conversing.until(lambda: health_of(talk.agent) == "ok")


def test_failures_that_are_counted_while_others_are_read_are_seen_at_once(opened):
    """Another thread closes the breaker between this one's read and its caching."""
    circuit_breaker.clear_cache()

    def closed_meanwhile(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if "SELECT" in str(sql) and not closed:
            closed.append(True)
            circuit_breaker.close(opened)
        return result

    closed = []
    with connection.execute_wrapper(closed_meanwhile), pytest.raises(CircuitOpen):
        circuit_breaker.admit(opened)
    circuit_breaker.admit(opened)
