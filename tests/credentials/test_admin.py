"""Operators declare OAuth services; the form finds an issuer's addresses and never shows a secret."""

from __future__ import annotations

import pytest
from django.db import connection
from django.urls import reverse

from apps.agents.registration import register_hosted
from apps.credentials.models import Credential, OAuthService
from parley import outbound
from tests import authorization_server
from tests.authorization_server import CLIENT, SECRET
from tests.chosen_rows import act

pytestmark = pytest.mark.django_db(transaction=True)

ADD, LIST = "admin:credentials_oauthservice_add", "admin:credentials_oauthservice_changelist"


@pytest.fixture
def server(settings):
    outbound.configure(["127.0.0.1"])
    with authorization_server.running() as running:
        yield running
    outbound.configure(settings.OUTBOUND_ALLOW)


def form(**fields):
    rows = {"parameters-TOTAL_FORMS": "1", "parameters-INITIAL_FORMS": "0"}
    return {"name": "Calendar", "client_id": CLIENT, **rows, **fields}


def change(service):
    return reverse("admin:credentials_oauthservice_change", args=[service.pk])


def test_an_issuers_addresses_are_found(admin_client, server):
    row = {"parameters-0-name": "access_type", "parameters-0-value": "offline"}
    added = admin_client.post(reverse(ADD), form(issuer=server.url, secret=SECRET, **row))
    assert added.status_code == 302, added.content
    service = OAuthService.objects.get()
    assert service.endpoint("token") == f"{server.url}/token"
    assert service.authorization_parameters == {"access_type": "offline"}
    assert service.client_secret == SECRET
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM credentials_oauthservice")
        assert SECRET not in str(cursor.fetchall())
    pages = admin_client.get(change(service)).text + admin_client.get(reverse(LIST)).text
    assert SECRET not in pages
    assert "/settings/credentials/oauth/callback" in pages


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "Give an issuer"),
        ({"issuer": "http://10.0.0.1"}, "private network"),
        ({"authorization_url": "https://a.example.org", "token_url": "javascript:x"}, "http"),
        ({"issuer": "https://a.example.org", "parameters-0-name": "state", "parameters-0-value": "x"}, "sets this"),
    ],
)
def test_what_cannot_work_is_refused(admin_client, server, fields, told):
    OAuthService.objects.create(name="Mail", authorization_url="https://m.invalid", token_url="https://m.invalid")
    page = admin_client.post(reverse(ADD), form(**fields))
    assert page.status_code == 200
    assert told in page.text
    assert OAuthService.objects.count() == 1


def test_a_saved_secret_goes_to_no_other_server(admin_client, server):
    service = server.declared()
    kept = form(issuer=server.url, scopes="less")
    assert admin_client.post(change(service), kept).status_code == 302
    service.refresh_from_db()
    assert (service.client_secret, service.scopes) == (SECRET, "less")
    moved = form(authorization_url="https://b.example.org", token_url="https://b.example.org")
    assert admin_client.post(change(service), moved).status_code == 302
    service.refresh_from_db()
    assert (service.client_secret, service.metadata) == ("", {})


def test_admin_revokes_and_never_shows_tokens(admin_client, server, ada):
    tokens = server.grant()
    service = server.declared(metadata={"issuer": server.url, "revocation_endpoint": f"{server.url}/revoke"})
    agent = register_hosted("calendar", "tests.engine.agents:Calendar")
    row = Credential.objects.create(
        agent=agent, user=ada, service="calendar", auth_type="bearer", oauth_service=service,
        secret=tokens["access_token"], refresh_token=tokens["refresh_token"],
    )  # fmt: skip
    rows = reverse("admin:credentials_credential_changelist")
    pages = (
        admin_client.get(rows).text
        + admin_client.get(reverse("admin:credentials_credential_change", args=[row.pk])).text
    )
    assert not [token for token in server.issued if token in pages]
    act(admin_client, Credential, "revoke_selected", row)
    row.refresh_from_db()
    assert (row.secret, row.refresh_token) == ("", "")
    assert server.revoked == [tokens["refresh_token"]]
