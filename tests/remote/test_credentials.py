"""Only the remote agent gets its credential, in its card's form."""

import base64
import datetime
import logging
import re

import httpx
import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

import db as database
from apps.accounts import encryption
from apps.accounts.encryption import CannotDecrypt, keyring
from apps.engine.output import Redaction
from apps.remote.authentication import credentials
from apps.remote.errors import CredentialMissing, Unauthorized, WrongOrigin
from apps.remote.federation import known
from apps.remote.models import RemoteAgent, RemoteCredential
from tests.outbound.receiving import answer, server
from tests.remote.guarded import api_key, approved, card, client, http, letting_in, oauth2_scheme, registered, verified

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("outward")]

SECRET = "canary-5f1d2a90"
KEY = {"key": SECRET}
URL = "https://vault.example.org/a2a"


@pytest.fixture
def vault(db):
    return registered(card(URL, {"key": api_key("header", "X-Key")}, {"key": []}))


@pytest.fixture
def at_server(ada):
    """Registers an agent with these schemes, one of which is required, and stores the credentials."""

    async def register(at, schemes, *alternatives, **given):
        agent = await database.run(registered, card(at.url, schemes, *alternatives))
        for name, values in given.items():
            await database.run(credentials.save, agent, None, name, values, ada)
        return agent

    return register


IN_HEADER = {"key": api_key("header", "X-Key")}


async def called(agent, url, owner=None, **options):
    auth = await credentials.auth_for(agent, owner and owner.pk, **options)
    async with client() as http:
        return await http.post(url, json={"hello": 1}, auth=auth)


def signed_in(name, value):
    return lambda request: request.headers.get(name) == value


BASIC = "Basic " + base64.b64encode(f"Grüße:{SECRET} €".encode()).decode()


@pytest.mark.parametrize(
    ("scheme", "given", "is_known"),
    [
        (api_key("header", "X-Key"), KEY, signed_in("x-key", SECRET)),
        (api_key("header", "Authorization"), {"key": f"Key {SECRET}"}, signed_in("authorization", f"Key {SECRET}")),
        (api_key("query", "a key"), {"key": "a&b= +ü"}, lambda request: request.query == {"a key": ["a&b= +ü"]}),
        (api_key("cookie", "session"), KEY, signed_in("cookie", f"session={SECRET}")),
        (http("bearer"), {"token": f" Bearer {SECRET}\n"}, signed_in("authorization", f"Bearer {SECRET}")),
        (http("basic"), {"username": "Grüße", "password": f"{SECRET} €"}, signed_in("authorization", BASIC)),
    ],
    ids=["header", "authorization", "query", "cookie", "bearer", "basic"],
)
async def test_each_kind_lets_parley_in(ada, scheme, given, is_known):
    async with server(letting_in(is_known)) as at:
        agent = await database.run(registered, card(at.url, {"one": scheme}, {"one": []}))
        async with client() as http:
            assert (await http.post(at.url)).status_code == 401, "the server does look"
        await database.run(credentials.save, agent, None, "one", given, ada)
        assert (await called(agent, at.url)).status_code == 200


async def test_requests_are_signed_by_a_switch_and_cover_the_credential(at_server):
    heard = []
    async with server(letting_in(lambda request: heard.append(request) or True)) as at:
        agent = await at_server(at, {"token": http("bearer")}, {"token": []}, token={"token": SECRET})
        await called(agent, at.url)
        assert "signature" not in heard[0].headers
        remote = RemoteAgent(agent=agent, origin=at.url, signs_requests=True)
        await database.run(remote.save)
        known.forget()
        await called(agent, at.url)
    [_, signed] = heard
    found = await database.run(verified, signed, at.url)
    assert found.nonce
    assert 0 < found.parameters["expires"] - found.parameters["created"] <= 300


async def test_an_agent_that_asks_for_nothing_gets_signed_requests_each_with_its_own_nonce(at_server):
    heard = []
    async with server(letting_in(lambda request: heard.append(request) or True)) as at:
        agent = await at_server(at, {})
        await database.run(RemoteAgent(agent=agent, origin=at.url, signs_requests=True).save)
        known.forget()
        for _ in range(2):
            assert (await called(agent, at.url)).status_code == 200
    nonces = {re.search(r'nonce="([^"]+)"', request.headers["signature-input"])[1] for request in heard}
    assert len(nonces) == 2
    assert not any("authorization" in request.headers["signature-input"] for request in heard)


async def test_what_is_needed_together_is_sent_together(ada, at_server):
    both = {"key": api_key("query", "key"), "token": http("bearer"), "other": api_key("cookie", "c")}
    known = lambda request: request.query == {"key": ["k-1"]} and "authorization" in request.headers  # noqa: E731
    async with server(letting_in(known)) as at:
        agent = await at_server(at, both, {"key": [], "token": []}, key={"key": "k-1"})
        with pytest.raises(CredentialMissing, match="a credential, token"):
            await called(agent, at.url)
        await database.run(credentials.save, agent, None, "token", {"token": "t-1"}, ada)
        await database.run(credentials.save, agent, None, "other", {"key": "not-asked-for"}, ada)
        assert (await called(agent, at.url)).status_code == 200
    assert b"not-asked-for" not in at.requests[0]


async def test_of_alternatives_the_first_that_was_given_is_taken(ada, at_server):
    either = {"token": http("bearer"), "key": api_key("header", "X-Key")}
    async with server(letting_in(lambda request: True)) as at:
        agent = await at_server(at, either, {"token": []}, {"key": []}, key=KEY)
        await called(agent, at.url)
        await database.run(credentials.save, agent, None, "token", {"token": "t-1"}, ada)
        await called(agent, at.url)
    carried = [(b"X-Key" in request, b"Bearer t-1" in request) for request in at.requests]
    assert carried == [(True, False), (False, True)]


async def test_it_goes_to_its_own_origin_alone_and_along_no_redirect(at_server):
    async with server(answer()) as other:
        location = f"Location: {other.url}"
        async with server(letting_in(lambda request: True)) as own, server(answer(b"", "307 No", location)) as leading:
            agent = await at_server(own, IN_HEADER, {"key": []}, key=KEY)
            for url in (other.url, own.url.replace("http:", "https:"), own.url.replace("127.0.0.1", "localhost")):
                with pytest.raises(WrongOrigin) as refused:
                    await called(agent, url)
                assert SECRET not in str(refused.value)
            assert (await called(agent, own.url + "deeper?a=b")).status_code == 200
            agent = await database.run(approved, agent, card(leading.url, IN_HEADER, {"key": []}))
            await database.run(credentials.save, agent, None, "key", KEY, None)
            auth = await credentials.auth_for(agent, None)
            async with client(follow_redirects=True) as careless:
                with pytest.raises(httpx.TransportError, match="redirect"):
                    await careless.post(leading.url, auth=auth)
    assert SECRET.encode() in leading.requests[0]
    assert other.requests == []


async def test_a_card_that_moved_gets_nothing_until_it_is_given_again(ada, vault):
    await database.run(credentials.save, vault, None, "key", KEY, ada)
    moved = card("https://thief.example.org/a2a", {"key": api_key("header", "X-Key")}, {"key": []})
    agent = await database.run(approved, vault, moved)
    with pytest.raises(CredentialMissing, match=r"given for https://vault.example.org:443, .* now at https://thief"):
        await credentials.auth_for(agent, None)
    await database.run(credentials.save, agent, None, "key", KEY, ada)
    assert await credentials.auth_for(agent, None)


async def test_a_card_that_asks_for_another_kind_gets_nothing(ada, vault):
    await database.run(credentials.save, vault, None, "key", KEY, ada)
    agent = await database.run(approved, vault, card(URL, {"key": http("bearer")}, {"key": []}))
    with pytest.raises(CredentialMissing, match="another kind"):
        await credentials.auth_for(agent, None)


async def test_a_card_that_has_tokens_fetched_elsewhere_gets_no_secret(ada):
    schemes = {"login": oauth2_scheme("https://login.example.org/token")}
    agent = await database.run(registered, card(URL, schemes, {"login": []}))
    given = {"client_id": "parley", "client_secret": SECRET}
    await database.run(credentials.save, agent, None, "login", given, ada)
    schemes = {"login": oauth2_scheme("https://thief.example.org/token")}
    agent = await database.run(approved, agent, card(URL, schemes, {"login": []}))
    with pytest.raises(CredentialMissing, match=r"for the tokens of https://login.example.org:443"):
        await credentials.auth_for(agent, None)


async def test_one_that_has_expired_or_was_erased_or_cannot_be_given_is_not_used(ada, vault):
    past = timezone.now() - datetime.timedelta(seconds=1)
    await database.run(lambda: credentials.save(vault, None, "key", KEY, ada, expires_at=past))
    with pytest.raises(CredentialMissing, match="expired"):
        await credentials.auth_for(vault, None)
    assert await database.run(credentials.erase, vault, None, "key", ada)
    assert not await database.run(credentials.erase, vault, None, "key", ada)
    assert not await RemoteCredential.objects.aexists()
    with pytest.raises(CredentialMissing, match="wants a credential"):
        await credentials.auth_for(vault, None)
    agent = await database.run(approved, vault, card(URL, {"tls": {"mtlsSecurityScheme": {}}}, {"tls": []}))
    with pytest.raises(CredentialMissing, match="client certificate"):
        await credentials.auth_for(agent, None)
    with pytest.raises(ValidationError, match="client certificate"):
        await database.run(credentials.save, agent, None, "tls", KEY, ada)


async def test_a_persons_own_goes_before_that_of_everybody(ada, bob, vault):
    with pytest.raises(ValidationError, match="does not want"):
        await database.run(credentials.save, vault, ada, "key", KEY, ada)
    await database.run(credentials.save, vault, None, "key", {"key": "of-everybody"}, ada)
    await database.run(credentials.set_personal, vault, "key", True, ada)
    await database.run(credentials.save, vault, ada, "key", {"key": "of-ada"}, ada)
    assert await sent(vault, ada.pk) == "of-ada"
    for owner in (bob.pk, None):
        with pytest.raises(CredentialMissing) as missing:
            await credentials.auth_for(vault, owner)
        assert missing.value.is_personal
    assert await sent(vault, None, checking=True) == "of-everybody"
    await database.run(credentials.set_personal, vault, "key", False, ada)
    assert [await sent(vault, owner) for owner in (ada.pk, bob.pk)] == ["of-ada", "of-everybody"]


async def sent(agent, owner, **options):
    auth = await credentials.auth_for(agent, owner, **options)
    return (await anext(auth.async_auth_flow(httpx.Request("POST", URL)))).headers["X-Key"]


async def test_one_of_another_agent_is_never_taken(ada, vault):
    other = await database.run(registered, card(URL, {"key": api_key("header", "X-Key")}, {"key": []}), "other")
    await database.run(credentials.save, other, None, "key", KEY, ada)
    with pytest.raises(CredentialMissing):
        await credentials.auth_for(vault, ada.pk)


# Keeping secrets


def test_what_is_no_credential_is_refused_by_field_and_not_repeated(ada, vault):
    for scheme, given, field in (
        (api_key("header", "X-Key"), {}, "key"),
        (api_key("header", "X-Key"), {"key": f"{SECRET}\r\nX-Evil: 1"}, "key"),
        (api_key("header", "X-Key"), {"key": f"{SECRET}ü"}, "key"),
        (api_key("header", "X-Key"), {"key": SECRET * 1000}, "key"),
        (api_key("cookie", "c"), {"key": f"{SECRET}; other=1"}, "key"),
        (http("bearer"), {"token": f"{SECRET} two"}, "token"),
        (http("basic"), {"username": f"a:{SECRET}", "password": "p"}, "username"),
        (http("basic"), {"username": "ada"}, "password"),
        (oauth2_scheme("https://login.example.org/token"), {"client_id": "x"}, "client_secret"),
    ):
        agent = approved(vault, card(URL, {"one": scheme}, {"one": []}))
        with pytest.raises(ValidationError) as refused:
            credentials.save(agent, None, "one", given, ada)
        assert list(refused.value.message_dict) == [field]
        assert SECRET not in str(refused.value)
    assert not RemoteCredential.objects.exists()


def test_the_database_has_it_encrypted_and_goes_along_with_a_new_master_key(ada, vault, settings):
    credentials.save(vault, None, "key", KEY, ada)
    old = stored()
    assert SECRET not in str(old)
    settings.MASTER_KEY = f"{base64.urlsafe_b64encode(b'n' * 32).decode()},{settings.MASTER_KEY}"
    call_command("rotate_master_key")
    settings.MASTER_KEY = settings.MASTER_KEY.partition(",")[0]
    assert stored() != old
    assert keyring().current in str(stored())
    assert RemoteCredential.objects.get().values == KEY


def stored():
    with connection.cursor() as cursor:
        cursor.execute("SELECT secret, token FROM remote_remotecredential")
        return cursor.fetchall()


async def test_one_that_cannot_be_decrypted_is_told_without_a_word_of_it_and_can_be_given_again(ada, vault, settings):
    await database.run(credentials.save, vault, None, "key", KEY, ada)
    settings.MASTER_KEY = base64.urlsafe_b64encode(b"n" * 32).decode()
    encryption._read_once.cache_clear()
    with pytest.raises(Unauthorized, match="cannot be decrypted"):
        await credentials.auth_for(vault, None)
    with pytest.raises(CannotDecrypt):
        await RemoteCredential.objects.aget()
    await database.run(credentials.set_personal, vault, "key", True, ada)
    await database.run(credentials.save, vault, None, "key", {"key": "new"}, ada)
    assert (await RemoteCredential.objects.aget()).values == {"key": "new"}


async def test_neither_the_log_nor_an_error_nor_a_repr_tells_it(at_server, caplog):
    caplog.set_level(logging.DEBUG)
    schemes = {"key": api_key("query", "key"), "token": http("bearer")}
    async with server(answer(b"no", "401 Unauthorized")) as at:
        agent = await at_server(at, schemes, {"key": [], "token": []}, key=KEY, token={"token": SECRET})
        auth = await credentials.auth_for(agent, None)
        async with client() as http_client:
            response = await http_client.post(at.url, auth=auth)
        with pytest.raises(httpx.HTTPStatusError) as refused:
            response.raise_for_status()
    row = await RemoteCredential.objects.afirst()
    told = [str(refused.value), repr(refused.value.request), repr(auth), repr(row), str(row)]
    assert SECRET not in " ".join(told)
    assert "remote credential set" in caplog.text
    assert "send_request_headers" in caplog.text, "libraries told all they tell"
    assert SECRET not in caplog.text


async def test_what_an_agent_echoes_is_without_it(ada):
    schemes = {"login": http("basic"), "key": api_key("header", "X-Key")}
    agent = await database.run(registered, card(URL, schemes, {"login": [], "key": []}))
    given = {"username": "ada", "password": SECRET}
    await database.run(credentials.save, agent, None, "login", given, ada)
    await database.run(credentials.save, agent, None, "key", {"key": "another-canary"}, ada)
    redaction = Redaction()
    await credentials.auth_for(agent, None, redact=redaction.keep_out)
    basic = base64.b64encode(f"ada:{SECRET}".encode()).decode()
    assert redaction(f"You sent {SECRET}, {basic} and another-canary.") == "You sent •••, ••• and •••."


def test_who_gives_and_erases_is_in_the_audit(ada, vault, caplog):
    caplog.set_level(logging.INFO, "parley.audit")
    credentials.save(vault, None, "key", KEY, ada)
    credentials.set_personal(vault, "key", True, ada)
    credentials.erase(vault, None, "key", ada)
    lines = [record.getMessage() for record in caplog.records]
    assert [f"by {ada.pk}" in line and "vault" in line for line in lines] == [True, True, True]
    assert "canary" not in " ".join(lines)
