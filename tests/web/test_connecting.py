"""People connect to an OAuth service instead of typing a secret, for one agent and themselves."""

from __future__ import annotations

import logging
import re

import pytest
from django.db import connection
from django.test import AsyncClient

import db
import outbound
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine.send import send
from apps.features.credentials import oauth, requests
from apps.features.credentials.models import Credential
from apps.record.execution import Run
from apps.record.models import Task
from apps.web import connecting
from tests import authorization_server
from tests.authorization_server import sent_back
from tests.engine.agents import Calendar
from tests.working import carry_out, state_of

pytestmark = pytest.mark.django_db(transaction=True)

LIST, CONNECT = "/settings/credentials", "/settings/credentials/oauth/connect"


@pytest.fixture
def server(settings):
    outbound.configure(["127.0.0.1"])
    with authorization_server.running() as running:
        yield running
    outbound.configure(settings.OUTBOUND_ALLOW)


@pytest.fixture
def service(server, transactional_db):
    return server.declared()


@pytest.fixture
def calendar(transactional_db):
    return register_hosted("calendar", "tests.engine.agents:Calendar", access=Agent.Access.PUBLIC)


@pytest.fixture(autouse=True)
def published(monkeypatch):
    runs = []
    monkeypatch.setattr(requests, "publish", runs.append)
    return runs


@pytest.fixture
async def bob_at_work(bob):
    client = AsyncClient()
    await client.aforce_login(bob)
    return client


@pytest.fixture
def asked(calendar, said):
    async def ask(person):
        sent = await send(person.principal, calendar, said("open"))
        await carry_out(await Run.objects.values_list("pk", flat=True).aget(task=sent.task, turn=1))
        return await Task.objects.aget(pk=sent.task)

    return ask


def link_of(task):
    return "/credentials/" + task.status_message["metadata"]["url"].rpartition("/")[2]


async def connected(browser, task):
    """The answer after the whole way: from the link to the service and back."""
    return await browser.get(await sent_back(await browser.post(f"{link_of(task)}/connect")))


def stored_texts():
    """What the rows of credentials and of the record have, as anybody with the database reads it."""
    with connection.cursor() as cursor:
        for table in ("credentials_credential", "record_event", "record_task", "record_run", "accounts_auditentry"):
            cursor.execute(f"SELECT * FROM {table}")
            yield from (str(row) for row in cursor.fetchall())


async def test_connecting_from_a_link_continues_the_task(ada, ada_at_work, server, service, asked, published, caplog):
    caplog.set_level(logging.INFO)
    task = await asked(ada)
    page = await ada_at_work.get(link_of(task))
    assert "Connect Calendar" in page.text
    assert 'name="secret"' in page.text, "it can be typed as before"
    answer = await connected(ada_at_work, task)
    assert (answer.status_code, answer["Location"]) == (302, f"/sessions/{task.context_id}")
    await carry_out(published[0])
    assert Calendar.lent.secret == server.issued[0]
    assert Calendar.lent.authorization == f"Bearer {server.issued[0]}"
    assert await db.run(state_of, task.pk) == "completed"
    kept = await Credential.objects.aget()
    assert (kept.user_id, kept.given_by_id, kept.refresh_token) == (ada.pk, ada.pk, server.issued[1])
    everything = " ".join([*await db.run(lambda: list(stored_texts())), caplog.text])
    assert not [token for token in server.issued if token in everything]


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ({"denies": "access_denied"}, "You did not allow it"),
        ({"denies": "server_error"}, r"did not connect you \(server_error\)"),
        ({"iss": "https://other.example.org"}, "not from Calendar"),
        ({"iss": None}, "not from Calendar"),
        ({"fails": (400, {"error": "invalid_grant"})}, "Connect again"),
        ({"fails": (401, {"error": "invalid_client", "error_description": "<b>x</b>"})}, r"\(invalid_client\)"),
        ({"fails": (502, "down")}, r"an error \(502\)"),
        ({"fails": (200, {"token_type": "mac", "access_token": "x"})}, "no token"),
        ({"fails": (200, {"access_token": "two\nlines"})}, "no token"),
    ],
)
async def test_trouble_at_the_service_stores_nothing(ada, ada_at_work, server, service, asked, trouble, told):
    task = await asked(ada)
    for name, value in trouble.items():
        setattr(server, name, value)
    answer = await connected(ada_at_work, task)
    assert answer.status_code == 422
    assert re.search(told, answer.text)
    assert link_of(task) in answer.text
    assert "<b>x</b>" not in answer.text
    assert not await Credential.objects.aexists()
    assert await db.run(state_of, task.pk) == "auth-required"


async def test_a_service_that_is_away_says_so(ada, ada_at_work, server, service, asked):
    task = await asked(ada)
    await type(service).objects.aupdate(issuer="http://127.0.0.1:9")
    answer = await ada_at_work.post(f"{link_of(task)}/connect")
    assert answer.status_code == 422
    assert "cannot be reached" in answer.text


async def test_an_answer_counts_once_in_its_own_session(
    ada, ada_at_work, bob_at_work, server, service, asked, monkeypatch
):
    task = await asked(ada)
    back = await sent_back(await ada_at_work.post(f"{link_of(task)}/connect"))
    elsewhere = AsyncClient()
    await elsewhere.aforce_login(ada)
    for stranger in (bob_at_work, elsewhere):
        assert (await stranger.get(back)).status_code == 400
    assert server.asked == []
    assert (await ada_at_work.get(back)).status_code == 302
    assert (await ada_at_work.get(back)).status_code == 400
    assert await Credential.objects.acount() == 1
    late = await sent_back(await ada_at_work.post(CONNECT, {"agent": "calendar", "service": "calendar"}))
    monkeypatch.setattr(connecting, "ATTEMPT_SECONDS", 0.0)
    assert (await ada_at_work.get(late)).status_code == 400
    assert server.asked == ["authorization_code"]


async def test_nobody_connects_for_somebody_else(
    ada, bob, ada_at_work, bob_at_work, service, asked, calendar, django_user_model
):
    task = await asked(ada)
    operator = AsyncClient()
    root = await db.run(lambda: django_user_model.objects.create_superuser("root@example.org", "hush hush"))
    await operator.aforce_login(root)
    for other in (bob_at_work, operator):
        assert (await other.post(f"{link_of(task)}/connect")).status_code == 404
    assert "Connect Calendar" not in (await operator.get(link_of(task))).text
    await connected(ada_at_work, task)
    theirs = await asked(bob)
    assert (theirs.state, Calendar.lent) == ("auth-required", None)
    number = (await Credential.objects.aget()).pk
    assert (await bob_at_work.post(f"{LIST}/{number}/revoke")).status_code == 404
    await Agent.objects.filter(pk=calendar.pk).aupdate(access=Agent.Access.OWNER)
    hidden = await bob_at_work.post(CONNECT, {"agent": "calendar", "service": "calendar"})
    assert hidden.status_code == 404


@pytest.mark.parametrize("fails", [None, (503, "")])
async def test_disconnecting_revokes_and_erases(ada, ada_at_work, server, service, asked, fails):
    await connected(ada_at_work, await asked(ada))
    kept = await Credential.objects.aget()
    server.fails = fails
    page = await ada_at_work.post(f"{LIST}/{kept.pk}/revoke", follow=True)
    assert server.revoked == ([] if fails else [server.issued[1]])
    assert ("could not be told" in page.text) == bool(fails)
    erased = await Credential.objects.aget()
    assert (erased.secret, erased.refresh_token, erased.revoked_at is None) == ("", "", False)
    assert 'aria-label="Connect Calendar for Calendar"' in page.text, "it can be connected again"


async def test_people_connect_from_their_credentials(ada, ada_at_work, server, service, asked, published):
    task = await asked(ada)
    assert "Connect Calendar" in (await ada_at_work.get(LIST)).text
    there = await ada_at_work.post(CONNECT, {"agent": "calendar", "service": "calendar"})
    page = await ada_at_work.get(await sent_back(there), follow=True)
    assert "can use Calendar for you" in page.text
    assert await db.run(state_of, task.pk) == "working", "what waited for it goes on"
    assert len(published) == 1
    await Credential.objects.aupdate(secret="typed", oauth_service=None, refresh_token="")
    there = await ada_at_work.post(CONNECT, {"agent": "calendar", "service": "calendar"})
    await ada_at_work.get(await sent_back(there))
    assert (await Credential.objects.aget()).secret == server.issued[2]
    unknown = await ada_at_work.post(CONNECT, {"agent": "calendar", "service": "mail"})
    assert unknown.status_code == 404


async def test_a_link_without_a_declared_service_offers_none(ada, ada_at_work, asked):
    task = await asked(ada)
    assert "Connect" not in (await ada_at_work.get(link_of(task))).text
    answer = await ada_at_work.post(f"{link_of(task)}/connect")
    assert answer["Location"] == link_of(task)


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ({"issuer": "https://other.example.org"}, "another issuer"),
        ({"token_endpoint": "http://169.254.169.254/token"}, "never calls it"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "http"),
        ({"authorization_endpoint": ""}, "authorization_endpoint"),
    ],
)
async def test_metadata_that_misleads_is_refused(server, says, told):
    server.says = says
    with pytest.raises(oauth.OAuthProblem, match=told):
        await oauth.discover(server.url)
