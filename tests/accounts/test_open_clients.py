"""Programs register themselves, or describe themselves at an address, and act for people who allow it."""

import json
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from allauth.idp.oidc.models import Client as Program
from allauth.idp.oidc.models import Token
from django.test import Client
from django.utils import timezone

from apps.accounts import quotas
from apps.accounts.principals import READ, WRITE
from parley import outbound
from parley.outbound import Answer, Forbidden, OutboundError
from tests.accounts.test_oauth import VERIFIER, allow, ask, bob_browses, post, who

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["bob_browses"]

CALLBACK = "http://127.0.0.1:3334/oauth/callback"
PUBLIC = {"client_name": "A client", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
DOCUMENT = "https://client.example/oauth/metadata.json"
METADATA = {**PUBLIC, "client_id": DOCUMENT, "redirect_uris": ["http://localhost/callback"]}


AT_DOCUMENT = {"client_id": DOCUMENT, "redirect_uri": "http://localhost:1/callback"}


@pytest.fixture(autouse=True)
def _a_minute_of_its_own(monkeypatch):
    for counter in ("oauth_counter", "registration_counter"):
        monkeypatch.setattr(quotas, counter, quotas.RequestCounter(f"{counter}-of-a-test"))


def register(**said):
    return Client().post("/oauth/register", json.dumps(PUBLIC | said), content_type="application/json")


@pytest.fixture
def documents(monkeypatch):
    """What addresses answer: a body, or an error. It lists what was read."""
    served: dict[str, object] = {"read": []}

    class Way:
        @asynccontextmanager
        async def send(self, method, url, headers):
            served["read"].append(url)
            found = served.get(url, b"")
            if isinstance(found, OutboundError):
                raise found

            async def body():
                yield found if isinstance(found, bytes) else json.dumps(found).encode()

            yield Answer(200 if found else 404, [], body())

    @asynccontextmanager
    async def exchange(limits):
        yield Way()

    monkeypatch.setattr(outbound, "exchange", exchange)
    return served


def test_registered_client_acts_for_who_allows_it(bob_browses, bob):
    made = register(scope="openid").json()
    about = {"client_id": made["client_id"], "redirect_uri": "http://127.0.0.1:9999/oauth/callback"}
    page = ask(bob_browses, **about)
    assert about["redirect_uri"] in page.content.decode()
    back = allow(bob_browses, page, [READ, WRITE])["Location"]
    code = back.split("code=")[1].split("&")[0]
    answer = post("/oauth/token", grant_type="authorization_code", code=code, code_verifier=VERIFIER, **about)
    caller = who(answer.json()["access_token"])
    assert (caller.user_id, caller.scopes) == (bob.pk, {READ, WRITE})


def test_registered_client_acts_for_nobody_alone():
    grants = ["authorization_code", "client_credentials"]
    made = register(token_endpoint_auth_method="client_secret_post", grant_types=grants).json()
    assert Program.objects.get(pk=made["client_id"]).check_secret(made["client_secret"])
    about = {"client_id": made["client_id"], "client_secret": made["client_secret"]}
    assert post("/oauth/token", grant_type="client_credentials", scope=READ, **about).status_code == 400
    assert made["grant_types"] == ["authorization_code", "refresh_token"]


UNSAFE = """
http://program.example/back https://program.example/#x https://program.example/* https://user@program.example/
javascript://localhost/%0aalert(1) data:text/html,x back https://program.example:port/ intent://program.example/ ms-msdt://x
"""


def test_unsafe_registrations_are_refused(settings):
    settings.OAUTH_REGISTRATIONS_PER_MINUTE = 1000
    for address in (*UNSAFE.split(), "https://a.example/a b", None):
        refused = register(redirect_uris=[address] if address else [])
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_redirect_uri"), address
    for wrong in (
        {"client_name": "<b>"},
        {"grant_types": ["client_credentials"]},
        {"token_endpoint_auth_method": "private_key_jwt"},
    ):
        refused = register(**wrong)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client_metadata"), wrong
    for body in ("", "[]", '"x"', "[" * 5000, json.dumps({"client_name": "x" * 20_000})):
        assert Client().post("/oauth/register", body, content_type="application/json").status_code == 400, body[:9]
    assert not Program.objects.exists()


def test_nobody_is_led_away_without_consent(bob_browses):
    about = {"client_id": register(redirect_uris=["https://evil.example/"]).json()["client_id"]}
    about["redirect_uri"] = "https://evil.example/"
    no_pkce = {"scope": "openid", "nonce": "n", "code_challenge": ""}
    for browser, more in ((Client(), {"prompt": "none"}), (bob_browses, {"scope": "unknown"}), (bob_browses, no_pkce)):
        answer = ask(browser, **about | more)
        assert (answer.status_code, "Location" in answer) == (400, False), more


def test_app_returns_by_its_own_scheme(bob_browses):
    address = "cursor://anysphere.cursor-mcp/oauth/callback"
    made = register(redirect_uris=[address]).json()
    page = ask(bob_browses, client_id=made["client_id"], redirect_uri=address)
    assert address.split(":")[0] + ":" in page["Content-Security-Policy"]
    assert allow(bob_browses, page, [READ])["Location"].startswith(f"{address}?code=")


def test_unused_registrations_make_room(settings, bob):
    settings.OAUTH_MOST_OPEN_CLIENTS = 2
    used, unused = (register().json()["client_id"] for _ in range(2))
    Token.objects.create(type="at", hash="x", client_id=used, user=bob)
    assert register().status_code == 503
    Program.objects.update(created_at=timezone.now() - timedelta(days=1))
    assert register().status_code == 201
    left = Program.objects.values_list("pk", flat=True)
    assert (used in left, unused in left) == (True, False)
    settings.OAUTH_REGISTRATIONS_PER_MINUTE = 1
    assert register().status_code == 429


def test_operators_can_switch_registration_off(settings, bob_browses, documents):
    settings.OAUTH_OPEN_REGISTRATION = False
    documents[DOCUMENT] = METADATA
    assert register().status_code == 404
    assert ask(bob_browses, **AT_DOCUMENT).status_code == 400
    assert documents["read"] == []
    told = Client().get("/.well-known/oauth-authorization-server").json()
    assert not {"registration_endpoint", "client_id_metadata_document_supported"} & told.keys()


def test_client_is_known_by_its_document(bob_browses, bob, ada, documents):
    documents[DOCUMENT] = METADATA
    other = Client()
    other.force_login(ada)
    pages = {}
    for browser, port in ((bob_browses, 5000), (other, 6000)):  # two people at once choose their ports
        about = {"client_id": DOCUMENT, "redirect_uri": f"http://localhost:{port}/callback"}
        pages[browser] = about, ask(browser, **about)
    for browser, user in ((bob_browses, bob), (other, ada)):
        about, page = pages[browser]
        assert DOCUMENT in page.content.decode()
        code = allow(browser, page, [READ])["Location"].split("code=")[1].split("&")[0]
        answer = post("/oauth/token", grant_type="authorization_code", code=code, code_verifier=VERIFIER, **about)
        assert who(answer.json()["access_token"]).user_id == user.pk
    assert documents["read"] == [DOCUMENT]
    assert bob_browses.get("/settings/programs").status_code == 200
    assert bob_browses.post(f"/settings/programs/{DOCUMENT}/end").status_code == 302
    assert not Token.objects.filter(user=bob).exists()


def test_unfit_document_makes_no_client(bob_browses, documents):
    for answer in (
        METADATA | {"client_id": "https://other.example/x"},
        METADATA | {"redirect_uris": ["https://elsewhere.example/"]},
        METADATA | {"token_endpoint_auth_method": "client_secret_post"},
        b"<html>",
        b"[]",
        Forbidden("a private address"),
    ):
        documents[DOCUMENT] = answer
        assert ask(bob_browses, **AT_DOCUMENT).status_code == 400, answer


def test_documents_are_read_at_safe_addresses_for_people(bob_browses, documents):
    documents[DOCUMENT] = METADATA
    paths = ["", "/", "/x?y", "/x#y", "/../x", f"/{'x' * 100}"]
    unsafe = [f"https://client.example{path}" for path in paths]
    for address in (*unsafe, "http://client.example/x", "https://a@client.example/x"):
        assert ask(bob_browses, client_id=address, redirect_uri=CALLBACK).status_code == 400
    assert ask(Client(), **AT_DOCUMENT)["Location"].startswith("/sign-in?next=")
    assert ask(Client(), prompt="none", **AT_DOCUMENT).status_code == 400
    assert documents["read"] == []


def test_document_is_read_again_after_an_hour(bob_browses, documents):
    def status_after(hours: float) -> int:
        read_at = int(timezone.now().timestamp() - hours * 3600)
        Program.objects.filter(pk=DOCUMENT).update(data={"registered_by": "cimd", "read_at": read_at})
        return ask(bob_browses, **AT_DOCUMENT).status_code

    documents[DOCUMENT] = METADATA
    assert status_after(0) == 200
    documents[DOCUMENT] = Forbidden("nobody answers")
    assert [status_after(hours) for hours in (0.5, 2, 30)] == [200, 200, 400]
    documents[DOCUMENT] = METADATA | {"redirect_uris": ["https://elsewhere.example/"]}
    assert status_after(2) == 400
