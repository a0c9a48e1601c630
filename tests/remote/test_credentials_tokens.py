"""OAuth2 tokens are fetched once, cached, renewed, and sent only to their agent."""

import asyncio
import datetime
import itertools
import json
from contextlib import asynccontextmanager

import pytest
from django.utils import timezone

from apps.engine.output import Redaction
from apps.remote.authentication import credentials, oauth2
from apps.remote.errors import TokenRefused, TokenUnavailable
from apps.remote.federation import known
from apps.remote.models import RemoteAgent, RemoteCredential
from parley import db, outbound
from parley.outbound import Limits
from tests.outbound.receiving import answer, server
from tests.remote.guarded import (
    Issuer,
    Request,
    card,
    client,
    letting_in,
    oauth2_scheme,
    registered,
    verified,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("outward")]

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


async def test_agents_that_refuse_all_get_two_requests(guarded):
    issuer = Issuer()
    async with server(issuer) as login, server(letting_in(lambda request: False)) as at:
        call = await guarded(at, login.url)
        assert await call() == 401
        assert (len(issuer.issued), len(at.requests)) == (1, 1), "a token that is new is not renewed"
        assert await call() == 401
        assert (len(issuer.issued), len(at.requests)) == (2, 3)


@pytest.mark.services("those who want a token wait for one lock")
async def test_thirty_calls_at_once_fetch_one_token(guarded):
    issuer = Issuer()
    async with behind(guarded, issuer) as (call, _):
        assert set(await asyncio.gather(*(call() for _ in range(30)))) == {200}
        assert len(issuer.issued) == 1
        issuer.refused.add(issuer.issued[0])
        assert set(await asyncio.gather(*(call() for _ in range(30)))) == {200}
    assert len(issuer.issued) == 2


async def test_odd_secrets_arrive_by_header_or_body(guarded):
    odd = {"client_id": "a:b ü", "client_secret": "c%d+e €:"}
    for by_header, requests in ((True, 1), (False, 2)):
        issuer = Issuer(**odd)
        issuer.by_header = by_header
        async with behind(guarded, issuer, odd) as (call, _):
            assert (await call(), len(issuer.asked)) == (200, requests)


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


async def test_refusals_use_issuers_words_without_the_secret(guarded):
    told = {"error": "invalid_scope", "error_description": "no\x1b[31m such scope, client-secret-1!\n" + "x" * 1000}
    error = await failing(guarded, saying(told, "400 Bad Request"))
    assert isinstance(error, TokenRefused)
    assert "invalid_scope: no[31m such scope, •••!" in str(error)
    assert len(str(error)) < 400


async def test_silent_and_inner_issuers_are_given_up(guarded, monkeypatch):
    monkeypatch.setattr(oauth2, "TOKEN_LIMITS", Limits(seconds=0.3, bytes=1000))
    assert "did not answer in time" in str(await failing(guarded, lambda *_: asyncio.sleep(60)))
    async with server(letting_in(lambda request: True)) as at:
        outbound.configure([f"127.0.0.1:{at.port}"])
        call = await guarded(at, "http://127.0.0.1:1/token")
        with pytest.raises(TokenUnavailable, match="OUTBOUND_ALLOW"):
            await call()


async def test_odd_lifetimes_are_harmless(guarded):
    for said in (None, "NaN", -5, 10**400):
        async with behind(guarded, Issuer(expires_in=said)) as (call, _):
            assert await call() == 200
        until = (await RemoteCredential.objects.aget(agent=call.agent)).token_until
        assert until < timezone.now() + datetime.timedelta(days=1)


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
