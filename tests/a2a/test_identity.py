"""Other tools can verify an agent's identity and card."""

import json
import urllib.parse

import pytest

import db
from apps.agents.identity import did_of
from apps.agents.signing import clear_signers, rotate_key, signer_of

pytestmark = pytest.mark.django_db(transaction=True)

CARD = "/a2a/echo/.well-known/agent-card.json"


async def fetched(caller, path, **headers):
    response = await caller.client.get(path, headers=caller.headers(headers))
    return response, json.loads(response.content or b"null")


def resolved(did: str) -> str:
    """The URL of a did:web document, with HTTP for the tests."""
    host, *path = did.removeprefix("did:web:").split(":")
    address = "http://" + urllib.parse.unquote(host)
    return address + ("/" + "/".join(path) if path else "/.well-known") + "/did.json"


async def test_an_agents_document_is_where_its_identifier_leads(anybody_at, echo):
    signer = await db.run(signer_of, echo)
    response, document = await fetched(anybody_at("echo"), "/a2a/echo/did.json")
    assert response["Content-Type"] == "application/did+json"
    assert document["id"] == "did:web:127.0.0.1%3A8000:a2a:echo"
    assert resolved(document["id"]) == "http://127.0.0.1:8000/a2a/echo/did.json"
    [method] = document["verificationMethod"]
    assert method["id"] == f"{document['id']}#{signer.kid}"
    assert (method["controller"], method["type"]) == (document["id"], "JsonWebKey2020")
    assert method["publicKeyJwk"]["crv"] == "Ed25519"
    assert "d" not in method["publicKeyJwk"]
    assert document["assertionMethod"] == [method["id"]]
    assert document["service"] == [
        {"id": f"{document['id']}#a2a", "type": "A2A", "serviceEndpoint": "http://127.0.0.1:8000/a2a/echo"}
    ]
    assert (await anybody_at("echo").client.post("/a2a/echo/did.json")).status_code == 405


async def test_who_never_signed_anything_is_given_a_key_when_asked_who_it_is(anybody_at, echo):
    for path, did in (("/a2a/echo/did.json", ":a2a:echo"), ("/.well-known/did.json", "")):
        documents = [(await fetched(anybody_at("echo"), path))[1] for _ in range(2)]
        assert documents[0]["id"] == f"did:web:127.0.0.1%3A8000{did}"
        assert len(documents[0]["verificationMethod"]) == 1
        assert documents[0] == documents[1]
    await db.run(rotate_key, echo)
    assert (await fetched(anybody_at("echo"), "/.well-known/did.json"))[1] == documents[0], "the platform's own"


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


async def test_keys_are_published_for_caches_and_a_card_that_was_signed_anew_is_sent_again(anybody_at, echo):
    await db.run(signer_of, echo)
    keys, card = [await fetched(anybody_at("echo"), path) for path in ("/.well-known/jwks.json", CARD)]
    assert keys[0]["Content-Type"] == "application/jwk-set+json"
    assert keys[0]["Cache-Control"] == "public, max-age=300"
    assert len(keys[1]["keys"]) == 1

    async def again():
        return [
            await fetched(anybody_at("echo"), path, **{"If-None-Match": response["ETag"]})
            for path, (response, _) in (("/.well-known/jwks.json", keys), (CARD, card))
        ]

    assert [response.status_code for response, _ in await again()] == [304, 304]
    await db.run(rotate_key, echo)
    (_, new_keys), (_, new_card) = await again()
    assert len(new_keys["keys"]) == 2
    assert new_card.pop("signatures") != card[1].pop("signatures")
    assert new_card == card[1]


async def test_an_agent_that_is_switched_off_can_still_be_verified(anybody_at, echo):
    signer = await db.run(signer_of, echo)
    echo.is_enabled = False
    await echo.asave()
    response, document = await fetched(anybody_at("echo"), "/a2a/echo/did.json")
    assert response.status_code == 200
    assert document["assertionMethod"] == [f"{document['id']}#{signer.kid}"]
    assert document["service"] == []
    assert (await fetched(anybody_at("echo"), CARD))[0].status_code == 404


async def test_a_key_that_cannot_be_read_is_said_to_be_so_until_another_is_made(anybody_at, echo, settings):
    await db.run(signer_of, echo)
    clear_signers()
    settings.MASTER_KEY = "A" * 43
    response, body = await fetched(anybody_at("echo"), CARD)
    assert (response.status_code, body["error"]["status"]) == (503, "UNAVAILABLE")
    assert "MASTER_KEY" not in str(body)
    await db.run(rotate_key, echo)
    assert (await fetched(anybody_at("echo"), CARD))[0].status_code == 200
