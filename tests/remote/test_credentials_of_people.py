"""People enter their own credentials, on a page or by a task's link."""

import pytest
from django.test import Client

from agentkit import AuthRequired
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import ANONYMOUS
from apps.credentials import requests
from apps.credentials.models import CredentialRequest
from apps.engine import accept
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Event, Task
from apps.remote.authentication import credentials
from apps.remote.errors import CredentialMissing, Unauthorized
from apps.remote.models import RemoteAgent, RemoteCredential
from parley import db as database
from tests.clients.calling import Caller
from tests.remote.guarded import api_key, card, http, registered
from tests.remote.scripted import serving
from tests.working import carry_out, state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("outward")]

SECRET = "canary-5f1d2a90"
URL = "https://vault.example.org/a2a"
SCHEMES = {"key": api_key("header", "X-Key"), "token": http("bearer")}
PAGE = "/agents/vault/credentials"


@pytest.fixture(autouse=True)
def published(monkeypatch):
    runs = []
    monkeypatch.setattr(requests, "publish", runs.append)
    return runs


@pytest.fixture
def root(db):
    return User.objects.create_superuser("root@example.org", "hush hush hush")


@pytest.fixture
def browse(ada, bob, root):
    """A browser of each person."""
    browsers = {user: Client() for user in (ada, bob, root)}
    for user, browser in browsers.items():
        browser.force_login(user)
    return browsers.get


def vault(root, *names, url=URL, **fields):
    agent = registered(card(url, SCHEMES, {name: [] for name in names}), **fields)
    for name in names:
        credentials.set_personal(agent, name, True, root)
    return agent


def test_the_page_takes_credentials_and_shows_none(ada, bob, root, browse):
    agent, as_ada, as_bob = vault(root, "key"), browse(ada), browse(bob)
    page = as_ada.get(PAGE)
    assert [page.status_code, "https://vault.example.org:443" in page.text] == [200, True]
    assert "no-store" in page["Cache-Control"]
    answer = as_ada.post(PAGE, {"do": "give", "scheme": "key", "key": f" {SECRET}\n"})
    assert (answer.status_code, answer["Location"]) == (302, PAGE)
    row = RemoteCredential.objects.get(user=ada)
    assert (row.values, row.given_by, row.origin) == ({"key": SECRET}, ada, "https://vault.example.org:443")
    for address in (PAGE, "/settings/credentials"):
        assert SECRET not in as_ada.get(address).text
    for browser, key in ((as_ada, "of-ada-2"), (as_bob, "of-bob")):
        browser.post(PAGE, {"do": "give", "scheme": "key", "key": key})
    as_bob.post(PAGE, {"do": "remove", "scheme": "key"})
    assert [row.values for row in agent.remote_credentials.exclude(user=None)] == [{"key": "of-ada-2"}]


def test_only_who_registered_gives_credentials_for_everybody(ada, bob, root, browse):
    agent, as_ada, as_bob = registered(card(URL, SCHEMES, {"key": []})), browse(ada), browse(bob)
    RemoteAgent.objects.create(agent=agent, origin="https://vault.example.org:443", registered_by=ada)
    given = {"do": "give", "whose": "everybody", "scheme": "key", "key": SECRET}
    assert as_bob.post(PAGE, given).status_code == 422
    assert ["For everyone" in browser.get(PAGE).text for browser in (as_bob, as_ada)] == [False, True]
    assert not RemoteCredential.objects.exists()
    as_ada.post(PAGE, given)
    assert [(row.user, row.given_by) for row in RemoteCredential.objects.all()] == [(None, ada)]
    as_bob.post(PAGE, {**given, "do": "remove"})
    assert RemoteCredential.objects.exists()
    as_ada.post(PAGE, {**given, "do": "remove"})
    assert not RemoteCredential.objects.exists()


async def told(principal, agent, said, **more):
    receipt = await database.run(accept.accept, principal, agent, said("open it", **more))
    await carry_out(receipt.run)
    return await Task.objects.select_related("context").aget(pk=receipt.task)


def link_of(task):
    return "/credentials/" + task.status_message["metadata"]["url"].rpartition("/")[2]


async def give(browse, user, address, scheme="key", field=None):
    given = {"answer": "give", "do": "give", "scheme": scheme, field or scheme: SECRET}
    return await database.run(browse(user).post, address, given)


async def test_tasks_go_on_when_their_link_is_answered(ada, root, said, published, browse):
    with serving() as at:
        at.authorization = f"Bearer {SECRET}"
        at.tells("COMPLETED", f"You sent {SECRET}.")
        agent = await database.run(lambda: vault(root, "token", url=at.url))
        await database.run(credentials.save, agent, ada, "token", {"token": "no-longer-good"}, ada)
        refused = await told(ada.principal, agent, said)
        assert refused.state == "auth-required"
        assert "It refused the one" in refused.status_message["parts"][0]["text"]
        await database.run(credentials.erase, agent, ada, "token", ada)
        task = await told(ada.principal, agent, said)
        assert task.state == "auth-required"
        assert task.status_message["parts"][0] == {"text": "Vault wants a credential of your own."}
        assert (await give(browse, ada, link_of(task), "token"))["Location"] == f"/sessions/{task.context_id}"
        await carry_out((await Run.objects.aget(turn=2, task=task)).pk)
    assert await database.run(state_of, task.pk) == "completed"
    assert await database.run(projection.differences, task.context_id) == []
    everything = [row async for row in Event.objects.values_list("payload", flat=True)]
    runs = [row async for row in Run.objects.values_list("input", "error", "memory", "slot")]
    assert SECRET not in f"{everything}{runs}"
    assert "•••" in str(everything)
    assert (await CredentialRequest.objects.aget(task=task)).answer == "given"


async def test_of_several_credentials_the_last_one_counts(ada, root, said, published, browse):
    agent = await database.run(lambda: vault(root, "key", "token"))
    task = await told(ada.principal, agent, said)
    assert (await give(browse, ada, link_of(task)))["Location"] == link_of(task)
    assert await database.run(state_of, task.pk) == "auth-required"
    calls = Caller((await database.run(ApiKey.issue, ada, "test"))[1])
    address = f"/tasks/{task.pk}/credential"
    assert (await calls.post(address, {"values": {"token": SECRET}})).status == 422, "it does not name the scheme"
    assert (await calls.post(address, {"scheme": "token", "values": {"token": SECRET}})).status == 204
    assert await database.run(state_of, task.pk) == "working"
    assert len(published) == 1


async def test_the_page_resumes_all_waiting_tasks(ada, bob, root, said, published, browse):
    agent = await database.run(vault, root, "key")
    tasks = [await told(user.principal, agent, said) for user in (ada, ada, bob)]
    await CredentialRequest.objects.filter(task=tasks[0]).aupdate(expires_at=tasks[0].created_at)  # too old a link
    await give(browse, ada, PAGE)
    assert [await database.run(state_of, task.pk) for task in tasks] == ["working", "working", "auth-required"]
    assert len(published) == 2
    await give(browse, root, link_of(tasks[2]))  # an operator, acting for Bob
    row = await RemoteCredential.objects.aget(user=bob)
    assert row.given_by_id == root.pk


async def test_what_no_person_can_mend_is_no_question(ada, root, said):
    agent = await database.run(registered, card(URL, SCHEMES, {"key": []}))
    with pytest.raises(CredentialMissing) as missing:
        await credentials.auth_for(agent, ada.pk)
    assert await credentials.question_for(agent, ada.pk, missing.value) is None
    assert await credentials.question_for(agent, ada.pk, Unauthorized("No.")) is None
    await database.run(credentials.set_personal, agent, "key", True, root)
    assert isinstance(await credentials.question_for(agent, ada.pk, Unauthorized("No.")), AuthRequired)
    public = await database.run(lambda: vault(root, "key", slug="public", access="public"))
    task = await told(ANONYMOUS, public, said)
    assert (task.state, "Sign in" in str(task.status_message)) == ("rejected", True)
