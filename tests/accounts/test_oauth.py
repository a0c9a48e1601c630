"""Programs get access tokens by OAuth's three flows, and do what the tokens allow."""

import base64
import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
import pytest
from allauth.idp.oidc.models import Client as Program
from allauth.idp.oidc.models import Token
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import Client, RequestFactory
from django.utils import timezone

from apps.a2a.authentication import authenticate
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import User
from apps.accounts.people import links
from apps.accounts.principals import KEYS, READ, WRITE
from apps.accounts.requests import quotas
from apps.accounts.requests.authentication import BadCredentials, OpenStream, api_key_principal
from apps.agents.models import AgentNotFound
from parley import outbound
from parley.outbound import Answer, Forbidden, OutboundError
from tests.a2a.test_queries import counted
from tests.clients.calling import Caller

pytestmark = pytest.mark.django_db(transaction=True)

BACK = "https://program.example/back"
SECRET = "a secret of the program"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture(autouse=True)
def _a_minute_of_its_own(monkeypatch):
    for counter in ("oauth_counter", "oauth_failure_counter", "registration_counter"):
        monkeypatch.setattr(quotas, counter, quotas.RequestCounter(f"{counter}-of-a-test"))


@pytest.fixture
def program(ada):
    made = Program(id="program", name="The program", owner=ada, type="confidential", redirect_uris=BACK)
    made.set_scopes([READ, WRITE, "openid", "profile", "email", "agent:echo"])
    made.set_grant_types(["authorization_code", "client_credentials", "refresh_token"])
    made.set_secret(SECRET)
    made.save()
    return made


@pytest.fixture
def device(db):
    made = Program(id="device", name="The device", type="public")
    made.set_scopes([READ, WRITE])
    made.set_grant_types([DEVICE, "refresh_token"])
    made.save()
    return made


@pytest.fixture
def bob_browses(bob):
    browser = Client()
    browser.force_login(bob)
    return browser


def post(path, **asked):
    return Client().post(path, urlencode(asked), content_type="application/x-www-form-urlencoded")


def token(**asked):
    return post("/oauth/token", **{"client_id": "program", "client_secret": SECRET, **asked})


def by_itself(scope=READ):
    answer = token(grant_type="client_credentials", scope=scope)
    assert answer.status_code == 200, answer.content
    return answer.json()["access_token"]


def who(access_token):
    return api_key_principal(f"Bearer {access_token}")


def ask(browser, scope=f"{READ} {WRITE}", **more):
    asked = {"client_id": "program", "response_type": "code", "redirect_uri": BACK, "scope": scope, "state": "s"}
    return browser.get(
        "/oauth/authorize", {**asked, "code_challenge": CHALLENGE, "code_challenge_method": "S256"} | more
    )


def allow(browser, page, scopes, action="grant"):
    signed = re.search(r'name="request" value="([^"]+)"', page.content.decode())[1]
    return browser.post("/oauth/authorize", {"request": signed, "scopes": scopes, "action": action})


def code_of(answer):
    assert answer["Location"].startswith(BACK), answer.content
    return parse_qs(urlsplit(answer["Location"]).query)["code"][0]


def exchange(code, verifier=VERIFIER):
    return token(grant_type="authorization_code", code=code, redirect_uri=BACK, code_verifier=verifier)


def granted(browser):
    return exchange(code_of(allow(browser, ask(browser), [READ]))).json()


def renewed(refresh_token, **more):
    return token(grant_type="refresh_token", refresh_token=refresh_token, **more)


def test_client_credentials_act_for_the_clients_owner(program, ada):
    caller = who(by_itself(READ))
    assert (caller.user_id, caller.may(READ), caller.may(WRITE), caller.may(KEYS)) == (ada.pk, True, False, False)
    for wrong, refused in [
        ({"scope": KEYS}, (400, "invalid_scope")),
        ({"client_secret": "guess"}, (401, "invalid_client")),
        ({"resource": "https://elsewhere.example/"}, (400, "invalid_target")),
    ]:
        answer = token(**{"grant_type": "client_credentials", "scope": READ} | wrong)
        assert (answer.status_code, answer.json()["error"]) == refused, wrong


def test_person_allows_a_program_less_than_asked(program, bob_browses, bob):
    page = ask(bob_browses)
    assert "ada@example.org" in page.content.decode()  # whose program it is
    assert f"form-action 'self' {urlsplit(BACK).scheme}://{urlsplit(BACK).netloc}" in page["Content-Security-Policy"]
    answer = exchange(code_of(allow(bob_browses, page, [READ]))).json()
    caller = who(answer["access_token"])
    assert (caller.user_id, caller.scopes) == (bob.pk, {READ})
    for wrong, error in (({"scope": "keys:write"}, "scope"), ({"resource": "https://elsewhere.example/"}, "target")):
        assert renewed(answer["refresh_token"], **wrong).json()["error"] == f"invalid_{error}"
    assert who(renewed(answer["refresh_token"]).json()["access_token"]).scopes == {READ}


def test_second_use_of_refresh_token_ends_its_grant(program, bob_browses):
    stolen, other = granted(bob_browses), granted(bob_browses)
    first = renewed(stolen["refresh_token"]).json()
    second = renewed(first["refresh_token"]).json()
    assert renewed(stolen["refresh_token"]).json()["error"] == "invalid_grant"
    for ended in (stolen, first, second):
        assert renewed(ended["refresh_token"]).status_code == 400
        with pytest.raises(BadCredentials):
            who(ended["access_token"])
    assert who(other["access_token"]).is_known
    assert renewed(other["refresh_token"]).status_code == 200


@pytest.mark.services("of two uses at once, the database's locks let one through")
def test_simultaneous_uses_of_refresh_token_end_grant(program, bob_browses):
    first = granted(bob_browses)

    def renew(_):
        try:
            return renewed(first["refresh_token"])
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        answers = sorted(threads.map(renew, range(2)), key=lambda one: one.status_code)
    assert [one.status_code for one in answers] == [200, 400]
    with pytest.raises(BadCredentials):
        who(answers[0].json()["access_token"])


def test_redirect_address_matches_to_the_letter(program, bob_browses):
    Program.objects.update(redirect_uris=f"{BACK}\nhttp://127.0.0.1/app")
    hosts = ("PROGRAM.example", "program.example:443", "program.example@evil.example")
    addresses = [f"{BACK}{more}" for more in ("?redirect=https://evil.example", ";evil", "/", "#")]
    addresses += [f"https://{host}/back" for host in hosts] + ["http://localhost:9000/app", "https://evil.example/"]
    for address in (*addresses, "http://127.0.0.1:9000/other", "http://127.0.0.1:9000@evil.example/app", ""):
        for browser, prompt in ((bob_browses, ""), (bob_browses, "none"), (Client(), "none"), (Client(), "login none")):
            refused = ask(browser, redirect_uri=address, prompt=prompt)
            assert (refused.status_code, refused.headers.get("Location")) == (400, None), address
    own = "http://127.0.0.1:9000/app"  # an app on this machine chooses its port
    assert allow(bob_browses, ask(bob_browses, redirect_uri=own), [READ])["Location"].startswith(f"{own}?code=")


def test_signed_out_leads_only_to_registered_addresses(program, bob_browses):
    hint = exchange(code_of(allow(bob_browses, ask(bob_browses, "openid", nonce="n"), ["openid"]))).json()["id_token"]
    for address, leads in ((BACK, True), (f"{BACK}?next=https://evil.example", False), ("evil.app://x", False)):
        asked = {"client_id": "program", "id_token_hint": hint, "post_logout_redirect_uri": address}
        assert (Client().get("/oauth/logout", asked).headers.get("Location") == address) == leads


def test_program_learns_that_nobody_agreed(program, bob_browses):
    silent, refused = {"scope": "openid", "nonce": "n"}, allow(bob_browses, ask(bob_browses), [READ], "cancel")
    for answer, error in [
        (ask(Client(), prompt="none", **silent), "login_required"),
        (ask(Client(), prompt="login none", **silent), "login_required"),
        (ask(bob_browses, prompt="none", **silent), "consent_required"),
        (refused, "access_denied"),
    ]:
        told = parse_qs(urlsplit(answer["Location"]).query)
        assert answer["Location"].startswith(f"{BACK}?")
        assert (told["error"], told["state"]) == ([error], ["s"])
    assert ask(Client())["Location"].startswith("/sign-in?next=")
    checking = Client(enforce_csrf_checks=True)
    checking.cookies = bob_browses.cookies
    assert allow(checking, ask(bob_browses), [READ]).status_code == 403


def test_second_use_of_a_code_ends_its_tokens(program, bob_browses):
    code = code_of(allow(bob_browses, ask(bob_browses), [READ]))
    answer = exchange(code).json()
    assert who(answer["access_token"]).is_known
    assert exchange(code).status_code == 400
    assert renewed(answer["refresh_token"]).status_code == 400
    with pytest.raises(BadCredentials):
        who(answer["access_token"])


def test_code_needs_its_verifier(program, bob_browses):
    code = code_of(allow(bob_browses, ask(bob_browses), [READ]))
    assert exchange(code, "w" * 64).status_code == 400
    assert ask(bob_browses, code_challenge="").status_code == 400
    assert ask(bob_browses, code_challenge_method="plain")["Location"].startswith(f"{BACK}?error=")


def test_openid_says_who_it_is_and_whether_verified(program, bob_browses, bob):
    page = ask(bob_browses, "openid email profile", nonce="n")
    answer = exchange(code_of(allow(bob_browses, page, ["openid", "email", "profile"]))).json()
    keys = jwt.PyJWKSet.from_dict(Client().get("/oauth/jwks.json").json())
    issuer = Client().get("/.well-known/openid-configuration").json()["issuer"]
    claims = jwt.decode(answer["id_token"], keys.keys[0].key, ["RS256"], audience="program", issuer=issuer)
    told = [claims[name] for name in ("email", "email_verified", "name", "nonce")]
    assert told == [bob.email, False, "Bob", "n"]

    def info():
        said = Client().get("/oauth/userinfo", headers={"Authorization": f"Bearer {answer['access_token']}"}).json()
        return said["sub"], said["email"], said["email_verified"]

    assert info() == (claims["sub"], bob.email, False)
    assert who(answer["access_token"]).scopes == frozenset()
    links.change_address(bob, "robert@example.org")
    assert info()[1:] == ("robert@example.org", True)
    User.objects.filter(pk=bob.pk).update(email="bob@elsewhere.example")  # by an operator
    assert info()[1:] == ("bob@elsewhere.example", False)


def test_device_gets_token_once_its_person_confirmed(device, bob_browses, bob, settings):
    settings.IDP_OIDC_DEVICE_CODE_INTERVAL = 0
    begun = post("/oauth/device/code", client_id="device", scope=f"{READ} {WRITE}").json()
    asked = {"grant_type": DEVICE, "device_code": begun["device_code"], "client_id": "device"}
    assert post("/oauth/token", **asked).json()["error"] == "authorization_pending"
    page = f"/oauth/device?code={begun['user_code']}"
    assert "The device" in bob_browses.get(page).content.decode()
    checking = Client(enforce_csrf_checks=True)
    checking.cookies = bob_browses.cookies
    assert checking.post(page, {"action": "confirm"}).status_code == 403  # another site's form
    assert bob_browses.post(page, {"action": "confirm"}).status_code == 200
    answer = post("/oauth/token", **asked)
    assert answer.status_code == 200, answer.content
    caller = who(answer.json()["access_token"])
    assert (caller.user_id, caller.scopes) == (bob.pk, {READ, WRITE})
    assert post("/oauth/token", **asked).status_code == 400


def test_token_for_an_agent_finds_no_other(program, echo, countdown):
    access_token = by_itself(f"{READ} agent:echo")
    assert authenticate(f"Bearer {access_token}", "echo", RequestFactory().get("/"))[1] == echo
    with pytest.raises(AgentNotFound):
        authenticate(f"Bearer {access_token}", "countdown", RequestFactory().get("/"))
    listed = async_to_sync(Caller(access_token).get)("/agents").body["items"]
    assert [one["slug"] for one in listed] == ["echo"]
    assert counted(authenticate, f"Bearer {access_token}", "echo", OpenStream()) == 1
    assert counted(who, access_token) == 1


def test_an_ended_token_is_refused_everywhere(program, ada):
    revoked = {"client_id": "program", "client_secret": SECRET}
    for end in (
        lambda given: Client().post("/oauth/revoke", revoked | {"token": given}),
        lambda _: Token.objects.update(expires_at=timezone.now()),
        lambda _: User.objects.filter(pk=ada.pk).update(is_active=False),
        lambda _: Program.objects.all().delete(),
    ):
        User.objects.filter(pk=ada.pk).update(is_active=True)
        access_token = by_itself()
        assert who(access_token).is_known
        end(access_token)
        with pytest.raises(BadCredentials):
            who(access_token)
        with pytest.raises(BadCredentials):
            authenticate(f"Bearer {access_token}", "echo", OpenStream())
        answer = async_to_sync(Caller(access_token).get)("/agents")
        assert (answer.status, 'error="invalid_token"' in answer.headers["www-authenticate"]) == (401, True)


def test_requests_and_failures_are_counted(program, settings):
    settings.OAUTH_FAILURES_PER_MINUTE = 2
    for client in ("program", "unknown", "\0"):
        wrong = {"grant_type": "client_credentials", "client_id": client, "client_secret": "guess"}
        assert [token(**wrong).status_code for _ in range(3)] == [401, 401, 429]
        assert post("/oauth/revoke", client_id=client, client_secret="guess", token="x").status_code == 429
    by_header = {"Authorization": "Basic " + base64.b64encode(b"program:guess").decode()}
    assert Client().post("/oauth/token", headers=by_header).status_code == 429
    form = urlencode({"grant_type": "client_credentials", "client_id": "program", "client_secret": SECRET})
    settings.OAUTH_REQUESTS_PER_MINUTE = 1
    elsewhere = Client(REMOTE_ADDR="192.0.2.1")
    answers = [elsewhere.post("/oauth/token", form, "application/x-www-form-urlencoded") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert (answers[1].json()["error"], int(answers[1]["Retry-After"]) > 0) == ("temporarily_unavailable", True)


def test_metadata_lead_from_a_resource_to_its_tokens(program, settings):
    base, resource = settings.PUBLIC_BASE_URL, "/.well-known/oauth-protected-resource"
    for path in ("", "/a2a", "/a2a/echo", "/api/v1", "/v1", "/mcp", "/langgraph", "/agui/echo"):
        told = Client().get(resource + path).json()
        assert (told["resource"], told["authorization_servers"]) == (base + path, [base])
    assert "agent:echo" in Client().get(f"{resource}/a2a/echo").json()["scopes_supported"]
    assert Client().get(f"{resource}/elsewhere").status_code == 404
    server = Client().get("/.well-known/oauth-authorization-server", headers={"Host": "localhost"}).json()
    assert (server["issuer"], server["code_challenge_methods_supported"]) == (base, ["S256"])
    urls = [value for name, value in server.items() if name.endswith(("_endpoint", "_uri"))]
    assert all(url.startswith(f"{base}/oauth/") for url in urls), urls
    access_token = by_itself()
    settings.OAUTH_ENABLED = False
    for path in ("/.well-known/openid-configuration", resource, "/oauth/authorize"):
        assert Client().get(path).status_code == 404
    assert token(grant_type="client_credentials").status_code == 404
    with pytest.raises(BadCredentials):
        who(access_token)


PAGE = "/settings/programs"
NEW = {"name": "A service", "kind": "service", "redirect_uris": "", "scopes": [READ]}


def test_only_safe_programs_are_registered(ada_browser, ada, echo):
    new = NEW | {"current_password": "correct horse"}
    for wrong in (
        {"current_password": "guess"},
        {"scopes": ["keys:write"]},
        {"kind": "site"},
        {"kind": "app", "redirect_uris": "http://program.example/back"},
        {"kind": "app", "redirect_uris": "javascript://localhost/%0aalert(1)"},
    ):
        assert ada_browser.post(PAGE, new | wrong).status_code == 422, wrong
    shown = ada_browser.post(PAGE, new).text
    made = Program.objects.get()
    secret = re.search(r'id="client-secret">([^<]+)<', shown)[1]
    assert secret not in ada_browser.get(PAGE).text
    asked = {"client_id": made.pk, "client_secret": secret, "scope": f"{READ} agent:echo"}
    access_token = post("/oauth/token", grant_type="client_credentials", **asked).json()["access_token"]
    caller = who(access_token)
    assert (caller.user_id, caller.scopes, caller.agents) == (ada.pk, {READ}, {"echo"})
    ada_browser.post(f"{PAGE}/{made.pk}/delete")
    with pytest.raises(BadCredentials):
        who(access_token)
    actions = AuditEntry.objects.filter(group="program").order_by("pk").values_list("action", flat=True)
    assert list(actions) == [AuditAction.PROGRAM_CREATED, AuditAction.PROGRAM_DELETED]


def test_who_allowed_a_program_ends_it(program, bob_browses, bob):
    access_token = granted(bob_browses)["access_token"]
    assert "The program" in bob_browses.get(PAGE).content.decode()
    assert bob_browses.post(f"{PAGE}/{program.pk}/end").status_code == 302
    with pytest.raises(BadCredentials):
        who(access_token)
    assert not Token.objects.filter(user=bob).exists()
    actions = AuditEntry.objects.filter(group="program").order_by("pk").values_list("action", "object_key")
    assert list(actions) == [(AuditAction.PROGRAM_ALLOWED, "program"), (AuditAction.PROGRAM_ENDED, "program")]


# Programs register themselves, or describe themselves at an address, and act for people who allow it.


CALLBACK = "http://127.0.0.1:3334/oauth/callback"
PUBLIC = {"client_name": "A client", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
DOCUMENT = "https://client.example/oauth/metadata.json"
METADATA = {**PUBLIC, "client_id": DOCUMENT, "redirect_uris": ["http://localhost/callback"]}


AT_DOCUMENT = {"client_id": DOCUMENT, "redirect_uri": "http://localhost:1/callback"}


def register(**said):
    return Client().post("/oauth/register", json.dumps(PUBLIC | said), content_type="application/json")


@pytest.fixture
def documents(monkeypatch):
    """What addresses answer: a body, or an error. It lists what was read."""
    served = {"read": []}

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
    def status_after(hours):
        read_at = int(timezone.now().timestamp() - hours * 3600)
        Program.objects.filter(pk=DOCUMENT).update(data={"registered_by": "cimd", "read_at": read_at})
        return ask(bob_browses, **AT_DOCUMENT).status_code

    documents[DOCUMENT] = METADATA
    assert status_after(0) == 200
    documents[DOCUMENT] = Forbidden("nobody answers")
    assert [status_after(hours) for hours in (0.5, 2, 30)] == [200, 200, 400]
    documents[DOCUMENT] = METADATA | {"redirect_uris": ["https://elsewhere.example/"]}
    assert status_after(2) == 400
