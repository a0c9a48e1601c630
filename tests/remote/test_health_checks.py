"""One process checks each remote agent, many at once, and stores its health."""

import asyncio
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.agents.models import Agent
from apps.health import monitoring
from apps.remote import circuit_breaker, health_checks, probes
from apps.remote.errors import CircuitOpen
from apps.remote.health_checks import CHECKS_KEPT
from apps.remote.models import Breaker, Check, CheckedHour, Checkup, RemoteAgent
from apps.remote.probes import Finding
from parley import db as database
from parley import outbound
from parley.db import sql
from tests.engine.delegating import until
from tests.outbound.receiving import answer, server
from tests.remote import scripted
from tests.remote.card_server import WELL_KNOWN
from tests.remote.registered import remote_agent
from tests.work.hand import work_off

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("outward")]


@pytest.fixture
def far(db):
    return remote_agent("far")


def found(error="", milliseconds=20, *, answers=True, kind=Check.Kind.CARD):
    return Finding(kind, milliseconds, error, answers)


def claim_rounds(most):
    """Of all agents, new ones too."""
    health_checks.due_agents()
    return health_checks.claim_rounds(most)


def rounds(agent, *findings):
    for finding in findings:
        make_due(agent)
        [one] = claim_rounds(10)
        health_checks.record_round(one, [finding])
    agent.refresh_from_db()
    return agent.health, agent.ailment


def make_due(agent):
    Checkup.objects.filter(agent=agent).update(next_check_at=timezone.now() - timedelta(seconds=1))


def seconds_to_the_next(agent):
    return (Checkup.objects.get(agent=agent).next_check_at - sql.database_time()).total_seconds()


SILENT = found("far.invalid did not answer in time.", answers=False)


@pytest.mark.services("each round of checks has one taker")
def test_a_round_has_one_taker(far, echo):
    Agent.objects.filter(pk=far.pk).update(is_enabled=False)
    assert claim_rounds(10) == []
    Agent.objects.filter(pk=far.pk).update(is_enabled=True)
    [one] = claim_rounds(10)
    assert one.agent == far
    assert claim_rounds(10) == []
    make_due(far)
    again = claim_rounds(10)
    assert [other.agent for other in again] == [far]
    health_checks.record_round(one, [found()])  # its lease was over
    assert not Check.objects.exists()


def test_rounds_are_about_the_setting_apart(far, settings):
    settings.REMOTE_CHECK_SECONDS = 100.0
    waits = []
    for finding in (found(),) * 3 + (SILENT,) * 3:
        rounds(far, finding)
        waits.append(seconds_to_the_next(far))
    assert all(89 < wait < 111 for wait in waits[:3])
    assert [wait < 26 for wait in waits[3:]] == [True, True, False], "sooner when it begins to fail"
    settings.REMOTE_CHECK_SECONDS = 1.0  # a round must end before the next
    rounds(far, found())
    assert seconds_to_the_next(far) > settings.REMOTE_CHECK_TIMEOUT + settings.REMOTE_PROBE_TIMEOUT


@pytest.mark.parametrize(
    ("findings", "health", "why"),
    [
        ([found()], "ok", ""),
        ([found(), SILENT], "degraded", "The newest check failed. far.invalid did not answer in time."),
        ([found(), SILENT, SILENT], "unavailable", "It does not answer. far.invalid did not answer in time."),
        ([SILENT, found(), SILENT, found(), SILENT, found()], "degraded", "Of its newest 6 checks 3 failed."),
        ([found("Its card is none.")] * 3, "degraded", "The newest check failed. Its card is none."),
        ([found(milliseconds=6000)], "degraded", "It is slow: a check takes more than 5 s."),
    ],
)
def test_health_is_what_the_newest_checks_say(far, findings, health, why):
    assert rounds(far, *findings) == (health, why)
    Agent.objects.filter(pk=far.pk).update(health="", ailment="")
    monitoring.examine_agents()  # the periodic look at all agents
    far.refresh_from_db()
    assert (far.health, far.is_enabled) == (health, True)


def test_old_checks_and_hours_are_deleted(far):
    rounds(far, found())
    Check.objects.update(at=timezone.now() - CHECKS_KEPT - timedelta(minutes=1))
    CheckedHour.objects.update(hour=timezone.now() - timedelta(days=32))
    CheckedHour.objects.create(agent=far, hour=timezone.now() - timedelta(days=29), rounds=1)
    rounds(far, found())
    assert Check.objects.count() == 1
    assert CheckedHour.objects.count() == 2


# A probe checks the card, the address and the answer


def remote_of(*of, **given) -> RemoteAgent:
    agent = remote_agent("far", *of, **given)
    return RemoteAgent.objects.select_related("agent__current_version").get(agent=agent)


async def look(remote, probe=""):
    return await probes.inspect_agent(remote, probe)


def looked_at(remote):
    """The only finding without a probe."""
    [finding] = asyncio.run(look(remote))
    return finding


def test_agents_that_serve_their_card_are_well(cards_at, settings):
    cards_at.pages[WELL_KNOWN] = (200, {"ETag": '"one"'}, b'{"name": "Far", "skills": []}')
    remote = remote_of(card_url=cards_at.url + WELL_KNOWN)
    first = looked_at(remote)
    assert (first.kind, first.ok, first.answers) == ("card", True, True)
    remote.etag, remote.last_modified = '"one"', "Sat, 21 Nov 2026 16:00:00 GMT"
    assert looked_at(remote).ok
    headers = cards_at.requests[-1][1]
    assert (headers["if-none-match"], headers["if-modified-since"]) == ('"one"', "Sat, 21 Nov 2026 16:00:00 GMT")


@pytest.mark.parametrize(
    ("page", "error", "answers"),
    [
        ((404, {}, b"no"), "Its card is not to be had: the answer is HTTP 404.", True),
        ((302, {"Location": "http://169.254.169.254/"}, b""), "The answer is a redirect (302).", True),
        (b"[" * 100_000, "What it serves as its card is not JSON.", True),
    ],
)
def test_what_is_wrong_with_a_card_is_told(cards_at, page, error, answers):
    cards_at.pages[WELL_KNOWN] = page
    finding = looked_at(remote_of(card_url=cards_at.url + WELL_KNOWN))
    assert finding.error.startswith(error)
    assert (finding.ok, finding.answers) == (False, answers)


def test_absent_and_closed_addresses_do_not_answer(unused_tcp_port):
    remote = remote_of(f"http://127.0.0.1:{unused_tcp_port}/a2a")
    finding = looked_at(remote)
    assert (finding.kind, finding.ok, finding.answers) == ("address", False, False)
    outbound.configure([])
    assert "OUTBOUND_ALLOW" in looked_at(remote).error


async def probed(url, text):
    remote = await database.run(remote_of, url)
    found = await look(remote, text)
    return remote.agent, next(finding for finding in found if finding.kind == "probe")


@pytest.mark.parametrize(
    ("state", "error"), [("INPUT_REQUIRED", ""), ("FAILED", "It answered the probe with the state failed.")]
)
async def test_any_proper_answer_to_a_probe_is_good(state, error):
    with scripted.serving() as at:
        at.tells(state, "Which?")
        agent, finding = await probed(at.url, "hello")
    assert (finding.error, finding.answers) == (error, True)
    await database.run(circuit_breaker.admit, agent)


async def test_slow_probes_are_canceled_at_the_agent(settings):
    settings.REMOTE_PROBE_TIMEOUT = 1.0
    with scripted.serving() as at:
        at.sent = scripted.events({"task": scripted.task()})
        at.is_at("WORKING")
        _, finding = await probed(at.url, "wait")
        assert (finding.error, finding.answers) == ("It did not finish with the probe within 1 s.", True)
        assert at.count("CancelTask") == 1


async def test_unanswered_probes_count_as_failed_calls(settings):
    settings.REMOTE_PROBE_TIMEOUT = settings.REMOTE_CHECK_TIMEOUT = 0.5
    settings.REMOTE_BREAKER_FAILURES = 1
    released = asyncio.Event()
    async with server(lambda *_: released.wait()) as at:
        agent, finding = await probed(at.url, "hello")
        assert (finding.error, finding.answers) == ("It did not answer the probe within 0.5 s.", False)
        with pytest.raises(CircuitOpen):
            await database.run(circuit_breaker.admit, agent)
        remote = await database.run(RemoteAgent.objects.select_related("agent__current_version").get, agent=agent)
        assert [one.kind for one in await look(remote, "hello")] == ["address"]
        released.set()
    assert await database.run(Breaker.objects.filter(agent=agent, openings=1).exists)


async def test_hung_agents_hold_up_nobody(settings):
    settings.REMOTE_CHECK_TIMEOUT = 1.0
    released = asyncio.Event()
    async with server(lambda *_: released.wait()) as stuck, server(answer(b"", "405 Method Not Allowed")) as well:
        for number in range(4):
            await database.run(remote_agent, f"stuck-{number}", stuck.url)
        for number in range(2):
            await database.run(remote_agent, f"well-{number}", well.url)
        checking = asyncio.create_task(work_off(health_checks.ROUNDS))
        await until(lambda: Check.objects.filter(ok=True).count() == 2)
        assert len(well.requests) == 2
        assert await database.run(Check.objects.filter(ok=False).count) == 0
        await until(lambda: Agent.objects.filter(slug__startswith="stuck", health="degraded").count() == 4)
        released.set()
        await checking
    assert await database.run(Check.objects.filter(ok=False, error__contains="in time").count) == 4
    assert await database.run(Agent.objects.filter(slug__startswith="well", health="ok").count) == 2
