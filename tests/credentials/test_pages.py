"""People give a credential once, by a link or by an OAuth service, for one agent and themselves."""

import logging

import pytest
from django.db import connection
from django.test import AsyncClient
from django.utils import timezone

from agentkit import AuthRequired
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.credentials import oauth, requests
from apps.credentials.models import Credential, CredentialRequest
from apps.credentials.pages import connecting
from apps.engine import accept
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Context, Event, Task
from parley import db, outbound
from tests import authorization_server
from tests.authorization_server import sent_back
from tests.engine.agents import Calendar
from tests.working import begin, carry_out, end, state_of

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "k-5f1d2a90-secret"


@pytest.fixture(autouse=True)
def published(monkeypatch):
    runs = []
    monkeypatch.setattr(requests, "publish", runs.append)
    return runs


@pytest.fixture
def calendar(db):
    return register_hosted("calendar", "tests.engine.agents:Calendar", access=Agent.Access.PUBLIC)


@pytest.fixture
def asked(ada, calendar, said):
    def ask(principal=None, auth_type="api_key", **more):
        sent = accept.accept(principal or ada.principal, calendar, said("open it"), **more)
        end(begin(sent.run), AuthRequired("I need your key.", service="calendar", auth_type=auth_type))
        return Task.objects.get(pk=sent.task)

    return ask


def link_of(task):
    return "/credentials/" + task.status_message["metadata"]["url"].rpartition("/")[2]


def test_credential_continues_the_task_and_stays_secret(ada_browser, asked, published):
    task = asked()
    page = ada_browser.get(f"/sessions/{task.context_id}").text
    assert page.count(link_of(task)) == 1, "the words of the link are in the button"
    assert "no-store" in ada_browser.get(link_of(task))["Cache-Control"]
    answer = ada_browser.post(link_of(task), {"answer": "give", "secret": f" {SECRET}\n"})
    assert (answer.status_code, answer["Location"]) == (302, f"/sessions/{task.context_id}")
    assert published == [Run.objects.get(turn=2).pk]
    assert state_of(task.pk) == "working"
    assert projection.differences(task.context_id) == []
    again = ada_browser.post(link_of(task), {"answer": "give", "secret": "another"}, follow=True)
    assert ("no longer works" in again.text, len(published)) == (True, 1)
    assert Credential.objects.get().secret == SECRET
    shown = "".join(ada_browser.get(f"/{one}").text for one in (f"sessions/{task.context_id}", "settings/credentials"))
    rows = str([list(model.objects.values()) for model in (Event, Task, Context, Run)])
    assert ("API key for Calendar" in shown, SECRET in shown + rows) == (True, False)
    number = Credential.objects.get().pk
    gone = ada_browser.post(f"/settings/credentials/{number}/revoke", follow=True)
    assert ("API key for Calendar" in gone.text, Credential.objects.get().secret) == (False, "")


def test_unfit_credential_is_refused_and_not_repeated(ada_browser, asked, published):
    for auth_type, given in [
        ("api_key", {}),
        ("api_key", {"secret": " \n"}),
        ("bearer", {"secret": "twofold-secret\nlines"}),
        ("bearer", {"secret": "nul\x00"}),
        ("bearer", {"secret": "x" * 10_001}),
        ("basic", {"secret": "x"}),
        ("basic", {"username": "a:b", "secret": "x"}),
        ("basic", {"username": "a"}),
    ]:
        link = link_of(asked(auth_type=auth_type))
        answer = ada_browser.post(link, {"answer": "give", **given})
        assert (answer.status_code, "twofold-secret" in answer.text) == (422, False), given
        assert ada_browser.get(link).status_code == 200, "the link is as good as before"
    assert (Credential.objects.exists(), published) == (False, [])


def test_expired_link_is_renewed_for_its_owner(ada_browser, client, asked):
    link, nobodys = link_of(asked()), link_of(asked(ANONYMOUS))
    assert client.get(link)["Location"] == f"/sign-in?next={link}"
    CredentialRequest.objects.update(expires_at=timezone.now())
    for browser, of, may_renew in ((ada_browser, link, True), (client, nobodys, False)):
        assert browser.get(of).status_code == 410
        assert browser.post(of, {"answer": "give", "secret": SECRET})["Location"] == of, "which says why"
        new = browser.post(of, {"answer": "renew"})["Location"]
        assert [browser.get(one).status_code for one in (of, new)] == [410, 200 if may_renew else 410]
        browser.post(new, {"answer": "give", "secret": SECRET})
    assert Credential.objects.get().secret == SECRET
    task = asked(ANONYMOUS)
    client.post(link_of(task), {"answer": "give", "secret": SECRET})
    newest = Credential.objects.latest("pk")
    assert (newest.user, newest.task) == (None, task), "who has the link answers nobody's task"


LIST = "/settings/credentials"


OF_CALENDAR = {"agent": "calendar", "service": "calendar"}
CONNECT = f"{LIST}/oauth/connect"


@pytest.fixture
def server(settings):
    outbound.configure(["127.0.0.1"])
    with authorization_server.running() as running:
        yield running
    outbound.configure(settings.OUTBOUND_ALLOW)


@pytest.fixture
def service(server, transactional_db):
    return server.declared()


async def connected(browser, task):
    """The answer after the whole way: from the link to the service and back."""
    return await browser.get(await sent_back(await browser.post(f"{link_of(task)}/connect")))


def stored_texts():
    """What the rows of credentials and of the record have, as anybody with the database reads it."""
    with connection.cursor() as cursor:
        for table in ("credentials_credential", "record_event", "record_task", "record_run", "accounts_auditentry"):
            cursor.execute(f"SELECT * FROM {table}")
            yield from (str(row) for row in cursor.fetchall())


async def test_connecting_continues_the_task(ada, ada_at_work, server, service, asked, published, caplog):
    caplog.set_level(logging.INFO)
    task = await db.run(asked)
    page = await ada_at_work.get(link_of(task))
    assert ("Connect Calendar" in page.text, 'name="secret"' in page.text) == (True, True)
    answer = await connected(ada_at_work, task)
    assert (answer.status_code, answer["Location"]) == (302, f"/sessions/{task.context_id}")
    await carry_out(published[0])
    assert (Calendar.lent.secret, Calendar.lent.authorization) == (server.issued[0], f"Bearer {server.issued[0]}")
    assert await db.run(state_of, task.pk) == "completed"
    kept = await Credential.objects.aget()
    assert (kept.user_id, kept.given_by_id, kept.refresh_token) == (ada.pk, ada.pk, server.issued[1])
    everything = " ".join([*await db.run(lambda: list(stored_texts())), caplog.text])
    assert not [token for token in server.issued if token in everything]


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ({"denies": "access_denied"}, "You did not allow it"),
        ({"iss": "https://other.example.org"}, "not from Calendar"),
        ({"iss": None}, "not from Calendar"),
        ({"fails": (400, {"error": "invalid_grant"})}, "Connect again"),
        ({"fails": (401, {"error": "invalid_client", "error_description": "<b>x</b>"})}, "(invalid_client)"),
        ({"fails": (200, {"token_type": "mac", "access_token": "x"})}, "no token"),
        ({"fails": (200, {"access_token": "two\nlines"})}, "no token"),
    ],
)
async def test_trouble_at_the_service_stores_nothing(ada_at_work, server, service, asked, trouble, told):
    task = await db.run(asked)
    for name, value in trouble.items():
        setattr(server, name, value)
    answer = await connected(ada_at_work, task)
    assert answer.status_code == 422
    assert [words in answer.text for words in (told, link_of(task), "<b>x</b>")] == [True, True, False]
    assert not await Credential.objects.aexists()
    assert await db.run(state_of, task.pk) == "auth-required"


async def test_missing_service_connects_nobody(ada_at_work, server, asked):
    link = link_of(await db.run(asked))
    assert (await ada_at_work.post(f"{link}/connect"))["Location"] == link, "none is declared"
    service = await db.run(server.declared)
    await type(service).objects.aupdate(issuer="http://127.0.0.1:9")
    answer = await ada_at_work.post(f"{link}/connect")
    assert (answer.status_code, "cannot be reached" in answer.text) == (422, True)


async def test_answer_counts_once_in_its_own_session(ada, bob, ada_at_work, server, service, asked, monkeypatch):
    back = await sent_back(await ada_at_work.post(f"{link_of(await db.run(asked))}/connect"))
    for person in (bob, ada):
        elsewhere = AsyncClient()
        await elsewhere.aforce_login(person)
        assert (await elsewhere.get(back)).status_code == 400
    assert server.asked == []
    assert [(await ada_at_work.get(back)).status_code for _ in range(2)] == [302, 400]
    late = await sent_back(await ada_at_work.post(CONNECT, OF_CALENDAR))
    monkeypatch.setattr(connecting, "ATTEMPT_SECONDS", 0.0)
    assert (await ada_at_work.get(late)).status_code == 400
    assert server.asked == ["authorization_code"]


async def test_nobody_connects_for_somebody_else(bob, service, asked, calendar, admin_user):
    task = await db.run(asked)
    await Agent.objects.filter(pk=calendar.pk).aupdate(access=Agent.Access.OWNER)
    for person in (bob, admin_user):
        other = AsyncClient()
        await other.aforce_login(person)
        assert (await other.post(f"{link_of(task)}/connect")).status_code == 404
        assert "Connect Calendar" not in (await other.get(link_of(task))).text
        assert (await other.post(CONNECT, OF_CALENDAR)).status_code == 404


@pytest.mark.parametrize("fails", [None, (503, "")])
async def test_disconnecting_revokes_and_erases(ada_at_work, server, service, asked, fails):
    await connected(ada_at_work, await db.run(asked))
    kept = await Credential.objects.aget()
    server.fails = fails
    page = await ada_at_work.post(f"{LIST}/{kept.pk}/revoke", follow=True)
    assert server.revoked == ([] if fails else [server.issued[1]])
    assert ("could not be told" in page.text) == bool(fails)
    erased = await Credential.objects.aget()
    assert (erased.secret, erased.refresh_token, erased.revoked_at is None) == ("", "", False)


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ({"issuer": "https://other.example.org"}, "another issuer"),
        ({"token_endpoint": "http://169.254.169.254/token"}, "never calls it"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "http"),
    ],
)
async def test_metadata_that_misleads_is_refused(server, says, told):
    server.says = says
    with pytest.raises(oauth.OAuthProblem, match=told):
        await oauth.discover(server.url)
