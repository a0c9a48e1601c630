"""A probe checks a remote agent's card, address and answer."""

import asyncio
from collections.abc import Iterator

import pytest

import db as database
import outbound
from apps.remote import a2a_client, circuit_breaker, probes
from apps.remote.errors import CircuitOpen
from apps.remote.models import Breaker, RemoteAgent
from tests.outbound.receiving import answer, server
from tests.remote.card_server import WELL_KNOWN
from tests.remote.peers.starting import running
from tests.remote.registered import remote_agent

pytestmark = pytest.mark.django_db(transaction=True)


def remote_of(*of, **given) -> RemoteAgent:
    agent = remote_agent("far", *of, **given)
    return RemoteAgent.objects.select_related("agent__current_version").get(agent=agent)


async def look(remote, probe=""):
    return await probes.inspect_agent(remote, probe)


def looked_at(remote):
    """The only finding without a probe."""
    [finding] = asyncio.run(look(remote))
    return finding


def test_an_agent_that_serves_its_card_is_well_and_need_not_send_it_twice(cards_at, settings):
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
        ((503, {}, b"no"), "Its card is not to be had: the answer is HTTP 503.", False),
        ((302, {"Location": "http://169.254.169.254/"}, b""), "The answer is a redirect (302).", True),
        (b"[" * 100_000, "What it serves as its card is not JSON.", True),
        (b"[]", "What it serves as its card is none.", True),
        (b"x" * (probes.CARD_BYTES + 1), "The answer is larger than 1048576 bytes.", True),
    ],
)
def test_what_is_wrong_with_its_card_is_told_in_a_sentence(cards_at, page, error, answers):
    cards_at.pages[WELL_KNOWN] = page
    finding = looked_at(remote_of(card_url=cards_at.url + WELL_KNOWN))
    assert finding.error.startswith(error)
    assert (finding.ok, finding.answers) == (False, answers)


def test_an_agent_that_is_not_there_does_not_answer_and_one_that_is_not_open_is_not_called(unused_tcp_port):
    remote = remote_of(f"http://127.0.0.1:{unused_tcp_port}/a2a")
    assert "OUTBOUND_ALLOW" in looked_at(remote).error
    outbound.configure(["127.0.0.1"])
    finding = looked_at(remote)
    outbound.configure([])
    assert (finding.kind, finding.ok, finding.answers) == ("address", False, False)


@pytest.mark.usefixtures("outward")
@pytest.mark.parametrize(("status", "ok"), [("404 Not Found", True), ("502 Bad Gateway", False)])
async def test_the_address_of_a_pasted_card_need_only_be_there(db, status, ok):
    async with server(answer(b"", status)) as at:
        [finding] = await look(await database.run(remote_of, at.url))
    assert (finding.ok, finding.answers) == (ok, ok)


@pytest.fixture(scope="module")
def peer() -> Iterator[str]:
    with running("tests.remote.peers.sdk_server") as url:
        yield url


async def probed(url, text):
    remote = await database.run(remote_of, url)
    found = await look(remote, text)
    return remote.agent, next(finding for finding in found if finding.kind == "probe")


@pytest.mark.usefixtures("outward")
@pytest.mark.parametrize(
    ("text", "error"),
    [("hello", ""), ("message hi", ""), ("ask", ""), ("fail", "It answered the probe with the state failed.")],
)
async def test_any_proper_answer_to_a_probe_is_good_and_a_failure_is_told(peer, text, error):
    agent, finding = await probed(peer, text)
    assert (finding.error, finding.answers) == (error, True)
    await database.run(circuit_breaker.admit, agent)


@pytest.mark.usefixtures("outward")
async def test_a_probe_that_takes_too_long_is_canceled_at_the_agent(peer, settings):
    settings.REMOTE_PROBE_TIMEOUT = 1.0
    canceled = []
    cancel = a2a_client.Peer.cancel

    async def noted(self, task_id):
        task = await cancel(self, task_id)
        canceled.append(task["status"]["state"])
        return task

    a2a_client.Peer.cancel = noted
    try:
        _, finding = await probed(peer, "wait")
    finally:
        a2a_client.Peer.cancel = cancel
    assert (finding.error, finding.answers) == ("It did not finish with the probe within 1 s.", True)
    assert canceled == ["TASK_STATE_CANCELED"]


@pytest.mark.usefixtures("outward")
async def test_a_probe_that_is_not_answered_counts_as_a_call_that_failed(db, settings):
    settings.REMOTE_PROBE_TIMEOUT = settings.REMOTE_CHECK_TIMEOUT = 0.5
    settings.REMOTE_BREAKER_FAILURES = 1
    released = asyncio.Event()

    async def hang(request, writer):
        await released.wait()

    async with server(hang) as at:
        agent, finding = await probed(at.url, "hello")
        assert (finding.error, finding.answers) == ("It did not answer the probe within 0.5 s.", False)
        with pytest.raises(CircuitOpen):
            await database.run(circuit_breaker.admit, agent)
        remote = await database.run(RemoteAgent.objects.select_related("agent__current_version").get, agent=agent)
        assert [one.kind for one in await look(remote, "hello")] == ["address"]
        released.set()
    assert await database.run(Breaker.objects.filter(agent=agent, openings=1).exists)
