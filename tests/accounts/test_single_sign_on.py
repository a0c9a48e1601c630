"""Signing in at another OpenID Connect server: Parley's own, at a port of its own."""

import re
from urllib.parse import urlsplit

import pytest
from allauth.idp.oidc.models import Client as Program
from allauth.socialaccount.models import SocialAccount
from django.conf import settings as configured
from django.test import Client

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.clients import oauth
from apps.accounts.models import User
from apps.accounts.people import links
from parley import outbound
from parley.environment import oidc_provider

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


def come_back(browser, person, **query):
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


def test_verified_address_leads_to_its_account(server, bob):
    browser = Client()
    assert START in browser.get("/sign-in").text
    assert browser.get(START, {"process": "connect"})["Location"] == "/", "a link connects no accounts"
    assert come_back(browser, bob, next="/agents")["Location"] == "/agents"
    assert browser.get("/inbox").status_code == 200
    assert SocialAccount.objects.get().user == bob
    bob.refresh_from_db()
    assert bob.check_password("battery staple"), "the password stays"
    assert AuditEntry.objects.filter(action=AuditAction.SIGNED_IN).latest("number").actor_key == str(bob.pk)


class Changed(oauth.Adapter):
    """The other server says something else."""

    def get_claims(self, *args, **kwargs):
        return {**super().get_claims(*args, **kwargs), **configured.OTHER_CLAIMS}


GRACE = {"email": "Grace@elsewhere.example", "name": "Grace"}


@pytest.fixture
def says(settings):
    settings.IDP_OIDC_ADAPTER = f"{__name__}.Changed"
    return lambda **claims: setattr(settings, "OTHER_CLAIMS", claims)


def test_unverified_address_gets_nothing(server, bob, says):
    says(email_verified=False)
    browser = Client()
    assert come_back(browser, bob)["Location"] == "/sign-in"
    assert browser.get("/inbox")["Location"].startswith("/sign-in")
    assert not SocialAccount.objects.exists()
    assert AuditEntry.objects.filter(action=AuditAction.SIGN_IN_REFUSED).exists()


@pytest.mark.parametrize("may", [True, False])
def test_strangers_get_an_account_where_operators_allow(server, bob, says, settings, may):
    says(**GRACE)
    settings.OIDC_SIGN_UP = may
    browser = Client()
    assert come_back(browser, bob)["Location"] == ("/" if may else "/sign-in")
    made = User.objects.filter(email="grace@elsewhere.example").first()
    assert (bool(made), browser.get("/inbox").status_code == 200) == (may, may)
    if made:
        assert (made.name, made.has_usable_password(), bool(made.personal_workspace)) == ("Grace", False, True)


def test_disabled_account_does_not_come_in(server, bob, says):
    says(**GRACE)
    User.objects.create_user("grace@elsewhere.example", is_active=False)
    browser = Client()
    assert come_back(browser, bob)["Location"] == "/sign-in/inactive"
    assert browser.get("/inbox")["Location"].startswith("/sign-in")


def test_missing_server_or_setting_signs_nobody_in(client, settings):
    assert (client.get(START).status_code, START in client.get("/sign-in").text) == (404, False)
    settings.OIDC_URL = "http://127.0.0.1:9"
    settings.SOCIALACCOUNT_PROVIDERS = oidc_provider(settings.OIDC_URL, "The other server", "parley", "secret")
    assert client.get(START)["Location"] == "/sign-in"
    assert 'role="status"' in client.get("/sign-in").text


def test_only_the_named_server_may_be_private(server, bob, settings):
    settings.OIDC_URL = "https://id.example.org"
    assert Client().get(START)["Location"] == "/sign-in"
    with pytest.raises(outbound.Private):
        outbound.guard().vet_now(f"{server.url}/.well-known/openid-configuration")
