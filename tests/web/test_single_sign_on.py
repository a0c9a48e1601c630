"""Signing in at another OpenID Connect server: Parley's own, at a port of its own."""

import re
from urllib.parse import urlsplit

import pytest
from allauth.idp.oidc.models import Client as Program
from allauth.socialaccount.models import SocialAccount
from django.test import Client

import outbound
from apps.accounts import oauth
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import User
from apps.accounts.people import links
from config.environment import oidc_provider

pytestmark = pytest.mark.django_db(transaction=True)
BACK = "http://testserver/sign-in/with/oidc/login/callback/"
START = "/sign-in/with/oidc/login/"


@pytest.fixture
def server(live_server, ada, bob, settings):
    """Ada's program at the server is this Parley. Bob's address is verified there."""
    links.confirm(bob)
    program = Program(id="parley", name="Parley", owner=ada, type="confidential", redirect_uris=BACK)
    program.set_scopes(["openid", "profile", "email"])
    program.set_grant_types(["authorization_code"])
    program.set_secret("secret")
    program.save()
    settings.PUBLIC_BASE_URL = settings.OIDC_URL = live_server.url
    settings.OIDC_NAME = "The other server"
    settings.SOCIALACCOUNT_PROVIDERS = oidc_provider(live_server.url, settings.OIDC_NAME, "parley", "secret")
    return live_server


def come_back(browser: Client, person: User, **query: str):
    """Begin at Parley, allow it at the other server as `person`, and come back."""
    away = browser.get(START, query)
    there = urlsplit(away["Location"])
    signed_in = Client()
    signed_in.force_login(person)
    page = signed_in.get(f"{there.path}?{there.query}")
    signed = re.search(r'name="request" value="([^"]+)"', page.content.decode())[1]
    scopes = ["openid", "profile", "email"]
    back = signed_in.post("/oauth/authorize", {"request": signed, "scopes": scopes, "action": "grant"})["Location"]
    assert back.startswith(BACK)
    return browser.get(back.removeprefix("http://testserver"))


def test_who_has_an_account_with_the_verified_address_gets_it(server, bob):
    browser = Client()
    assert START in browser.get("/sign-in").text
    assert come_back(browser, bob, next="/agents")["Location"] == "/agents"
    assert browser.get("/inbox").status_code == 200
    assert SocialAccount.objects.get().user == bob
    bob.refresh_from_db()
    assert bob.check_password("battery staple"), "the password stays"
    entry = AuditEntry.objects.filter(action=AuditAction.SIGNED_IN).latest("number")
    assert entry.actor_key == str(bob.pk)


class Unsure(oauth.Adapter):
    """The other server does not say that addresses are verified."""

    def get_claims(self, *args, **kwargs):
        return {**super().get_claims(*args, **kwargs), "email_verified": False}


def test_an_address_that_is_not_verified_gets_nothing(server, bob, settings):
    settings.IDP_OIDC_ADAPTER = f"{__name__}.Unsure"
    browser = Client()
    assert come_back(browser, bob)["Location"] == "/sign-in"
    assert browser.get("/inbox")["Location"].startswith("/sign-in")
    assert not SocialAccount.objects.exists()
    assert AuditEntry.objects.filter(action=AuditAction.SIGN_IN_REFUSED).exists()


class Elsewhere(oauth.Adapter):
    """The other server knows somebody who has no account here."""

    def get_claims(self, *args, **kwargs):
        return {**super().get_claims(*args, **kwargs), "email": "Grace@elsewhere.example", "name": "Grace"}


@pytest.mark.parametrize("may", [True, False])
def test_strangers_get_an_account_only_if_the_operator_says_so(server, bob, settings, may):
    settings.IDP_OIDC_ADAPTER = f"{__name__}.Elsewhere"
    settings.OIDC_SIGN_UP = may
    browser = Client()
    assert come_back(browser, bob)["Location"] == ("/" if may else "/sign-in")
    assert User.objects.filter(email="grace@elsewhere.example").exists() == may
    assert (browser.get("/inbox").status_code == 200) == may
    if may:
        made = User.objects.get(email="grace@elsewhere.example")
        assert (made.name, made.has_usable_password(), bool(made.personal_workspace)) == ("Grace", False, True)


def test_somebody_disabled_here_does_not_come_in(server, bob, settings):
    settings.IDP_OIDC_ADAPTER = f"{__name__}.Elsewhere"
    User.objects.create_user("grace@elsewhere.example", is_active=False)
    browser = Client()
    assert come_back(browser, bob)["Location"] == "/sign-in/inactive"
    assert browser.get("/inbox")["Location"].startswith("/sign-in")


def test_a_server_that_cannot_be_reached_is_told(client, settings):
    settings.OIDC_URL = "http://127.0.0.1:9"
    settings.SOCIALACCOUNT_PROVIDERS = oidc_provider(settings.OIDC_URL, "The other server", "parley", "secret")
    assert client.get(START)["Location"] == "/sign-in"
    assert 'role="status"' in client.get("/sign-in").text


def test_only_the_named_server_may_be_in_a_private_network(server, bob, settings):
    settings.OIDC_URL = "https://id.example.org"
    assert Client().get(START)["Location"] == "/sign-in"
    with pytest.raises(outbound.Private):
        outbound.guard().vet_now(f"{server.url}/.well-known/openid-configuration")


def test_accounts_are_not_connected_by_a_link(server, ada_browser):
    assert ada_browser.get(START, {"process": "connect"})["Location"] == "/"
    assert Client().get(START, {"process": "connect"})["Location"] == "/"


def test_without_the_setting_there_is_no_such_sign_in(client, db):
    assert client.get(START).status_code == 404
    assert START not in client.get("/sign-in").text
