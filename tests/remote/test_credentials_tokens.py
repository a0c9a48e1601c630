"""OAuth2 tokens are fetched once, cached, renewed, and sent only to their agent."""

import asyncio
import datetime
import itertools
import json
from contextlib import asynccontextmanager

import pytest
from django.utils import timezone

import db
import outbound
from apps.engine.output import Redaction
from apps.remote.authentication import credentials, oauth2
from apps.remote.errors import CredentialMissing, TokenRefused, TokenUnavailable
from apps.remote.federation import known
from apps.remote.models import RemoteAgent, RemoteCredential
from outbound import Limits
from tests.outbound.receiving import answer, server
from tests.remote.guarded import (
    Issuer,
    Request,
    approved,
    card,
    client,
    letting_in,
    oauth2_scheme,
    open_id,
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


async def test_a_token_is_fetched_once_and_kept_encrypted(guarded):
    issuer = Issuer()
    async with behind(guarded, issuer, scopes=["read", "write"]) as (call, at):
        assert [await call(), await call()] == [200, 200]
    [asked] = issuer.asked
    assert asked.form == {"grant_type": "client_credentials", "scope": "read write"}
    assert b"client-secret-1" not in b"".join(at.requests)
    row = await RemoteCredential.objects.aget()
    assert json.loads(row.token)["access_token"] == issuer.issued[0]
    raw = await RemoteCredential.objects.extra(select={"raw": "token"}).values_list("raw").aget()
    assert issuer.issued[0] not in str(raw)
    assert (
        timezone.now() + datetime.timedelta(minutes=58) < row.token_until < timezone.now() + datetime.timedelta(hours=1)
    )


async def test_one_is_renewed_shortly_before_its_end(guarded):
    issuer = Issuer()
    async with behind(guarded, issuer) as (call, _):
        await call()
        auth = await credentials.auth_for(call.agent, None)
        await RemoteCredential.objects.aupdate(token_until=timezone.now())
        assert await call() == 200
        assert len(issuer.issued) == 2
        assert await call(auth) == 200, "an older signature goes on with its own, which is still good"
    assert len(issuer.issued) == 2


async def test_one_that_the_agent_refuses_is_renewed_once(guarded):
    issuer = Issuer()
    async with behind(guarded, issuer) as (call, at):
        await call()
        issuer.refused.add(issuer.issued[0])
        assert await call() == 200
        assert len(issuer.issued) == 2
        assert len(at.requests) == 3
        assert at.requests[1].endswith(b'{"hello":1}')
        assert at.requests[2].endswith(b'{"hello":1}')


async def test_with_a_renewed_token_the_request_is_signed_again(guarded):
    issuer = Issuer()
    async with behind(guarded, issuer) as (call, at):
        await call()
        await db.run(RemoteAgent(agent=call.agent, origin=at.url, signs_requests=True).save)
        known.forget()
        issuer.refused.add(issuer.issued[0])
        assert await call() == 200
        old, new = [await db.run(verified, Request(one), at.url) for one in at.requests[1:]]
    assert [one.covered_components['"authorization"'] for one in (old, new)] == [f"Bearer {t}" for t in issuer.issued]
    assert old.nonce != new.nonce


async def test_an_agent_that_refuses_every_token_is_asked_no_third_time(guarded):
    issuer = Issuer()
    async with server(issuer) as login, server(letting_in(lambda request: False)) as at:
        call = await guarded(at, login.url)
        assert await call() == 401
        assert (len(issuer.issued), len(at.requests)) == (1, 1), "a token that is new is not renewed"
        assert await call() == 401
        assert (len(issuer.issued), len(at.requests)) == (2, 3)


@pytest.mark.services("those who want a token wait for one lock")
async def test_thirty_that_begin_at_once_fetch_one(guarded):
    issuer = Issuer()
    async with behind(guarded, issuer) as (call, _):
        assert set(await asyncio.gather(*(call() for _ in range(30)))) == {200}
        assert len(issuer.issued) == 1
        issuer.refused.add(issuer.issued[0])
        assert set(await asyncio.gather(*(call() for _ in range(30)))) == {200}
    assert len(issuer.issued) == 2


async def test_what_another_process_fetched_is_used(guarded):
    issuer = Issuer()
    async with behind(guarded, issuer) as (call, _):
        early = await credentials.auth_for(call.agent, None)
        await call()
        assert await call(early) == 200
    assert len(issuer.issued) == 1


async def test_a_client_that_was_taken_back_gets_no_further_token(guarded, ada):
    issuer = Issuer()
    async with behind(guarded, issuer) as (call, _):
        auth = await credentials.auth_for(call.agent, None)
        await db.run(credentials.erase, call.agent, None, "login", ada)
        with pytest.raises(CredentialMissing, match="taken back"):
            await call(auth)
    assert issuer.asked == []


async def test_an_issuer_may_take_the_secret_in_the_body_alone_and_odd_letters_of_it_arrive(guarded):
    odd = {"client_id": "a:b ü", "client_secret": "c%d+e €:"}
    issuer = Issuer(odd["client_id"], odd["client_secret"])
    async with behind(guarded, issuer, odd) as (call, _):
        assert await call() == 200
    other = Issuer(odd["client_id"], odd["client_secret"])
    other.by_header = False
    async with behind(guarded, other, odd) as (call, _):
        assert await call() == 200
    assert (len(issuer.asked), len(other.asked)) == (1, 2)


async def test_other_scopes_want_another_token(guarded, ada):
    issuer = Issuer()
    async with server(issuer) as login, server(letting_in(issuer.use_loaded)) as at:
        call = await guarded(at, login.url, scopes=["read"])
        await call()
        wider = card(at.url, {"login": oauth2_scheme(login.url)}, {"login": ["read", "write"]})
        agent = await db.run(approved, call.agent, wider)
        auth = await credentials.auth_for(agent, None)
        assert await call(auth) == 200
    assert [one.form["scope"] for one in issuer.asked] == ["read", "read write"]


async def test_a_token_that_an_agent_echoes_is_kept_out_of_what_is_said(guarded):
    issuer, redaction = Issuer(), Redaction()
    async with behind(guarded, issuer) as (call, _):
        await call(redact=redaction.keep_out)
    assert redaction(f"{issuer.issued[0]} client-secret-1") == "••• •••"


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
        (saying(b"[" * 100_000), "no access token"),
        (saying([]), "no access token"),
        (saying({"access_token": 7}), "no access token"),
        (saying({"access_token": "a\r\nX-Evil: 1"}), "no access token"),
        (saying({"access_token": "x" * 20_000}), "no access token"),
        (saying({"access_token": "t", "token_type": "mac"}), "not Bearer"),
        (saying(b"x" * 300_000), "larger than"),
        (saying(b"", "500 Oops"), "status 500"),
        (b"", "cannot be reached"),
    ],
)
async def test_an_answer_that_is_none_is_told(guarded, answering, told):
    error = await failing(guarded, answering)
    assert told in str(error)
    assert isinstance(error, TokenUnavailable)
    assert error.is_transient


async def test_a_refusal_is_told_in_the_issuers_words_without_the_secret(guarded):
    told = {"error": "invalid_scope", "error_description": "no\x1b[31m such scope, client-secret-1!\n" + "x" * 1000}
    error = await failing(guarded, saying(told, "400 Bad Request"))
    assert isinstance(error, TokenRefused)
    assert "invalid_scope: no[31m such scope, •••!" in str(error)
    assert len(str(error)) < 400
    error = await failing(guarded, Issuer(), {"client_id": "parley", "client_secret": "wrong"})
    assert isinstance(error, TokenRefused)
    assert "invalid_client" in str(error)


async def test_an_issuer_that_redirects_gets_the_secret_nowhere_else(guarded):
    async with server(answer()) as thief:
        error = await failing(guarded, answer(b"", "307 Temporary Redirect", f"Location: {thief.url}"))
    assert "redirect" in str(error)
    assert thief.requests == []


async def test_one_that_hangs_or_drips_is_given_up(guarded, monkeypatch):
    monkeypatch.setattr(oauth2, "TOKEN_LIMITS", Limits(seconds=0.3, bytes=1000))

    async def hangs(request, writer):
        await asyncio.sleep(60)

    async def drips(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    for answering in (hangs, drips):
        assert "did not answer in time" in str(await failing(guarded, answering))


async def test_an_address_inside_is_not_called(guarded, ada):
    async with server(letting_in(lambda request: True)) as at:
        outbound.configure([f"127.0.0.1:{at.port}"])
        call = await guarded(at, "http://127.0.0.1:1/token")
        with pytest.raises(TokenUnavailable, match="OUTBOUND_ALLOW"):
            await call()


async def test_a_lifetime_that_makes_no_sense_harms_nobody(guarded):
    for said in (None, True, "soon", "NaN", float("inf"), -5, {}, 10**400):
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


async def test_a_provider_says_where_tokens_are_fetched(guarded):
    issuer, document = Issuer(), {}
    async with server(provider(issuer, document)) as login, server(letting_in(issuer.use_loaded)) as at:
        document["token_endpoint"] = login.url + "token"
        scheme = open_id(login.url + ".well-known/openid-configuration")
        assert await (await guarded(at, "", scheme=scheme))() == 200
    assert [one.path for one in issuer.asked] == ["/token"]


@pytest.mark.parametrize("endpoint", ["elsewhere", "//elsewhere/token", 7, None])
async def test_a_provider_that_points_elsewhere_gets_no_secret_there(guarded, endpoint):
    issuer, thief, document = Issuer(), Issuer(), {"token_endpoint": endpoint}
    async with server(provider(issuer, document)) as login, server(thief) as other, server(answer()) as at:
        if endpoint == "elsewhere":
            document["token_endpoint"] = other.url + "token"
        scheme = open_id(login.url + ".well-known/openid-configuration")
        call = await guarded(at, "", scheme=scheme)
        with pytest.raises(TokenUnavailable):
            await call()
    assert issuer.asked == thief.asked == []
    assert at.requests == []
