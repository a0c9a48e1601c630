"""Only the remote agent gets its credential, in its card's form; OAuth2 tokens are fetched once and renewed."""

import asyncio
import base64
import dataclasses
import datetime
import itertools
import json
import logging
import re
from contextlib import asynccontextmanager

import httpx
import pytest
from a2a.types import AgentCard
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from google.protobuf.json_format import ParseDict

from apps.accounts.secrets.encryption import keyring
from apps.engine.turns.output import Redaction
from apps.remote.authentication import credentials, oauth2
from apps.remote.authentication.security_schemes import card_requirements
from apps.remote.errors import CredentialMissing, TokenRefused, TokenUnavailable, WrongOrigin
from apps.remote.federation import known
from apps.remote.models import RemoteAgent, RemoteCredential
from parley import db, outbound
from parley import db as database
from tests.outbound.receiving import answer, server
from tests.remote.guarded import (
    Issuer,
    Request,
    api_key,
    approved,
    card,
    client,
    http,
    letting_in,
    oauth2_scheme,
    registered,
    verified,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("outward")]

SECRET = "canary-5f1d2a90"
KEY = {"key": SECRET}
URL = "https://vault.example.org/a2a"
IN_HEADER = api_key("header", "X-Key")
BASIC = "Basic " + base64.b64encode(f"Grüße:{SECRET} €".encode()).decode()


@pytest.fixture
def vault(db):
    return registered(card(URL, {"key": IN_HEADER}, {"key": []}))


async def save(agent, name, values, owner=None, **options):
    await database.run(lambda: credentials.save(agent, owner, name, values, None, **options))


async def sent(agent, owner=None, url=URL, **options):
    """A request as it is sent to the agent."""
    auth = await credentials.auth_for(agent, owner, **options)
    return await anext(auth.async_auth_flow(httpx.Request("POST", url)))


def signed_in(name, value):
    return lambda request: request.headers.get(name) == value


@pytest.mark.parametrize(
    ("scheme", "given", "is_known"),
    [
        (IN_HEADER, KEY, signed_in("x-key", SECRET)),
        (api_key("header", "Authorization"), {"key": f"Key {SECRET}"}, signed_in("authorization", f"Key {SECRET}")),
        (api_key("query", "a key"), {"key": "a&b= +ü"}, lambda request: request.query == {"a key": ["a&b= +ü"]}),
        (api_key("cookie", "session"), KEY, signed_in("cookie", f"session={SECRET}")),
        (http("bearer"), {"token": f" Bearer {SECRET}\n"}, signed_in("authorization", f"Bearer {SECRET}")),
        (http("basic"), {"username": "Grüße", "password": f"{SECRET} €"}, signed_in("authorization", BASIC)),
    ],
    ids=["header", "authorization", "query", "cookie", "bearer", "basic"],
)
async def test_each_kind_lets_parley_in(db, scheme, given, is_known):
    async with server(letting_in(is_known)) as at, client() as http:
        agent = await database.run(registered, card(at.url, {"one": scheme}, {"one": []}))
        assert (await http.post(at.url)).status_code == 401, "the server does look"
        await save(agent, "one", given)
        auth = await credentials.auth_for(agent, None)
        assert (await http.post(at.url, auth=auth)).status_code == 200


@pytest.mark.parametrize("schemes", [{"token": http("bearer")}, {}], ids=["credential", "nothing"])
async def test_requests_are_signed_by_a_switch(db, schemes):
    heard = []
    async with server(letting_in(lambda request: heard.append(request) or True)) as at, client() as http:
        agent = await database.run(registered, card(at.url, schemes, *[{name: []} for name in schemes]))
        for name in schemes:
            await save(agent, name, {"token": SECRET})

        async def call():
            await http.post(at.url, json={"hello": 1}, auth=await credentials.auth_for(agent, None))

        await call()
        await database.run(RemoteAgent(agent=agent, origin=at.url, signs_requests=True).save)
        known.forget()
        await call()
        await call()
    unsigned, *signed = heard
    assert "signature" not in unsigned.headers
    nonces = {re.search(r'nonce="([^"]+)"', request.headers["signature-input"])[1] for request in signed}
    assert len(nonces) == 2
    for request in signed:
        assert ("authorization" in request.headers["signature-input"]) is bool(schemes)
    if schemes:
        found = await database.run(verified, signed[0], at.url)
        assert 0 < found.parameters["expires"] - found.parameters["created"] <= 300


async def test_credentials_go_to_their_own_origin_alone(vault):
    await save(vault, "key", KEY)
    assert (await sent(vault, url=f"{URL}/deeper?a=b")).headers["x-key"] == SECRET
    for url in ("https://thief.example.org/a2a", URL.replace("https:", "http:"), URL.replace(".org", ".org:8443")):
        with pytest.raises(WrongOrigin) as refused:
            await sent(vault, url=url)
        assert SECRET not in str(refused.value)


async def test_credentials_do_not_follow_a_changed_card(vault):
    await save(vault, "key", KEY)
    moved = card("https://thief.example.org/a2a", {"key": IN_HEADER}, {"key": []})
    agent = await database.run(approved, vault, moved)
    with pytest.raises(CredentialMissing, match=r"given for https://vault.example.org:443, .* now at https://thief"):
        await credentials.auth_for(agent, None)
    await save(agent, "key", KEY)
    assert await credentials.auth_for(agent, None)
    other_kind = card("https://thief.example.org/a2a", {"key": http("bearer")}, {"key": []})
    agent = await database.run(approved, agent, other_kind)
    with pytest.raises(CredentialMissing, match="another kind"):
        await credentials.auth_for(agent, None)
    login = [card(URL, {"login": oauth2_scheme(f"https://{name}.example.org/token")}, {"login": []}) for name in "ab"]
    agent = await database.run(registered, login[0], "other")
    await save(agent, "login", {"client_id": "parley", "client_secret": SECRET})
    agent = await database.run(approved, agent, login[1])
    with pytest.raises(CredentialMissing, match=r"for the tokens of https://a.example.org:443"):
        await credentials.auth_for(agent, None)


async def test_expired_and_erased_credentials_are_missing(ada, vault):
    other = await database.run(registered, card(URL, {"key": IN_HEADER}, {"key": []}), "other")
    await save(other, "key", KEY)
    with pytest.raises(CredentialMissing):
        await credentials.auth_for(vault, ada.pk)
    await save(vault, "key", KEY, expires_at=timezone.now() - datetime.timedelta(seconds=1))
    with pytest.raises(CredentialMissing, match="expired"):
        await credentials.auth_for(vault, None)
    assert await database.run(credentials.erase, vault, None, "key", ada)
    assert not await database.run(credentials.erase, vault, None, "key", ada)
    with pytest.raises(CredentialMissing, match="wants a credential"):
        await credentials.auth_for(vault, None)


async def test_a_persons_own_goes_before_everybodys(ada, bob, vault):
    with pytest.raises(ValidationError, match="does not want"):
        await save(vault, "key", KEY, ada)
    await save(vault, "key", {"key": "of-everybody"})
    await database.run(credentials.set_personal, vault, "key", True, ada)
    await save(vault, "key", {"key": "of-ada"}, ada)

    async def key(owner, **options):
        return (await sent(vault, owner, **options)).headers["X-Key"]

    assert await key(ada.pk) == "of-ada"
    for owner in (bob.pk, None):
        with pytest.raises(CredentialMissing) as missing:
            await key(owner)
        assert missing.value.is_personal
    assert await key(None, checking=True) == "of-everybody"
    await database.run(credentials.set_personal, vault, "key", False, ada)
    assert [await key(owner) for owner in (ada.pk, bob.pk)] == ["of-ada", "of-everybody"]


# Keeping secrets


def test_what_is_no_credential_is_not_repeated(ada, vault):
    for scheme, given, field in (
        (IN_HEADER, {"key": f"{SECRET}\r\nX-Evil: 1"}, "key"),
        (IN_HEADER, {"key": f"{SECRET}ü"}, "key"),
        (api_key("cookie", "c"), {"key": f"{SECRET}; other=1"}, "key"),
        (http("basic"), {"username": f"a:{SECRET}", "password": "p"}, "username"),
        (oauth2_scheme("https://login.example.org/token"), {"client_id": "x"}, "client_secret"),
    ):
        agent = approved(vault, card(URL, {"one": scheme}, {"one": []}))
        with pytest.raises(ValidationError) as refused:
            credentials.save(agent, None, "one", given, ada)
        assert list(refused.value.message_dict) == [field]
        assert SECRET not in str(refused.value)
    assert not RemoteCredential.objects.exists()


def test_credentials_are_encrypted_under_the_master_key(ada, vault, settings):
    def stored():
        with connection.cursor() as cursor:
            cursor.execute("SELECT secret, token FROM remote_remotecredential")
            return str(cursor.fetchall())

    credentials.save(vault, None, "key", KEY, ada)
    old = stored()
    assert SECRET not in old
    settings.MASTER_KEY = f"{base64.urlsafe_b64encode(b'n' * 32).decode()},{settings.MASTER_KEY}"
    call_command("rotate_master_key")
    settings.MASTER_KEY = settings.MASTER_KEY.partition(",")[0]
    assert stored() != old
    assert keyring().current in stored()
    assert RemoteCredential.objects.get().values == KEY


async def test_no_log_error_or_repr_has_a_credential(ada, caplog):
    caplog.set_level(logging.DEBUG)
    schemes = {"key": api_key("query", "key"), "token": http("bearer")}
    async with server(answer(b"no", "401 Unauthorized")) as at, client() as http_client:
        agent = await database.run(registered, card(at.url, schemes, {"key": [], "token": []}))
        for name, values in (("key", KEY), ("token", {"token": SECRET})):
            await database.run(credentials.save, agent, None, name, values, ada)
        auth = await credentials.auth_for(agent, None)
        response = await http_client.post(at.url, auth=auth)
        with pytest.raises(httpx.HTTPStatusError) as refused:
            response.raise_for_status()
    row = await RemoteCredential.objects.afirst()
    await database.run(credentials.set_personal, agent, "key", True, ada)
    await database.run(credentials.erase, agent, None, "key", ada)
    told = [str(refused.value), repr(refused.value.request), repr(auth), repr(row), str(row), caplog.text]
    assert SECRET not in " ".join(told)
    assert "send_request_headers" in caplog.text, "libraries told all they tell"
    audit = [record.getMessage() for record in caplog.records if record.name == "parley.audit"]
    assert [f"by {ada.pk}" in line and "vault" in line for line in audit] == [True] * 4


async def test_what_an_agent_echoes_is_redacted(db):
    schemes = {"login": http("basic"), "key": IN_HEADER}
    agent = await database.run(registered, card(URL, schemes, {"login": [], "key": []}))
    await save(agent, "login", {"username": "ada", "password": SECRET})
    await save(agent, "key", {"key": "another-canary"})
    redaction = Redaction()
    await credentials.auth_for(agent, None, redact=redaction.keep_out)
    basic = base64.b64encode(f"ada:{SECRET}".encode()).decode()
    assert redaction(f"You sent {SECRET}, {basic} and another-canary.") == "You sent •••, ••• and •••."


# What a card asks for

TOKENS = "https://login.example.org/token"


def asked(schemes, *alternatives, url=URL, **more):
    return card_requirements(ParseDict(card(url, schemes, *alternatives, **more), AgentCard()))


def test_what_parley_cannot_do_is_said():
    for scheme, told in (
        ({"mtlsSecurityScheme": {}}, "client certificate"),
        (oauth2_scheme(TOKENS, flow="authorizationCode"), "client credentials only"),
        (oauth2_scheme("http://login.example.org/token"), "over http"),
        (api_key("body", "key"), "'body'"),
        ({}, "of a kind that Parley does not know"),
    ):
        [alternative] = asked({"one": scheme}, {"one": []}).alternatives
        assert told in alternative.problem
        assert alternative.schemes[0].kind is None, scheme
    [alternative] = asked({}, {"ghost": []}).alternatives
    assert "'ghost'" in alternative.problem
    schemes = {"token": http("bearer"), "login": http("basic"), "key": api_key("header", "AUTHORIZATION")}
    for pair in ({"token": [], "login": []}, {"token": [], "key": []}):
        assert "same place" in asked(schemes, pair).alternatives[0].problem
    many = [{"token": [str(n)]} for n in range(10_000)]
    assert len(asked(schemes, *many).alternatives) == 50


def test_a_skill_wants_its_own_besides():
    plain = {"name": "-", "description": "-", "tags": []}
    wants = [{"schemes": {"login": {"list": ["write"]}}}, {"schemes": {"key": {"list": []}}}]
    skills = [{"id": "read", **plain}, {"id": "write", **plain, "securityRequirements": wants}]
    schemes = {"login": oauth2_scheme(TOKENS), "key": api_key("header", "X-Key")}
    of_card = asked(schemes, {"login": ["read"]}, skills=skills)
    ways = {name: of_card.for_skill(name) for name in ("read", "write")}
    assert [[(one.name, one.scopes) for one in way.schemes] for way in ways["read"][0]] == [[("login", ("read",))]]
    assert [[(one.name, one.scopes) for one in way.schemes] for way in ways["write"][0]] == [
        [("login", ("read", "write"))],
        [("login", ("read",)), ("key", ())],
    ]
    assert not ways["write"][1]


GIVEN = {"client_id": "parley", "client_secret": "client-secret-1"}


@pytest.fixture
def guarded(ada):
    """An agent behind an issuer; returns what calls it, with a new signature each time."""

    slugs = itertools.count()

    async def set_up(agent_at, token_url, given=GIVEN, scopes=(), scheme=None):
        schemes = {"login": scheme or oauth2_scheme(token_url)}
        said = card(agent_at.url, schemes, {"login": list(scopes)})
        agent = await db.run(registered, said, f"vault-{next(slugs)}")
        await db.run(credentials.save, agent, None, "login", given, ada)

        async def call(auth=None, **options):
            signed = auth or await credentials.auth_for(agent, None, **options)
            async with client() as http:
                return (await http.post(agent_at.url, json={"hello": 1}, auth=signed)).status_code

        call.agent = agent
        return call

    return set_up


@asynccontextmanager
async def behind(guarded, issuer, *given, **options):
    async with server(issuer) as login, server(letting_in(issuer.use_loaded)) as at:
        yield await guarded(at, login.url, *given, **options), at


async def test_tokens_are_fetched_once_and_kept_encrypted(guarded):
    issuer, redaction = Issuer(), Redaction()
    async with behind(guarded, issuer, scopes=["read", "write"]) as (call, at):
        assert [await call(), await call(redact=redaction.keep_out)] == [200, 200]
    [asked] = issuer.asked
    assert asked.form == {"grant_type": "client_credentials", "scope": "read write"}
    assert b"client-secret-1" not in b"".join(at.requests)
    row = await RemoteCredential.objects.aget()
    assert json.loads(row.token)["access_token"] == issuer.issued[0]
    raw = await RemoteCredential.objects.extra(select={"raw": "token"}).values_list("raw").aget()
    assert issuer.issued[0] not in str(raw)
    assert datetime.timedelta(minutes=58) < row.token_until - timezone.now() < datetime.timedelta(hours=1)
    assert redaction(f"{issuer.issued[0]} client-secret-1") == "••• •••", "an agent may echo it"


async def test_tokens_are_renewed_shortly_before_their_end(guarded):
    issuer = Issuer()
    async with behind(guarded, issuer) as (call, _):
        await call()
        auth = await credentials.auth_for(call.agent, None)
        await RemoteCredential.objects.aupdate(token_until=timezone.now())
        assert await call() == 200
        assert len(issuer.issued) == 2
        assert await call(auth) == 200, "an older signature goes on with its own, which is still good"
    assert len(issuer.issued) == 2


async def test_refused_tokens_are_renewed_and_requests_signed_again(guarded):
    issuer = Issuer()
    async with behind(guarded, issuer) as (call, at):
        await call()
        await db.run(RemoteAgent(agent=call.agent, origin=at.url, signs_requests=True).save)
        known.forget()
        issuer.refused.add(issuer.issued[0])
        assert await call() == 200
        assert len(issuer.issued) == 2
        assert [request.endswith(b'{"hello":1}') for request in at.requests] == [True, True, True]
        old, new = [await db.run(verified, Request(one), at.url) for one in at.requests[1:]]
    assert [one.covered_components['"authorization"'] for one in (old, new)] == [f"Bearer {t}" for t in issuer.issued]
    assert old.nonce != new.nonce


@pytest.mark.services("those who want a token wait for one lock")
async def test_thirty_calls_at_once_fetch_one_token(guarded):
    issuer = Issuer()
    async with behind(guarded, issuer) as (call, _):
        assert set(await asyncio.gather(*(call() for _ in range(30)))) == {200}
        assert len(issuer.issued) == 1
        issuer.refused.add(issuer.issued[0])
        assert set(await asyncio.gather(*(call() for _ in range(30)))) == {200}
    assert len(issuer.issued) == 2


# Bad issuers


async def failing(guarded, answering, given=GIVEN):
    """How a call ends with this issuer; the agent gets no request."""
    async with server(answering) as login, server(letting_in(lambda request: True)) as at:
        call = await guarded(at, login.url, given)
        with pytest.raises((TokenRefused, TokenUnavailable)) as failed:
            await call()
        assert at.requests == []
    assert failed.value.was_sent is False
    assert "client-secret" not in str(failed.value)
    return failed.value


def saying(body, status="200 OK"):
    return answer(body if isinstance(body, bytes) else json.dumps(body).encode(), status)


@pytest.mark.parametrize(
    ("answering", "told"),
    [
        (saying(b"<html>"), "no access token"),
        (saying({"access_token": "a\r\nX-Evil: 1"}), "no access token"),
        (saying({"access_token": "t", "token_type": "mac"}), "not Bearer"),
        (saying(b"x" * 300_000), "larger than"),
        (b"", "cannot be reached"),
    ],
)
async def test_answers_without_a_token_are_told(guarded, answering, told):
    error = await failing(guarded, answering)
    assert told in str(error)
    assert isinstance(error, TokenUnavailable)
    assert error.is_transient


async def test_silent_and_inner_issuers_are_given_up(guarded, monkeypatch):
    monkeypatch.setattr(oauth2, "TOKEN_LIMITS", dataclasses.replace(oauth2.TOKEN_LIMITS, seconds=0.3))
    async with asyncio.timeout(20):
        assert "did not answer in time" in str(await failing(guarded, lambda *_: asyncio.sleep(60)))
    async with server(letting_in(lambda request: True)) as at, server(Issuer()) as inner:
        outbound.configure([f"127.0.0.1:{at.port}"])
        call = await guarded(at, inner.url)
        with pytest.raises(TokenUnavailable, match="OUTBOUND_ALLOW"):
            await call()
    assert inner.requests == []


async def test_odd_lifetimes_are_harmless(guarded):
    for said in (None, True, "soon", "NaN", float("inf"), -5, {}, 10**400):
        async with behind(guarded, Issuer(expires_in=said)) as (call, _):
            assert await call() == 200
        until = (await RemoteCredential.objects.aget(agent=call.agent)).token_until
        assert until <= timezone.now() + datetime.timedelta(days=1), said


async def test_refusals_use_issuers_words_without_the_secret(guarded):
    told = {"error": "invalid_scope", "error_description": "no\x1b[31m such scope, client-secret-1!\n" + "x" * 1000}
    error = await failing(guarded, saying(told, "400 Bad Request"))
    assert isinstance(error, TokenRefused)
    assert "invalid_scope: no[31m such scope, •••!" in str(error)
    assert len(str(error)) < 400


# OpenID Connect


def provider(issuer, document):
    async def answering(content, writer):
        if Request(content).path == "/.well-known/openid-configuration":
            writer.write(saying(document))
        else:
            await issuer(content, writer)

    return answering


@pytest.mark.parametrize("endpoint", ["own", "other", 7])
async def test_providers_say_where_tokens_are_on_their_server(guarded, endpoint):
    issuer, thief, document = Issuer(), Issuer(), {}
    async with (
        server(provider(issuer, document)) as own,
        server(thief) as other,
        server(letting_in(issuer.use_loaded)) as at,
    ):
        document["token_endpoint"] = {"own": f"{own.url}token", "other": f"{other.url}token"}.get(endpoint, endpoint)
        openid = {"openIdConnectSecurityScheme": {"openIdConnectUrl": own.url + ".well-known/openid-configuration"}}
        call = await guarded(at, "", scheme=openid)
        if endpoint == "own":
            assert await call() == 200
            assert [one.path for one in issuer.asked] == ["/token"]
            return
        with pytest.raises(TokenUnavailable):
            await call()
    assert issuer.asked == thief.asked == []
    assert at.requests == []


async def test_tokens_of_other_processes_are_used_until_erased(guarded, ada):
    issuer = Issuer()
    async with behind(guarded, issuer) as (call, _):
        early = [await credentials.auth_for(call.agent, None) for _ in range(2)]
        await call()
        assert await call(early[0]) == 200
        await db.run(credentials.erase, call.agent, None, "login", ada)
        with pytest.raises(CredentialMissing, match="taken back"):
            await call(early[1])
    assert len(issuer.issued) == 1


async def test_odd_secrets_arrive_by_header_or_body(guarded):
    odd = {"client_id": "a:b ü", "client_secret": "c%d+e €:"}
    for by_header, requests in ((True, 1), (False, 2)):
        issuer = Issuer(**odd)
        issuer.by_header = by_header
        async with behind(guarded, issuer, odd) as (call, _):
            assert await call() == 200
        assert len(issuer.asked) == requests
