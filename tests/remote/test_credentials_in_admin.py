"""Operators set, replace, remove and try credentials; no page shows one."""

import base64
from collections.abc import Iterator

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse

from apps.accounts.models import User
from apps.operators.access.credentials import credentials_url
from apps.remote.authentication import credentials
from apps.remote.models import RemoteAgent, RemoteCredential
from tests.remote.guarded import api_key, card, http, oauth2_scheme, registered
from tests.remote.scripted import Scripted, serving

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("outward")]

SECRET = "canary-5f1d2a90"
URL = "https://vault.example.org/a2a"
LIST = "admin:remote_remotecredential_changelist"
AUTHORIZATION = "Basic " + base64.b64encode(f"parley:{SECRET}".encode()).decode()


@pytest.fixture
def vault(db):
    return registered(
        card(URL, {"key": api_key("header", "X-Key"), "login": http("basic")}, {"key": []}, {"login": []})
    )


def do(client, agent, what, **fields):
    return client.post(credentials_url(agent), {"do": what, **fields}, follow=True)


def test_the_page_says_what_the_card_asks_for_and_takes_it(admin_client, admin_user, vault):
    page = admin_client.get(credentials_url(vault)).text
    for text in ("https://vault.example.org:443", "API key, in the header X-Key", "Name and password", "User name"):
        assert text in page
    shown = do(admin_client, vault, "give", scheme="key", key=SECRET, expires="2099-12-31").text
    assert "given" in shown
    assert f"by {admin_user}" in shown
    row = RemoteCredential.objects.get()
    assert (row.values, row.user, row.given_by, row.expires_at.year) == ({"key": SECRET}, None, admin_user, 2099)
    everywhere = [credentials_url(vault), reverse(LIST), reverse("admin:remote_remotecredential_change", args=[row.pk])]
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
        answer = admin_client.post(credentials_url(vault), fields)
        assert answer.status_code == 422
        assert told in answer.text
        assert "canary" not in answer.text
    assert not RemoteCredential.objects.exists()
    assert admin_client.get(credentials_url(echo)).status_code == 404


def test_who_may_only_look_changes_nothing(client, vault):
    viewer = User.objects.create_user("viewer@example.org", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_remotecredential"))
    client.force_login(viewer)
    assert client.get(reverse(LIST)).status_code == 200
    assert client.get(credentials_url(vault)).status_code == 403
    assert do(client, vault, "give", scheme="key", key=SECRET).status_code == 403
    assert not RemoteCredential.objects.exists()


def test_the_agents_own_page_leads_there_and_says_what_is_wanted(admin_client, vault):
    remote = RemoteAgent.objects.create(agent=vault, origin="https://vault.example.org:443")
    page = reverse("admin:remote_remoteagent_change", args=[remote.pk])
    assert "missing: add them" in admin_client.get(page).text
    assert credentials_url(vault) in admin_client.get(page).text
    do(admin_client, vault, "give", scheme="key", key=SECRET)
    assert "missing: add them" not in admin_client.get(page).text
    do(admin_client, vault, "personal", scheme="key")
    do(admin_client, vault, "personal", scheme="login")
    assert "one per person" in admin_client.get(page).text


def test_those_of_people_are_listed_and_erased_together(admin_client, ada, vault):
    credentials.set_personal(vault, "key", True, None)
    credentials.save(vault, ada, "key", {"key": SECRET}, ada)
    assert "ada@example.org" in admin_client.get(reverse(LIST)).text
    chosen = [row.pk for row in RemoteCredential.objects.all()]
    answer = admin_client.post(reverse(LIST), {"action": "erase_selected", "_selected_action": chosen}, follow=True)
    assert "1 erased" in answer.text
    assert [row.user for row in RemoteCredential.objects.all()] == [None], "who brings it stays as it was"


@pytest.fixture
def at() -> Iterator[Scripted]:
    with serving() as agent:
        agent.authorization = AUTHORIZATION
        yield agent


def test_trying_tells_whether_the_agent_lets_parley_in(admin_client, at):
    agent = registered(card(at.url, {"login": http("basic")}, {"login": []}))
    assert "wants a credential" in do(admin_client, agent, "try").text
    do(admin_client, agent, "give", scheme="login", username="parley", password="wrong-canary")
    refused = do(admin_client, agent, "try").text
    assert "does not let Parley in" in refused
    do(admin_client, agent, "give", scheme="login", username="parley", password=SECRET)
    assert "lets Parley in with this" in do(admin_client, agent, "try").text
    other = registered(card(at.url, {"login": oauth2_scheme(at.url)}, {"login": []}), "other")
    do(admin_client, other, "give", scheme="login", client_id="stranger", client_secret=SECRET)
    untold = do(admin_client, other, "try").text
    assert "gives no token to this OAuth2 client (status 401)" in untold
    at.is_down = True
    gone = do(admin_client, agent, "try").text
    assert "could not be asked" in gone
    assert "canary" not in refused + untold + gone
