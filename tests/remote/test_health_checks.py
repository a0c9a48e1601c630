"""One process checks each remote agent, many at once, and stores its health."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections
from django.utils import timezone

import db as database
from apps.agents.models import Agent
from apps.features.health import monitoring
from apps.remote import health_checks
from apps.remote.health_checks import CHECKS_KEPT
from apps.remote.jobs import check_agents
from apps.remote.models import Breaker, Check, CheckedHour, Checkup
from apps.remote.probes import Finding
from db import sql
from tests.engine.delegating import until
from tests.outbound.receiving import answer, server
from tests.remote.registered import remote_agent

pytestmark = [pytest.mark.django_db, pytest.mark.services("each round of checks has one taker")]


@pytest.fixture
def far(db):
    return remote_agent("far")


def found(error="", milliseconds=20, *, answers=True, kind=Check.Kind.CARD):
    return Finding(kind, milliseconds, error, answers)


def rounds(agent, *findings):
    for finding in findings:
        make_due(agent)
        [one] = health_checks.claim_rounds(10)
        health_checks.record_round(one, [finding])
    agent.refresh_from_db()
    return agent.health, agent.ailment


def make_due(agent):
    Checkup.objects.filter(agent=agent).update(next_check_at=timezone.now() - timedelta(seconds=1))


def seconds_to_the_next(agent):
    return (Checkup.objects.get(agent=agent).next_check_at - sql.database_time()).total_seconds()


SILENT = found("far.invalid did not answer in time.", answers=False)


def test_a_round_has_one_taker(far, echo):
    Agent.objects.filter(pk=far.pk).update(is_enabled=False)
    assert health_checks.claim_rounds(10) == []
    Agent.objects.filter(pk=far.pk).update(is_enabled=True)
    [one] = health_checks.claim_rounds(10)
    assert one.agent == far
    assert health_checks.claim_rounds(10) == []
    make_due(far)
    again = health_checks.claim_rounds(10)
    assert [other.agent for other in again] == [far]
    health_checks.record_round(one, [found()])  # its lease was over
    assert not Check.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_processes_that_look_at_the_same_moment_each_round_has_one():
    agents = [remote_agent(f"far-{number}") for number in range(6)]
    health_checks.claim_rounds(10)
    Checkup.objects.update(next_check_at=timezone.now() - timedelta(seconds=1))
    together = threading.Barrier(4)

    def take(_):
        try:
            together.wait(10)
            return [one.agent.slug for one in health_checks.claim_rounds(10)]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        taken = [slug for slugs in threads.map(take, range(4)) for slug in slugs]
    assert sorted(taken) == sorted(agent.slug for agent in agents)


def test_rounds_are_as_far_apart_as_the_setting_says_and_never_quite_the_same(far, settings):
    settings.REMOTE_CHECK_SECONDS = 100.0
    waits = []
    for _ in range(8):
        make_due(far)
        health_checks.claim_rounds(1)
        waits.append(seconds_to_the_next(far))
    assert all(89 < wait < 111 for wait in waits)
    assert len({round(wait, 2) for wait in waits}) > 1
    settings.REMOTE_CHECK_SECONDS = 1.0  # a round must end before the next
    make_due(far)
    health_checks.claim_rounds(1)
    assert seconds_to_the_next(far) > settings.REMOTE_CHECK_TIMEOUT + settings.REMOTE_PROBE_TIMEOUT


def test_an_agent_that_begins_to_fail_is_looked_at_sooner_and_not_for_ever(far, settings):
    settings.REMOTE_CHECK_SECONDS = 100.0
    waits = []
    for finding in (found(), SILENT, SILENT, SILENT):
        rounds(far, finding)
        waits.append(seconds_to_the_next(far))
    assert [wait < 26 for wait in waits] == [False, True, True, False]


@pytest.mark.parametrize(
    ("findings", "health", "why"),
    [
        ([found()], "ok", ""),
        ([found(), SILENT], "degraded", "The newest check failed. far.invalid did not answer in time."),
        ([found(), SILENT, SILENT], "unavailable", "It does not answer. far.invalid did not answer in time."),
        ([SILENT, SILENT, found()], "ok", ""),
        ([SILENT, found(), SILENT, found(), SILENT, found()], "degraded", "Of its newest 6 checks 3 failed."),
        ([found("Its card is none.")] * 3, "degraded", "The newest check failed. Its card is none."),
        ([found(milliseconds=6000)], "degraded", "It is slow: a check takes more than 5 s."),
    ],
)
def test_health_is_what_the_newest_checks_say(far, findings, health, why):
    assert rounds(far, *findings) == (health, why)


def test_the_periodic_look_at_all_agents_says_the_same(far):
    rounds(far, SILENT, SILENT)
    Agent.objects.filter(pk=far.pk).update(health="ok", ailment="")
    monitoring.examine_agents()
    far.refresh_from_db()
    assert (far.health, far.is_enabled) == ("unavailable", True)


def test_an_open_breaker_is_told_although_checks_succeed_and_a_half_open_one_is_mild(far):
    now = timezone.now()
    row = Breaker.objects.create(
        agent=far, failures=5, failing_since=now, opened_at=now, openings=1, error="It fell silent.",
        retry_at=now + timedelta(seconds=30),
    )  # fmt: skip
    told = "Calls to it failed again and again, so it is left alone for a while. It fell silent."
    assert rounds(far, found()) == ("unavailable", told)
    row.retry_at = now
    row.save()
    told = "Calls to it failed again and again; the next one tries it. It fell silent."
    assert rounds(far, found()) == ("degraded", told)


def test_uptime_latency_and_the_last_error_are_summed_up(far):
    rounds(far, found(milliseconds=10), found(milliseconds=30), SILENT, found(milliseconds=20))
    yesterday = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=30)
    CheckedHour.objects.create(agent=far, hour=yesterday, rounds=36, failed=17)
    CheckedHour.objects.create(agent=far, hour=yesterday - timedelta(days=30), rounds=1000, failed=1000)
    known = health_checks.uptime_of(far)
    assert (known.day, known.month) == (0.75, 1 - 18 / 40)
    assert (known.median_ms, known.newest) == (20, [10, 30, None, 20])
    assert known.last_error == "far.invalid did not answer in time."
    assert known.last_error_at is not None


def test_old_checks_are_cleared_away_and_their_hours_a_month_later(far):
    rounds(far, found())
    Check.objects.update(at=timezone.now() - CHECKS_KEPT - timedelta(minutes=1))
    CheckedHour.objects.update(hour=timezone.now() - timedelta(days=32))
    CheckedHour.objects.create(agent=far, hour=timezone.now() - timedelta(days=29), rounds=1)
    rounds(far, found())
    assert Check.objects.count() == 1
    assert CheckedHour.objects.count() == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("outward")
async def test_hung_agents_hold_up_nobody(db, settings):
    settings.REMOTE_CHECK_TIMEOUT = 2.0
    released = asyncio.Event()

    async def hang(request, writer):
        await released.wait()

    process = health_checks.process_checker()
    try:
        async with server(hang) as stuck, server(answer(b"", "405 Method Not Allowed")) as well:
            for number in range(20):
                await database.run(remote_agent, f"stuck-{number}", stuck.url)
            for number in range(5):
                await database.run(remote_agent, f"well-{number}", well.url)
            process.check_due()
            await until(lambda: Check.objects.filter(ok=True).count() == 5)
            assert len(well.requests) == 5
            assert await database.run(Check.objects.filter(ok=False).count) == 0
            await until(lambda: Agent.objects.filter(slug__startswith="stuck", health="degraded").count() == 20)
            released.set()
        assert await database.run(Check.objects.filter(ok=False, error__contains="in time").count) == 20
        assert await database.run(Agent.objects.filter(slug__startswith="well", health="ok").count) == 5
    finally:
        health_checks.close_process_checker()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker")
async def test_the_job_has_them_checked(far, settings):
    assert settings.CELERY_BEAT_SCHEDULE["remote.check"]["task"] == "remote.check"
    await database.run(check_agents.delay)
    await until(lambda: Check.objects.filter(agent=far, ok=False).exists())
