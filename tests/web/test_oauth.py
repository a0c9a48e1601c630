"""Programs get access tokens by OAuth's three flows, and do what the tokens allow."""

import base64
import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from allauth.idp.oidc.models import Client as Program
from allauth.idp.oidc.models import Token
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import Client, RequestFactory
from django.utils import timezone

from apps.a2a.authentication import authenticate
from apps.accounts import quotas
from apps.accounts.authentication import BadCredentials, OpenStream, api_key_principal
from apps.accounts.models import User
from apps.accounts.people import links
from apps.accounts.principals import KEYS, READ, WRITE
from apps.agents.models import AgentNotFound
from tests.a2a.test_queries import counted
from tests.api.calling import Caller

pytestmark = pytest.mark.django_db(transaction=True)

BACK = "https://program.example/back"
SECRET = "a secret of the program"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture(autouse=True)
def _a_minute_of_its_own(monkeypatch):
    for counter in ("oauth_counter", "oauth_failure_counter"):
        monkeypatch.setattr(quotas, counter, quotas.RequestCounter(f"{counter}-of-a-test"))


@pytest.fixture
def program(ada: User) -> Program:
    made = Program(id="program", name="The program", owner=ada, type="confidential", redirect_uris=BACK)
    made.set_scopes([READ, WRITE, "openid", "profile", "email", "agent:echo"])
    made.set_grant_types(["authorization_code", "client_credentials", "refresh_token"])
    made.set_secret(SECRET)
    made.save()
    return made


@pytest.fixture
def device(db) -> Program:
    made = Program(id="device", name="The device", type="public")
    made.set_scopes([READ, WRITE])
    made.set_grant_types([DEVICE, "refresh_token"])
    made.save()
    return made


@pytest.fixture
def bob_browses(bob: User) -> Client:
    browser = Client()
    browser.force_login(bob)
    return browser


def post(path: str, **asked: str):
    return Client().post(path, urlencode(asked), content_type="application/x-www-form-urlencoded")


def token(**asked: str):
    return post("/oauth/token", **{"client_id": "program", "client_secret": SECRET, **asked})


def by_itself(scope: str = READ, **more: str) -> str:
    answer = token(grant_type="client_credentials", scope=scope, **more)
    assert answer.status_code == 200, answer.content
    return answer.json()["access_token"]


def who(access_token: str):
    return api_key_principal(f"Bearer {access_token}")


def ask(browser: Client, scope: str = f"{READ} {WRITE}", **more: str):
    asked = {"client_id": "program", "response_type": "code", "redirect_uri": BACK, "scope": scope, "state": "s"}
    return browser.get(
        "/oauth/authorize", {**asked, "code_challenge": CHALLENGE, "code_challenge_method": "S256"} | more
    )


def allow(browser: Client, page, scopes: list[str], action: str = "grant"):
    signed = re.search(r'name="request" value="([^"]+)"', page.content.decode())[1]
    return browser.post("/oauth/authorize", {"request": signed, "scopes": scopes, "action": action})


def code_of(answer) -> str:
    assert answer["Location"].startswith(BACK), answer.content
    return parse_qs(urlsplit(answer["Location"]).query)["code"][0]


def exchange(code: str, verifier: str = VERIFIER):
    return token(grant_type="authorization_code", code=code, redirect_uri=BACK, code_verifier=verifier)


def test_client_credentials_act_for_the_clients_owner_within_their_scopes(program, ada):
    caller = who(by_itself(READ))
    assert (caller.user_id, caller.may(READ), caller.may(WRITE), caller.may(KEYS)) == (ada.pk, True, False, False)
    assert token(grant_type="client_credentials", scope=KEYS).json()["error"] == "invalid_scope"
    assert token(grant_type="client_credentials", scope=READ, client_secret="guess").status_code == 401


def test_a_person_allows_a_program_what_it_asks_for_or_less(program, bob_browses, bob):
    page = ask(bob_browses)
    assert "ada@example.org" in page.content.decode()  # whose program it is
    assert f"form-action 'self' {urlsplit(BACK).scheme}://{urlsplit(BACK).netloc}" in page["Content-Security-Policy"]
    code = code_of(allow(bob_browses, page, [READ]))
    answer = exchange(code).json()
    caller = who(answer["access_token"])
    assert (caller.user_id, caller.scopes) == (bob.pk, {READ})
    renewed = token(grant_type="refresh_token", refresh_token=answer["refresh_token"]).json()
    assert who(renewed["access_token"]).scopes == {READ}


def test_second_use_of_refresh_token_ends_its_grant(program, bob_browses):
    def granted() -> dict:
        return exchange(code_of(allow(bob_browses, ask(bob_browses), [READ]))).json()

    def renewed(refresh_token: str):
        return token(grant_type="refresh_token", refresh_token=refresh_token)

    stolen, other = granted(), granted()
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
    first = exchange(code_of(allow(bob_browses, ask(bob_browses), [READ]))).json()

    def renew(_: int):
        try:
            return token(grant_type="refresh_token", refresh_token=first["refresh_token"])
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        answers = sorted(threads.map(renew, range(2)), key=lambda one: one.status_code)
    assert [one.status_code for one in answers] == [200, 400]
    with pytest.raises(BadCredentials):
        who(answers[0].json()["access_token"])


def test_refused_request_leaves_refresh_token_usable(program, bob_browses):
    answer = exchange(code_of(allow(bob_browses, ask(bob_browses), [READ]))).json()
    asked = {"grant_type": "refresh_token", "refresh_token": answer["refresh_token"]}
    assert token(**asked, scope="keys:write").json()["error"] == "invalid_scope"
    assert token(**asked, resource="https://elsewhere.example/").json()["error"] == "invalid_target"
    assert token(**asked).status_code == 200


@pytest.mark.parametrize(
    "address",
    [
        f"{BACK}?redirect=https://evil.example",
        f"{BACK};evil",
        f"{BACK}/",
        f"{BACK}#",
        "https://PROGRAM.example/back",
        "https://program.example:443/back",
        "https://program.example@evil.example/back",
        "http://127.0.0.1:9000/other",
        "http://127.0.0.1:9000@evil.example/app",
        "http://localhost:9000/app",
        "",
    ],
)
def test_redirect_address_matches_to_the_letter(program, bob_browses, address):
    Program.objects.update(redirect_uris=f"{BACK}\nhttp://127.0.0.1/app")
    for prompt in ("", "none"):
        refused = ask(bob_browses, redirect_uri=address, prompt=prompt)
        assert (refused.status_code, refused.headers.get("Location")) == (400, None)


def test_app_on_this_machine_chooses_its_port(program, bob_browses):
    Program.objects.update(redirect_uris="http://127.0.0.1:1/app\nhttp://[::1]/app")
    for address in ("http://127.0.0.1:9000/app", "http://[::1]:9000/app"):
        page = ask(bob_browses, redirect_uri=address)
        assert allow(bob_browses, page, [READ])["Location"].startswith(f"{address}?code=")


def test_signed_out_leads_only_to_registered_addresses(program, bob, bob_browses):
    hint = exchange(code_of(allow(bob_browses, ask(bob_browses, "openid", nonce="n"), ["openid"]))).json()["id_token"]
    for address, leads in ((BACK, True), (f"{BACK}?next=https://evil.example", False), ("evil.app://x", False)):
        asked = {"client_id": "program", "id_token_hint": hint, "post_logout_redirect_uri": address}
        answer = Client().get("/oauth/logout", asked)
        assert (answer.headers.get("Location") == address) == leads


@pytest.mark.parametrize("prompt", ["none", "login none"])
def test_program_learns_that_nobody_is_signed_in(program, prompt):
    answer = ask(Client(), "openid", nonce="n", prompt=prompt)
    assert answer.status_code == 302
    assert parse_qs(urlsplit(answer["Location"]).query) | {"error_description": []} == {
        "error": ["login_required"], "state": ["s"], "error_description": [],
    }  # fmt: skip
    assert answer["Location"].startswith(f"{BACK}?")
    assert ask(Client(), prompt=prompt, redirect_uri="https://evil.example/").status_code == 400


def test_program_without_consent_learns_so(program, bob_browses):
    assert "error=consent_required" in ask(bob_browses, "openid", nonce="n", prompt="none")["Location"]


def test_a_code_counts_once_and_a_second_use_ends_its_tokens(program, bob_browses):
    code = code_of(allow(bob_browses, ask(bob_browses), [READ]))
    answer = exchange(code).json()
    assert who(answer["access_token"]).is_known
    assert exchange(code).status_code == 400
    assert token(grant_type="refresh_token", refresh_token=answer["refresh_token"]).status_code == 400
    with pytest.raises(BadCredentials):
        who(answer["access_token"])


def test_a_code_is_of_no_use_without_its_verifier_and_none_is_given_without_pkce(program, bob_browses):
    code = code_of(allow(bob_browses, ask(bob_browses), [READ]))
    assert exchange(code, "w" * 64).status_code == 400
    assert ask(bob_browses, code_challenge="").status_code == 400
    assert ask(bob_browses, code_challenge_method="plain")["Location"].startswith(f"{BACK}?error=")
    assert 'name="request"' not in ask(bob_browses, redirect_uri="https://evil.example/").content.decode()


def test_who_refuses_or_is_not_signed_in_gives_no_code(program, bob_browses):
    refused = allow(bob_browses, ask(bob_browses), [READ], "cancel")
    assert "error=access_denied" in refused["Location"]
    assert ask(Client())["Location"].startswith("/sign-in?next=")
    checking = Client(enforce_csrf_checks=True)
    checking.cookies = bob_browses.cookies
    assert allow(checking, ask(bob_browses), [READ]).status_code == 403


def test_openid_says_who_it_is_by_a_token_that_the_key_set_verifies(program, bob_browses, bob):
    import jwt

    page = ask(bob_browses, "openid email profile", nonce="n")
    answer = exchange(code_of(allow(bob_browses, page, ["openid", "email", "profile"]))).json()
    browser = Client()
    keys = jwt.PyJWKSet.from_dict(browser.get("/oauth/jwks.json").json())
    configuration = browser.get("/.well-known/openid-configuration").json()
    claims = jwt.decode(
        answer["id_token"], keys.keys[0].key, ["RS256"], audience="program", issuer=configuration["issuer"]
    )
    assert (claims["email"], claims["email_verified"], claims["name"], claims["nonce"]) == (
        bob.email,
        False,
        "Bob",
        "n",
    )
    told = browser.get("/oauth/userinfo", headers={"Authorization": f"Bearer {answer['access_token']}"}).json()
    assert (told["email"], told["email_verified"], told["sub"]) == (bob.email, False, claims["sub"])
    assert who(answer["access_token"]).scopes == frozenset()


def test_openid_says_that_an_address_is_verified_once_its_person_confirmed_it(program, bob_browses, bob):
    links.change_address(bob, "robert@example.org")
    page = ask(bob_browses, "openid email", nonce="n")
    answer = exchange(code_of(allow(bob_browses, page, ["openid", "email"]))).json()

    def told() -> tuple[str, bool]:
        said = Client().get("/oauth/userinfo", headers={"Authorization": f"Bearer {answer['access_token']}"}).json()
        return said["email"], said["email_verified"]

    assert told() == ("robert@example.org", True)
    User.objects.filter(pk=bob.pk).update(email="bob@elsewhere.example")  # by an operator
    assert told() == ("bob@elsewhere.example", False)


def test_a_device_gets_a_token_once_its_person_has_confirmed_the_code(device, bob_browses, bob, settings):
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


def test_a_resource_of_somebody_else_gets_no_token(program):
    asked = {"grant_type": "client_credentials", "scope": READ, "resource": "https://elsewhere.example/"}
    refused = token(**asked)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_target")


def test_checking_a_token_is_one_query_with_and_without_the_agent(program, echo):
    access_token = by_itself()
    assert counted(authenticate, f"Bearer {access_token}", "echo", OpenStream()) == 1
    assert counted(who, access_token) == 1


def test_an_ended_token_is_refused_everywhere(program, ada):
    def ended(end) -> None:
        access_token = by_itself()
        assert who(access_token).is_known
        end(access_token)
        with pytest.raises(BadCredentials):
            who(access_token)
        with pytest.raises(BadCredentials):
            authenticate(f"Bearer {access_token}", "echo", OpenStream())
        answer = async_to_sync(Caller(access_token).get)("/agents")
        assert (answer.status, 'error="invalid_token"' in answer.headers["www-authenticate"]) == (401, True)

    asked = {"client_id": "program", "client_secret": SECRET}
    ended(lambda access_token: Client().post("/oauth/revoke", {**asked, "token": access_token}))
    ended(lambda _: Token.objects.update(expires_at=timezone.now()))
    ended(lambda _: User.objects.filter(pk=ada.pk).update(is_active=False))
    User.objects.filter(pk=ada.pk).update(is_active=True)
    ended(lambda _: Program.objects.all().delete())


def test_requests_for_tokens_are_counted_by_address(program, settings):
    settings.OAUTH_REQUESTS_PER_MINUTE = 1
    by_itself()
    refused = token(grant_type="client_credentials", scope=READ)
    assert (refused.status_code, refused.json()["error"]) == (429, "temporarily_unavailable")
    assert int(refused["Retry-After"]) > 0


def test_failures_are_counted_by_client_and_address(program, settings):
    settings.OAUTH_FAILURES_PER_MINUTE = 2
    for client in ("program", "unknown", "\0"):
        wrong = {"grant_type": "client_credentials", "client_id": client, "client_secret": "guess"}
        assert [token(**wrong).status_code for _ in range(3)] == [401, 401, 429]
        refused = post("/oauth/revoke", client_id=client, client_secret="guess", token="x")
        assert (refused.status_code, int(refused["Retry-After"]) > 0) == (429, True)
    by_header = {"Authorization": "Basic " + base64.b64encode(b"program:guess").decode()}
    assert Client().post("/oauth/token", headers=by_header).status_code == 429
    form = urlencode({"grant_type": "client_credentials", "client_id": "program", "client_secret": SECRET})
    elsewhere = Client(REMOTE_ADDR="192.0.2.1").post("/oauth/token", form, "application/x-www-form-urlencoded")
    assert elsewhere.status_code == 200


def test_metadata_lead_from_a_resource_to_its_tokens(settings):
    base = settings.PUBLIC_BASE_URL
    for path in ("", "/a2a", "/a2a/echo", "/api/v1", "/v1", "/mcp", "/agui/echo"):
        told = Client().get(f"/.well-known/oauth-protected-resource{path}").json()
        assert (told["resource"], told["authorization_servers"]) == (base + path, [base])
    assert "agent:echo" in Client().get("/.well-known/oauth-protected-resource/a2a/echo").json()["scopes_supported"]
    assert Client().get("/.well-known/oauth-protected-resource/elsewhere").status_code == 404
    server = Client().get("/.well-known/oauth-authorization-server", headers={"Host": "localhost"}).json()
    assert server["issuer"] == base
    assert server["code_challenge_methods_supported"] == ["S256"]
    urls = [value for name, value in server.items() if name.endswith(("_endpoint", "_uri"))]
    assert all(url.startswith(f"{base}/oauth/") for url in urls), json.dumps(server)


def test_where_oauth_is_off_there_is_nothing_of_it(program, settings):
    access_token = by_itself()
    settings.OAUTH_ENABLED = False
    for path in ("/.well-known/openid-configuration", "/.well-known/oauth-protected-resource", "/oauth/authorize"):
        assert Client().get(path).status_code == 404
    assert token(grant_type="client_credentials").status_code == 404
    with pytest.raises(BadCredentials):
        who(access_token)
