"""Operators see a remote agent's health and set its credentials; no page shows one."""

import base64
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.credentials.admin.credentials import credentials_url
from apps.remote import circuit_breaker, health_checks
from apps.remote.authentication import credentials
from apps.remote.errors import Unreachable
from apps.remote.models import Check, Checkup, RemoteAgent, RemoteCredential
from apps.remote.probes import Finding
from tests.chosen_rows import act
from tests.remote.guarded import api_key, card, http, oauth2_scheme, registered
from tests.remote.registered import remote_agent
from tests.remote.scripted import serving
from tests.remote.test_health_checks import claim_rounds

pytestmark = pytest.mark.django_db

SECRET = "canary-5f1d2a90"
LIST = "admin:remote_remotecredential_changelist"
AUTHORIZATION = "Basic " + base64.b64encode(f"parley:{SECRET}".encode()).decode()
LOST = Unreachable("far.invalid cannot be reached.")


@pytest.fixture
def far(db):
    agent = remote_agent("far")
    for error in ("", "", "far.invalid did not <b>answer</b> in time.", ""):
        Checkup.objects.update(next_check_at=timezone.now() - timedelta(seconds=1))
        [one] = claim_rounds(10)
        health_checks.record_round(one, [Finding(Check.Kind.CARD, 40, error, answers=not error)])
    return agent


def page_of(client, agent):
    return client.get(reverse("admin:remote_checkup_change", args=[agent.pk])).text


def press(client, agent, button):
    return client.post(reverse(f"admin:remote_checkup_{button}", args=[agent.pk]), {"_form_submitted": "True"})


def test_operators_see_checks_and_close_the_breaker(admin_client, far, settings):
    page = page_of(admin_client, far)
    assert "far.invalid did not &lt;b&gt;answer&lt;/b&gt; in time." in page
    assert page.count("75.0 %") == 2
    assert claim_rounds(10) == []
    press(admin_client, far, "check_now")
    assert [one.agent for one in claim_rounds(10)] == [far]
    settings.REMOTE_BREAKER_FAILURES = 1
    circuit_breaker.record_failure(far, LOST)
    assert "open: no call goes through" in page_of(admin_client, far)
    press(admin_client, far, "close")
    circuit_breaker.admit(far)
    far.refresh_from_db()
    assert far.health == "ok"


def test_viewers_give_no_credential(client, vault):
    user = User.objects.create_user("viewer@example.org", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_remotecredential"))
    client.force_login(user)
    assert client.get(reverse(LIST)).status_code == 200
    assert client.get(credentials_url(vault)).status_code == 403
    assert do(client, vault, "give", scheme="key", key=SECRET).status_code == 403
    assert not RemoteCredential.objects.exists()


# Credentials


@pytest.fixture
def vault(db):
    schemes = {"key": api_key("header", "X-Key"), "login": http("basic")}
    return registered(card("https://vault.example.org/a2a", schemes, {"key": []}, {"login": []}))


def do(client, agent, what, **fields):
    return client.post(credentials_url(agent), {"do": what, **fields}, follow=True)


def test_operators_give_replace_and_remove_credentials(admin_client, admin_user, vault):
    remote = RemoteAgent.objects.create(agent=vault, origin="https://vault.example.org:443")
    own_page = reverse("admin:remote_remoteagent_change", args=[remote.pk])
    do(admin_client, vault, "give", scheme="key", key="first-canary")
    shown = do(admin_client, vault, "give", scheme="key", key=SECRET, expires="2099-12-31").text
    assert f"by {admin_user}" in shown
    row = RemoteCredential.objects.get()
    assert (row.values, row.user, row.given_by, row.expires_at.year) == ({"key": SECRET}, None, admin_user, 2099)
    change = reverse("admin:remote_remotecredential_change", args=[row.pk])
    for address in (credentials_url(vault), reverse(LIST), change, own_page):
        assert "canary" not in admin_client.get(address).text
    entries = LogEntry.objects.filter(user=admin_user, object_id=str(vault.pk))
    assert entries.exists()
    assert "canary" not in str(list(entries.values_list("change_message", flat=True)))
    do(admin_client, vault, "remove", scheme="key")
    assert not RemoteCredential.objects.exists()
    do(admin_client, vault, "personal", scheme="key")
    assert [scheme.name for scheme in credentials.personal_schemes(vault)] == ["key"]
    do(admin_client, vault, "common", scheme="key")
    assert not RemoteCredential.objects.exists()


def test_wrong_credentials_are_refused_in_a_sentence(admin_client, vault, echo):
    for fields, told in (
        ({"do": "give", "scheme": "key", "key": f"{SECRET}\n\n-"}, "line breaks"),
        ({"do": "give", "scheme": "key", "key": SECRET, "expires": "soon"}, "2030-12-31"),
        ({"do": "give", "scheme": "ghost", "key": SECRET}, ""),
        ({"do": "personal", "scheme": "ghost"}, ""),
    ):
        answer = admin_client.post(credentials_url(vault), fields)
        assert answer.status_code == 422
        assert told in answer.text
        assert "canary" not in answer.text
    assert not RemoteCredential.objects.exists()
    assert admin_client.get(credentials_url(echo)).status_code == 404


def test_peoples_credentials_are_erased_together(admin_client, ada, vault):
    credentials.set_personal(vault, "key", True, None)
    credentials.save(vault, ada, "key", {"key": SECRET}, ada)
    assert "ada@example.org" in admin_client.get(reverse(LIST)).text
    answer = act(admin_client, RemoteCredential, "erase_selected", *RemoteCredential.objects.all())
    assert "1 done" in answer.text
    assert [row.user for row in RemoteCredential.objects.all()] == [None], "who brings it stays as it was"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("outward")
def test_trying_says_whether_the_agent_lets_parley_in(admin_client):
    with serving() as at:
        at.authorization = AUTHORIZATION
        agent = registered(card(at.url, {"login": http("basic")}, {"login": []}))
        other = registered(card(at.url, {"login": oauth2_scheme(at.url)}, {"login": []}), "other")

        def tried(agent, **given):
            if given:
                do(admin_client, agent, "give", scheme="login", **given)
            return do(admin_client, agent, "try").text

        assert "wants a credential" in tried(agent)
        refused = tried(agent, username="parley", password="wrong-canary")
        assert "does not let Parley in" in refused
        assert "lets Parley in with this" in tried(agent, username="parley", password=SECRET)
        untold = tried(other, client_id="stranger", client_secret=SECRET)
        assert "gives no token to this OAuth2 client (status 401)" in untold
        at.is_down = True
        gone = tried(agent)
        assert "could not be asked" in gone
        assert "canary" not in refused + untold + gone
