"""Who an agent is and what it says of itself can be verified by anybody, with tools that are not ours."""

import json
import urllib.parse

import httpx
import jwt
import pytest
from a2a.client import A2ACardResolver
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from django.contrib.auth.models import Group

import bridge
from apps.agents.identity import did_of
from apps.agents.models import Agent
from apps.agents.signing_keys import forget, rotate, signer_of

pytestmark = pytest.mark.django_db(transaction=True)


async def fetched(caller, path, **headers):
    response = await caller.client.get(path, headers=caller.headers(headers))
    return response, json.loads(response.content or b"null")


def resolved(did: str) -> str:
    """The URL of a did:web's document, by the rules of the method, over HTTP for the tests."""
    host, *path = did.removeprefix("did:web:").split(":")
    address = "http://" + urllib.parse.unquote(host)
    return address + ("/" + "/".join(path) if path else "/.well-known") + "/did.json"


def key_provider(kid: str | None, jku: str | None):
    [key] = [key for key in httpx.get(jku).json()["keys"] if key["kid"] == kid]
    return jwt.PyJWK(key)


async def test_the_sdk_verifies_our_cards_over_a_real_server(server):
    verify = create_signature_verifier(key_provider, ["EdDSA", "ES256"])
    async with httpx.AsyncClient() as http:
        for algorithm in ("EdDSA", "ES256"):
            server.manage("rotate_signing_key", "countdown", "--algorithm", algorithm)
            for slug in ("hello", "echo", "countdown", "report"):
                card = await A2ACardResolver(http, f"{server.url}/a2a/{slug}").get_agent_card()
                verify(card)
                card.capabilities.streaming = not card.capabilities.streaming
                with pytest.raises(InvalidSignaturesError):
                    verify(card)


async def test_the_sdk_verifies_the_platforms_own_card(server):
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, server.url).get_agent_card()
        [key] = (await http.get(f"{server.url}/.well-known/did.json")).json()["verificationMethod"]
    create_signature_verifier(key_provider, ["EdDSA"])(card)
    assert jwt.get_unverified_header(f"{card.signatures[0].protected}..")["kid"] == key["publicKeyJwk"]["kid"]


async def test_an_agents_document_is_where_its_identifier_leads(anybody_at, echo):
    signer = await bridge.run(signer_of, echo)
    response, document = await fetched(anybody_at("echo"), "/a2a/echo/did.json")
    assert response["Content-Type"] == "application/did+json"
    assert document["id"] == "did:web:127.0.0.1%3A8000:a2a:echo"
    assert resolved(document["id"]) == "http://127.0.0.1:8000/a2a/echo/did.json"
    [method] = document["verificationMethod"]
    assert method["id"] == f"{document['id']}#{signer.kid}"
    assert method["controller"] == document["id"]
    assert method["type"] == "JsonWebKey2020"
    assert method["publicKeyJwk"]["crv"] == "Ed25519"
    assert "d" not in method["publicKeyJwk"]
    assert document["assertionMethod"] == [method["id"]]
    assert document["service"] == [
        {"id": f"{document['id']}#a2a", "type": "A2A", "serviceEndpoint": "http://127.0.0.1:8000/a2a/echo"}
    ]


async def test_who_never_signed_anything_is_given_a_key_when_asked_who_it_is(anybody_at, echo):
    for path in ("/a2a/echo/did.json", "/.well-known/did.json"):
        documents = [(await fetched(anybody_at("echo"), path))[1] for _ in range(2)]
        assert len(documents[0]["verificationMethod"]) == 1
        assert documents[0] == documents[1]


async def test_the_platform_has_an_identity_of_its_own(anybody_at, echo):
    for owner in (None, echo):
        await bridge.run(rotate, owner)
    _, document = await fetched(anybody_at("echo"), "/.well-known/did.json")
    assert document["id"] == "did:web:127.0.0.1%3A8000"
    assert resolved(document["id"]) == "http://127.0.0.1:8000/.well-known/did.json"
    assert len(document["verificationMethod"]) == 1


@pytest.mark.parametrize(
    ("base", "did"),
    [
        ("https://Parley.Example.org", "did:web:parley.example.org:a2a:echo"),
        ("https://example.org:8443/parley", "did:web:example.org%3A8443:parley:a2a:echo"),
    ],
)
def test_an_identifier_spells_ports_and_paths_as_the_method_does(echo, settings, base, did):
    settings.PUBLIC_BASE_URL = base
    assert did_of(echo) == did


async def test_keys_are_published_for_caches(anybody_at, echo):
    await bridge.run(signer_of, echo)
    response, keys = await fetched(anybody_at("echo"), "/.well-known/jwks.json")
    assert response["Content-Type"] == "application/jwk-set+json"
    assert response["Cache-Control"] == "public, max-age=300"
    assert len(keys["keys"]) == 1
    again, _ = await fetched(anybody_at("echo"), "/.well-known/jwks.json", **{"If-None-Match": response["ETag"]})
    assert again.status_code == 304
    await bridge.run(rotate, echo)
    changed, keys = await fetched(anybody_at("echo"), "/.well-known/jwks.json", **{"If-None-Match": response["ETag"]})
    assert changed.status_code == 200
    assert len(keys["keys"]) == 2


async def test_the_identity_of_an_agent_for_a_group_is_for_its_members(ada, ada_at, bob_at, anybody_at, echo):
    group = await Group.objects.acreate(name="club")
    await ada.groups.aadd(group)
    await echo.groups.aadd(group)
    echo.access = Agent.Access.GROUPS
    await echo.asave()
    assert (await fetched(anybody_at("echo"), "/a2a/echo/did.json"))[0].status_code == 401
    assert (await fetched(bob_at("echo"), "/a2a/echo/did.json"))[0].status_code == 404
    response, _ = await fetched(ada_at("echo"), "/a2a/echo/did.json")
    assert response.status_code == 200
    assert response["Cache-Control"].startswith("private")


async def test_nobody_has_no_identity_and_identities_are_only_read(anybody_at, echo):
    response, body = await fetched(anybody_at("echo"), "/a2a/nobody/did.json")
    assert (response.status_code, body["error"]["status"]) == (404, "NOT_FOUND")
    for path in ("/a2a/echo/did.json", "/.well-known/did.json", "/.well-known/jwks.json"):
        assert (await anybody_at("echo").client.post(path)).status_code == 405


async def test_a_card_that_was_signed_anew_is_sent_again(anybody_at, echo):
    path = "/a2a/echo/.well-known/agent-card.json"
    first, card = await fetched(anybody_at("echo"), path)
    again, _ = await fetched(anybody_at("echo"), path, **{"If-None-Match": first["ETag"]})
    assert again.status_code == 304
    await bridge.run(rotate, echo)
    anew, signed_anew = await fetched(anybody_at("echo"), path, **{"If-None-Match": first["ETag"]})
    assert anew.status_code == 200
    assert signed_anew.pop("signatures") != card.pop("signatures")
    assert signed_anew == card


async def test_an_agent_that_is_switched_off_can_still_be_verified(anybody_at, echo):
    signer = await bridge.run(signer_of, echo)
    echo.is_enabled = False
    await echo.asave()
    response, document = await fetched(anybody_at("echo"), "/a2a/echo/did.json")
    assert response.status_code == 200
    assert document["assertionMethod"] == [f"{document['id']}#{signer.kid}"]
    assert document["service"] == []
    assert (await fetched(anybody_at("echo"), "/a2a/echo/.well-known/agent-card.json"))[0].status_code == 404


async def test_a_key_that_cannot_be_read_is_said_to_be_so_until_another_is_made(anybody_at, echo, settings):
    path = "/a2a/echo/.well-known/agent-card.json"
    await bridge.run(signer_of, echo)
    forget()
    settings.MASTER_KEY = "A" * 43
    response, body = await fetched(anybody_at("echo"), path)
    assert (response.status_code, body["error"]["status"]) == (503, "UNAVAILABLE")
    assert "MASTER_KEY" not in str(body)
    await bridge.run(rotate, echo)
    assert (await fetched(anybody_at("echo"), path))[0].status_code == 200
