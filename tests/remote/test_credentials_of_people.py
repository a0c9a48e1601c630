"""People enter their own credentials, on a page or by a task's link."""

import re

import pytest
from django.test import Client

import db as database
from agentkit import AuthRequired, Completed, Failed, Rejected
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import ANONYMOUS
from apps.engine import accept, turn
from apps.features.credentials import requests
from apps.features.credentials.models import CredentialRequest
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Event, Task
from apps.remote.authentication import credentials
from apps.remote.errors import CredentialMissing, Unauthorized
from apps.remote.models import RemoteAgent, RemoteCredential
from tests.api.calling import Caller
from tests.outbound.receiving import server
from tests.remote.guarded import api_key, card, client, http, letting_in, registered
from tests.working import carry_out, state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("outward")]

SECRET = "canary-5f1d2a90"
URL = "https://vault.example.org/a2a"
SCHEMES = {"key": api_key("header", "X-Key"), "token": http("bearer")}
PAGE = "/agents/vault/credentials"


async def executor(assignment, task, aside):
    """Calls the agent and repeats its answer; asks for credentials."""
    owner = assignment.task.owner_id
    try:
        auth = await credentials.auth_for(assignment.agent, owner, redact=assignment.redaction.keep_out)
        async with client() as way:
            answer = await way.post(
                assignment.agent.current_version.content["card"]["supportedInterfaces"][0]["url"], auth=auth
            )
        if answer.status_code == 401:
            raise Unauthorized("The agent does not let Parley in.")
    except Unauthorized as error:
        return await credentials.question_for(assignment.agent, owner, error) or Failed(str(error), error.code)
    return Completed(f"It says: {answer.text}, to {SECRET}")


@pytest.fixture(autouse=True)
def _remote_agents_are_called(settings):
    settings.EXECUTORS = {**settings.EXECUTORS, "remote": f"{__name__}.executor"}
    turn._executor_of.cache_clear()
    yield
    turn._executor_of.cache_clear()


@pytest.fixture(autouse=True)
def published(monkeypatch):
    runs = []
    monkeypatch.setattr(requests, "publish", runs.append)
    return runs


@pytest.fixture
def root(db):
    return User.objects.create_superuser("root@example.org", "hush hush hush")


class Browsing:
    def __init__(self, user):
        self._client = Client()
        self._client.force_login(user)
        self.get, self.post = self._client.get, self._client.post

    async def aget(self, address):
        return await database.run(self._client.get, address)

    async def apost(self, address, filled_in):
        return await database.run(self._client.post, address, filled_in)


@pytest.fixture
def as_ada(ada):
    return Browsing(ada)


@pytest.fixture
def as_bob(bob):
    return Browsing(bob)


@pytest.fixture
def as_root(root):
    return Browsing(root)


def vault(root, *names, url=URL, **fields):
    agent = registered(card(url, SCHEMES, {name: [] for name in names}), **fields)
    for name in names:
        credentials.set_personal(agent, name, True, root)
    return agent


def test_the_page_takes_what_the_agent_wants_and_never_shows_it(ada, root, as_ada):
    vault(root, "key")
    page = as_ada.get(PAGE)
    assert [page.status_code, "https://vault.example.org:443" in page.text] == [200, True]
    assert re.findall(r"<label for=\"[\w-]+\">([^<]+)</label>", page.text) == ["API key"]
    assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
    assert "no-store" in page["Cache-Control"]
    answer = as_ada.post(PAGE, {"do": "give", "scheme": "key", "key": f" {SECRET}\n"})
    assert (answer.status_code, answer["Location"]) == (302, PAGE)
    row = RemoteCredential.objects.get(user=ada)
    assert (row.values, row.given_by, row.origin) == ({"key": SECRET}, ada, "https://vault.example.org:443")
    for address in (PAGE, "/settings/credentials"):
        page = as_ada.get(address).text
        assert SECRET not in page


def test_what_is_no_credential_or_not_wanted_is_refused_and_not_repeated(ada, root, as_ada):
    vault(root, "key")
    answer = as_ada.post(PAGE, {"do": "give", "scheme": "key", "key": f"{SECRET}\nX: 1"})
    assert answer.status_code == 422
    assert "line breaks" in answer.text
    assert "canary" not in answer.text
    for nonsense in ({}, {"do": "give"}, {"do": "give", "scheme": "token", "token": "x"}, {"scheme": "\x00" * 500}):
        assert as_ada.post(PAGE, nonsense).status_code == 422
    assert not RemoteCredential.objects.filter(user=ada).exists()


def test_one_is_replaced_and_removed_by_its_owner_alone(ada, bob, root, as_ada, as_bob):
    agent = vault(root, "key")
    for browser, key in ((as_ada, "of-ada-1"), (as_ada, "of-ada-2"), (as_bob, "of-bob")):
        browser.post(PAGE, {"do": "give", "scheme": "key", "key": key})
    as_bob.post(PAGE, {"do": "remove", "scheme": "key"})
    assert [row.values for row in agent.remote_credentials.exclude(user=None)] == [{"key": "of-ada-2"}]
    as_ada.post(PAGE, {"do": "remove", "scheme": "key"})
    assert not agent.remote_credentials.exclude(user=None).exists()


def test_an_agent_that_one_may_not_use_is_not_found_unless_it_has_something_of_theirs(root, client, as_ada, as_root):
    assert client.get(PAGE)["Location"].startswith("/sign-in")
    agent = vault(root, "key")
    as_ada.post(PAGE, {"do": "give", "scheme": "key", "key": SECRET})
    agent.is_enabled = False
    agent.save()
    assert as_root.get(PAGE).status_code == 404
    assert as_ada.post(PAGE, {"do": "remove", "scheme": "key"}).status_code == 302
    assert as_ada.get(PAGE).status_code == 404
    assert as_ada.get("/agents/echo/credentials").status_code == 404


def test_what_a_card_says_is_text(root, as_ada):
    bad = '<script>alert("x")</script>'
    described = {bad: {"apiKeySecurityScheme": {"location": "header", "name": "X-Key", "description": bad}}}
    agent = registered(card(URL, described, {bad: []}))
    credentials.set_personal(agent, bad, True, root)
    page = as_ada.get(PAGE).text
    assert bad not in page
    assert "&lt;script&gt;" in page


def test_who_registered_an_agent_gives_what_is_for_everybody_and_nobody_else_does(ada, root, as_ada, as_bob):
    agent = registered(card(URL, SCHEMES, {"key": []}))
    RemoteAgent.objects.create(agent=agent, origin="https://vault.example.org:443", registered_by=ada)
    given = {"do": "give", "whose": "everybody", "scheme": "key", "key": SECRET}
    assert as_bob.post(PAGE, given).status_code == 422
    assert "needs no credentials" in as_bob.get(PAGE).text
    assert "For everyone" not in as_bob.get(PAGE).text
    assert not RemoteCredential.objects.exists()
    assert "For everyone" in as_ada.get(PAGE).text
    assert as_ada.post(PAGE, {**given, "key": "\x00"}).status_code == 422
    as_ada.post(PAGE, given)
    assert [(row.user, row.given_by) for row in RemoteCredential.objects.all()] == [(None, ada)]
    as_bob.post(PAGE, {**given, "do": "remove"})
    assert RemoteCredential.objects.exists()
    as_ada.post(PAGE, {**given, "do": "remove"})
    assert not RemoteCredential.objects.exists()
    for scheme in SCHEMES:
        credentials.set_personal(agent, scheme, True, root)
    assert "For everyone" not in as_ada.get(PAGE).text


async def told(principal, agent, said, **more):
    receipt = await database.run(accept.accept, principal, agent, said("open it", **more))
    await carry_out(receipt.run)
    return await Task.objects.select_related("context").aget(pk=receipt.task)


def link_of(task):
    return "/credentials/" + task.status_message["metadata"]["url"].rpartition("/")[2]


async def test_a_task_asks_and_goes_on_when_it_is_given_by_its_link(ada, root, said, published, as_ada):
    async with server(letting_in(lambda request: request.headers.get("x-key") == SECRET)) as at:
        agent = await database.run(lambda: vault(root, "key", url=at.url))
        task = await told(ada.principal, agent, said)
        assert task.state == "auth-required"
        assert task.status_message["parts"][0] == {"text": "Vault wants a credential of your own."}
        page = (await as_ada.aget(link_of(task))).text
        assert "Vault asks for a credential of your own" in page
        assert "Decline" in page
        given = {"answer": "give", "scheme": "key", "key": SECRET}
        answer = await as_ada.apost(link_of(task), given)
        assert answer["Location"] == f"/sessions/{task.context_id}"
        assert published == [(await Run.objects.aget(turn=2)).pk]
        await carry_out(published[0])
    assert await database.run(state_of, task.pk) == "completed"
    assert await database.run(projection.differences, task.context_id) == []
    everything = [row async for row in Event.objects.values_list("payload", flat=True)]
    runs = [row async for row in Run.objects.values_list("input", "error", "memory", "slot")]
    assert SECRET not in f"{everything}{runs}"
    assert "•••" in str(everything)
    assert (await CredentialRequest.objects.aget()).answer == "given"
    assert "Credential sent" in (await as_ada.aget(link_of(task))).text


async def test_a_program_gives_it_by_its_scheme(ada, root, said, published):
    agent = await database.run(lambda: vault(root, "key", "token"))
    task = await told(ada.principal, agent, said)
    calls = Caller((await database.run(ApiKey.issue, ada, "test"))[1])
    address = f"/tasks/{task.pk}/credential"
    refused = await calls.post(address, {"values": {"key": SECRET}})
    assert (refused.status, "key, token" in refused.body["detail"]) == (422, True)
    for scheme, field in (("key", "key"), ("token", "token")):
        assert (await calls.post(address, {"scheme": scheme, "values": {field: SECRET}})).status == 204
    assert len(published) == 1


async def test_of_several_each_is_given_by_itself_and_the_last_one_counts(ada, root, said, published, as_ada):
    agent = await database.run(lambda: vault(root, "key", "token"))
    task = await told(ada.principal, agent, said)
    first = await as_ada.apost(link_of(task), {"answer": "give", "scheme": "key", "key": SECRET})
    assert first["Location"] == link_of(task)
    assert await database.run(state_of, task.pk) == "auth-required"
    await as_ada.apost(link_of(task), {"answer": "give", "scheme": "token", "token": SECRET})
    assert await database.run(state_of, task.pk) == "working"
    assert len(published) == 1


async def test_the_page_lets_all_waiting_tasks_go_on_whose_links_are_too_old_too(
    ada, bob, root, said, published, as_ada
):
    agent = await database.run(vault, root, "key")
    tasks = [await told(user.principal, agent, said) for user in (ada, ada, bob)]
    await CredentialRequest.objects.filter(task=tasks[0]).aupdate(expires_at=tasks[0].created_at)
    await as_ada.apost(PAGE, {"do": "give", "scheme": "key", "key": SECRET})
    assert [await database.run(state_of, task.pk) for task in tasks] == ["working", "working", "auth-required"]
    assert len(published) == 2


async def test_one_that_the_agent_refuses_is_asked_for_again(ada, root, said):
    async with server(letting_in(lambda request: False)) as at:
        agent = await database.run(lambda: vault(root, "key", url=at.url))
        await database.run(credentials.save, agent, ada, "key", {"key": "no-longer-good"}, ada)
        task = await told(ada.principal, agent, said)
    assert task.state == "auth-required"
    assert "It refused the one" in task.status_message["parts"][0]["text"]


async def test_somebody_elses_link_takes_nothing(ada, root, said, as_bob, as_root):
    agent = await database.run(vault, root, "key")
    task = await told(ada.principal, agent, said)
    given = {"answer": "give", "scheme": "key", "key": SECRET}
    assert (await as_bob.apost(link_of(task), given)).status_code == 404
    assert not await RemoteCredential.objects.exclude(user=None).aexists()
    await as_root.apost(link_of(task), given)  # an operator, acting for Ada
    row = await RemoteCredential.objects.exclude(user=None).aget()
    assert (row.user_id, row.given_by_id) == (ada.pk, root.pk)


async def test_who_is_not_known_is_told_to_sign_in(root, said):
    agent = await database.run(lambda: vault(root, "key", access="public"))
    task = await told(ANONYMOUS, agent, said)
    assert (task.state, "Sign in" in str(task.status_message)) == ("rejected", True)


async def test_what_no_person_can_mend_is_no_question(ada, root):
    agent = await database.run(registered, card(URL, SCHEMES, {"key": []}))
    with pytest.raises(CredentialMissing) as missing:
        await credentials.auth_for(agent, ada.pk)
    assert await credentials.question_for(agent, ada.pk, missing.value) is None
    assert await credentials.question_for(agent, ada.pk, Unauthorized("No.")) is None
    await database.run(credentials.set_personal, agent, "key", True, root)
    asked = await credentials.question_for(agent, ada.pk, Unauthorized("No."))
    assert isinstance(asked, AuthRequired)
    assert isinstance(await credentials.question_for(agent, None, Unauthorized("No.")), Rejected)
