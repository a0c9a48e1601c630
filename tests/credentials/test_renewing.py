"""Access tokens that ended are renewed once, whoever needs them; a grant that ended is asked for again."""

from __future__ import annotations

import asyncio
import datetime
from contextlib import contextmanager

import pytest
from django.utils import timezone

from apps.agents.registration import register_hosted
from apps.credentials import lending, oauth, requests
from apps.credentials.models import Credential
from apps.credentials.requests import GivenCredential
from apps.engine import accept
from apps.record.models import Task
from parley import db, outbound
from tests import authorization_server
from tests.engine.agents import Calendar
from tests.engine.delegating import task_of, until, words
from tests.working import begin, carry_out

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("the database decides who renews"),
]


@pytest.fixture
def server(settings, transactional_db):
    outbound.configure(["127.0.0.1"])
    with authorization_server.running() as running:
        yield running
        running.may_answer.set()
    outbound.configure(settings.OUTBOUND_ALLOW)


@pytest.fixture
def calendar(transactional_db):
    return register_hosted("calendar", "tests.engine.agents:Calendar", retry_safe=True)


@pytest.fixture
async def expired(ada, server, calendar):
    """Ada's credential for the agent, whose access token has ended."""
    service = await db.run(lambda: server.declared(hosts="calendar.example.org"))
    tokens = server.grant()
    given = GivenCredential(
        tokens["access_token"], oauth_service=service, refresh_token=tokens["refresh_token"], expires_at=timezone.now()
    )
    await db.run(requests.connect, calendar, ada, "calendar", given)
    return await Credential.objects.aget()


@pytest.fixture
def accepted(ada, calendar, said):
    async def accepting():
        return await db.run(accept.accept, ada.principal, calendar, said("open"))

    return accepting


@pytest.fixture
async def run(expired, accepted):
    """A turn that needs the token."""
    return await db.run(begin, (await accepted()).run)


@contextmanager
def held(server):
    """The service has the request and does not answer yet."""
    server.arrived.clear()
    server.may_answer.clear()
    try:
        yield asyncio.to_thread(server.arrived.wait, 60)
    finally:
        server.may_answer.set()


async def test_two_runs_renew_one_token_once(server, expired, accepted):
    runs = [await db.run(begin, (await accepted()).run) for _ in range(2)]
    with held(server) as arrived:
        both = asyncio.gather(*(lending.lend(run, "calendar") for run in runs))
        await arrived
    lent = await both
    assert server.asked == ["refresh_token"]
    assert [one.secret for one in lent] == [server.issued[2]] * 2
    kept = await Credential.objects.aget()
    assert (kept.refresh_token, kept.is_expired) == (server.issued[3], False), "the new one is kept"
    assert lent[0].hosts == ("calendar.example.org",)
    await Credential.objects.aupdate(expires_at=timezone.now())
    again = await lending.lend(runs[0], "calendar")
    assert again.secret == server.issued[4]


@pytest.mark.parametrize("has_refresh_token", [True, False])
async def test_ended_grant_is_asked_for(server, expired, accepted, has_refresh_token):
    if has_refresh_token:
        server.forget_grants()
    else:
        await Credential.objects.aupdate(refresh_token="")
    sent = await accepted()
    await carry_out(sent.run)
    task = await Task.objects.aget(pk=sent.task)
    assert (task.state, Calendar.lent) == ("auth-required", None)
    lapsed = await Credential.objects.aget()
    assert (lapsed.secret, lapsed.refresh_token, lapsed.revoked_at) == ("", "", None)
    assert lapsed.lapsed_at is not None
    again = server.grant()
    given = GivenCredential(again["access_token"], oauth_service=await db.run(lambda: lapsed.oauth_service))
    await db.run(
        requests.connect, await db.run(lambda: lapsed.agent), await db.run(lambda: lapsed.user), "calendar", given
    )
    task = await Task.objects.aget(pk=sent.task)
    assert (task.state, (await Credential.objects.aget()).lapsed_at) == ("working", None)


async def test_service_that_is_down_ends_no_grant(server, expired, accepted):
    server.fails = (503, {})
    sent = await accepted()
    await carry_out(sent.run)
    task = await task_of(sent.task)
    assert (task.state, "could not be renewed" in words(task)) == ("failed", True)
    assert (await Credential.objects.aget()).refresh_token == expired.refresh_token
    server.fails = None
    later = await accepted()
    await carry_out(later.run)
    assert (await task_of(later.task)).state == "completed"


async def test_tokens_renewed_during_a_disconnect_are_revoked(server, expired, run, ada):
    with held(server) as arrived:
        lending_it = asyncio.ensure_future(lending.lend(run, "calendar"))
        await arrived
        assert await oauth.disconnect(expired, ada)
    assert await lending_it is None
    assert server.revoked == [expired.refresh_token, server.issued[3]]
    assert (await Credential.objects.aget()).secret == ""


async def test_canceled_run_loses_no_renewed_token(server, expired, run):
    with held(server) as arrived:
        lending_it = asyncio.ensure_future(lending.lend(run, "calendar"))
        await arrived
        lending_it.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lending_it
    await until(lambda: Credential.objects.get().refresh_token == server.issued[-1] != expired.refresh_token)


async def test_kept_refresh_token_is_used_again(server, expired, run):
    server.rotates = False
    for _ in range(2):
        await lending.lend(run, "calendar")
        assert (await Credential.objects.aget()).refresh_token == expired.refresh_token
        await Credential.objects.aupdate(expires_at=timezone.now())
    assert server.asked == ["refresh_token"] * 2


async def test_dead_renewal_is_taken_over(server, run):
    past = timezone.now() - datetime.timedelta(seconds=1)
    await Credential.objects.aupdate(renewing_until=past)
    assert (await lending.lend(run, "calendar")).secret == server.issued[2]
