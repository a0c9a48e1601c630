"""Operators set, replace, remove and try credentials of remote agents; nobody is ever shown one."""

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse

import bridge
from apps.accounts.models import User
from apps.gateway import cards, connecting, credentials
from apps.gateway.admin.credentials import sheet_of
from apps.gateway.errors import Unauthorized
from apps.gateway.models import RemoteAgent, RemoteCredential
from tests.gateway.guarded import api_key, card, http, oauth2, registered
from tests.gateway.peers import sdk_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("outward")]

SECRET = "canary-5f1d2a90"
URL = "https://vault.example.org/a2a"
LIST = "admin:gateway_remotecredential_changelist"
AUTHORIZATION = "Basic " + base64.b64encode(f"parley:{SECRET}".encode()).decode()


@pytest.fixture
def vault(db):
    return registered(
        card(URL, {"key": api_key("header", "X-Key"), "login": http("basic")}, {"key": []}, {"login": []})
    )


def do(client, agent, what, **fields):
    return client.post(sheet_of(agent), {"do": what, **fields}, follow=True)


def test_the_page_says_what_the_card_asks_for_and_takes_it(admin_client, admin_user, vault):
    page = admin_client.get(sheet_of(vault)).text
    for text in ("https://vault.example.org:443", "API key, in the header X-Key", "Name and password", "User name"):
        assert text in page
    shown = do(admin_client, vault, "give", scheme="key", key=SECRET, expires="2099-12-31").text
    assert "given" in shown
    assert f"by {admin_user}" in shown
    row = RemoteCredential.objects.get()
    assert (row.values, row.user, row.given_by, row.expires_at.year) == ({"key": SECRET}, None, admin_user, 2099)
    everywhere = [sheet_of(vault), reverse(LIST), reverse("admin:gateway_remotecredential_change", args=[row.pk])]
    for address in everywhere:
        page = admin_client.get(address).text
        assert "key" in page
        assert "canary" not in page
    assert "canary" not in str(list(LogEntry.objects.values_list("change_message", flat=True)))
    assert LogEntry.objects.filter(user=admin_user, object_id=str(vault.pk)).exists()


def test_one_is_replaced_and_removed_and_people_are_made_to_bring_their_own_and_back(admin_client, vault):
    for key in ("first-canary", "second-canary"):
        do(admin_client, vault, "give", scheme="key", key=key)
    assert RemoteCredential.objects.get().values == {"key": "second-canary"}
    do(admin_client, vault, "remove", scheme="key")
    assert not RemoteCredential.objects.exists()
    assert "Each person brings their own key" in do(admin_client, vault, "personal", scheme="key").text
    assert [scheme.name for scheme in credentials.personal_schemes(vault)] == ["key"]
    do(admin_client, vault, "common", scheme="key")
    assert not RemoteCredential.objects.exists()


def test_what_cannot_be_kept_is_refused_in_a_sentence(admin_client, vault, echo):
    for fields, told in (
        ({"do": "give", "scheme": "key", "key": f"{SECRET}\n\n-"}, "line breaks"),
        ({"do": "give", "scheme": "key", "key": SECRET, "expires": "soon"}, "2030-12-31"),
        ({"do": "give", "scheme": "ghost", "key": SECRET}, ""),
        ({"do": "personal", "scheme": "ghost"}, ""),
        ({"do": "give"}, ""),
    ):
        answer = admin_client.post(sheet_of(vault), fields)
        assert answer.status_code == 422
        assert told in answer.text
        assert "canary" not in answer.text
    assert not RemoteCredential.objects.exists()
    assert admin_client.get(sheet_of(echo)).status_code == 404  # which is not remote


def test_who_may_only_look_changes_nothing(client, vault):
    viewer = User.objects.create_user("viewer@example.org", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_remotecredential"))
    client.force_login(viewer)
    assert client.get(reverse(LIST)).status_code == 200
    assert client.get(sheet_of(vault)).status_code == 403
    assert do(client, vault, "give", scheme="key", key=SECRET).status_code == 403
    assert not RemoteCredential.objects.exists()


def test_the_agents_own_page_leads_there_and_says_what_is_wanted(admin_client, vault):
    remote = RemoteAgent.objects.create(agent=vault, origin="https://vault.example.org:443")
    page = reverse("admin:gateway_remoteagent_change", args=[remote.pk])
    assert "wanted: give them" in admin_client.get(page).text
    assert sheet_of(vault) in admin_client.get(page).text
    do(admin_client, vault, "give", scheme="key", key=SECRET)
    assert "what lets Parley in" in admin_client.get(page).text
    do(admin_client, vault, "personal", scheme="key")
    do(admin_client, vault, "personal", scheme="login")
    assert "each person" in admin_client.get(page).text


def test_those_of_people_are_listed_and_erased_together(admin_client, ada, vault):
    credentials.bring_own(vault, "key", True, None)
    credentials.keep(vault, ada, "key", {"key": SECRET}, ada)
    assert "ada@example.org" in admin_client.get(reverse(LIST)).text
    chosen = [row.pk for row in RemoteCredential.objects.all()]
    answer = admin_client.post(reverse(LIST), {"action": "erase_selected", "_selected_action": chosen}, follow=True)
    assert "1 erased" in answer.text
    assert [row.user for row in RemoteCredential.objects.all()] == [None], "who brings it stays as it was"


# At a server of the SDK


class Guarded:
    """An application that lets in who has the credential."""

    def __init__(self, app, authorization):
        self._app, self._authorization = app, authorization

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", []))
        if scope["type"] == "http" and headers.get(b"authorization") != self._authorization.encode():
            challenge = [(b"www-authenticate", b'Basic realm="vault"'), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": challenge})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


@contextmanager
def sdk_agent(authorization: str) -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    app = Guarded(sdk_server.application(url, ["JSONRPC", "HTTP+JSON"], streams=True), authorization)
    running = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield url
    finally:
        running.should_exit = True
        thread.join()


def test_trying_tells_whether_the_agent_lets_parley_in(admin_client):
    with sdk_agent(AUTHORIZATION) as url:
        agent = registered(card(url, {"login": http("basic")}, {"login": []}))
        assert "wants a credential" in do(admin_client, agent, "try").text
        do(admin_client, agent, "give", scheme="login", username="parley", password="wrong-canary")
        refused = do(admin_client, agent, "try").text
        assert "does not let Parley in" in refused
        do(admin_client, agent, "give", scheme="login", username="parley", password=SECRET)
        assert "lets Parley in with this" in do(admin_client, agent, "try").text
        other = registered(card(url, {"login": oauth2(url + "no-such-endpoint")}, {"login": []}), "other")
        do(admin_client, other, "give", scheme="login", client_id="stranger", client_secret=SECRET)
        untold = do(admin_client, other, "try").text
        assert "gives no token to this OAuth2 client (status 401)" in untold
    gone = do(admin_client, agent, "try").text
    assert "could not be asked" in gone
    assert "canary" not in refused + untold + gone


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_peer_signs_each_of_its_requests(ada, binding):
    with sdk_agent(AUTHORIZATION) as url:
        said = card(url, {"login": http("basic")}, {"login": []}, capabilities={"streaming": True})
        said["supportedInterfaces"][0]["protocolBinding"] = binding
        agent = await bridge.run(registered, said)
        message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "count 3"}]}
        async with connecting.peer(cards.card_of(agent.current_version)) as stranger:
            with pytest.raises(Unauthorized):
                [event async for event in stranger.send(message)]
        given = {"username": "parley", "password": SECRET}
        await bridge.run(credentials.keep, agent, None, "login", given, ada)
        auth = await credentials.auth_for(agent, ada.pk)
        async with connecting.peer(cards.card_of(agent.current_version), auth=auth) as peer:
            events = [event async for event in peer.send(message)]
            task = await peer.get(events[0]["task"]["id"])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
