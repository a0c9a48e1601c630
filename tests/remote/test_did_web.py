"""Identities of other installations are where did:web says, and only what is theirs is believed."""

from __future__ import annotations

from typing import Any

import pytest

from apps.agents import signing
from apps.remote.identity.did_web import CACHE_SECONDS, DidResolver, Unresolved, document_url, read_document
from tests.remote.card_server import CardServer

KEY = signing.public_jwk(signing.generate_key("EdDSA"))


@pytest.mark.parametrize(
    ("did", "url"),
    [
        ("did:web:parley.example", "https://parley.example/.well-known/did.json"),
        ("did:web:Parley.example%3A8443", "https://parley.example:8443/.well-known/did.json"),
        ("did:web:parley.example:a2a:report", "https://parley.example/a2a/report/did.json"),
        ("did:web:127.0.0.1%3A8000:a2a:report", "https://127.0.0.1:8000/a2a/report/did.json"),
        ("did:web:%5B%3A%3A1%5D%3A8000", "https://[::1]:8000/.well-known/did.json"),
    ],
)
def test_a_document_is_where_the_method_says(did: str, url: str) -> None:
    assert document_url(did) == url


@pytest.mark.parametrize(
    "did",
    [
        "", "did:web:", "did:key:z6Mk", "did:web:a b", "did:web:host:..:x", "did:web:host::x", "did:web:host:%2E%2E",
        "did:web:u@host", "did:web:host%2Fx", "did:web:host:a/b", "did:web:host:a?b", "x:web:host",
        "did:web:" + "a" * 2000,
    ],
)  # fmt: skip
def test_what_is_no_did_web_is_not_fetched(did: str) -> None:
    with pytest.raises(Unresolved) as refused:
        document_url(did)
    assert refused.value.is_final


def test_http_will_do_only_at_the_origin_that_is_called_so_anyway() -> None:
    did = "did:web:127.0.0.1%3A8000"
    assert document_url(did, "http://127.0.0.1:8000").startswith("http://127.0.0.1:8000/")
    assert document_url(did, "http://127.0.0.1:8001").startswith("https://")


def document(did: str, **changes: Any) -> dict[str, Any]:
    method = {"id": f"{did}#one", "type": "JsonWebKey2020", "controller": did, "publicKeyJwk": KEY}
    return {"id": did, "verificationMethod": [method], "assertionMethod": [f"{did}#one"], **changes}


def test_a_document_gives_the_keys_for_assertions_of_its_own_identity() -> None:
    did = "did:web:host"
    embedded = {"id": "#two", "controller": did, "publicKeyJwk": KEY}
    assert read_document(did, document(did)).keys == {"one": KEY}
    assert read_document(did, document(did, assertionMethod=["#one", embedded])).keys == {"one": KEY, "two": KEY}
    for changes in (
        {"assertionMethod": []},
        {"assertionMethod": None},
        {"assertionMethod": ["did:web:other#one"]},
        {"verificationMethod": [{"id": "#one", "controller": "did:web:other", "publicKeyJwk": KEY}]},
        {"verificationMethod": [{"id": f"{did}#one", "publicKeyJwk": "no key"}]},
    ):
        assert read_document(did, document(did, **changes)).keys == {}, changes
    with pytest.raises(Unresolved):
        read_document(did, document("did:web:other"))


async def test_documents_are_fetched_through_the_guard_and_kept_for_a_while(cards_at: CardServer) -> None:
    now = 0.0
    resolver = DidResolver(clock=lambda: now)
    did = f"did:web:127.0.0.1%3A{cards_at.server_address[1]}"
    cards_at.pages["/.well-known/did.json"] = document(did)
    for _ in range(3):
        assert (await resolver.resolve(did, unencrypted=cards_at.url)).keys == {"one": KEY}
    assert len(cards_at.requests) == 1
    now = CACHE_SECONDS + 1
    cards_at.pages["/.well-known/did.json"] = document(did, assertionMethod=[])
    assert (await resolver.resolve(did, unencrypted=cards_at.url)).keys == {}
    cards_at.pages["/.well-known/did.json"] = b"x" * (300 * 1024)
    with pytest.raises(Unresolved):
        await resolver.resolve(did, unencrypted=cards_at.url, fresh=True)
    with pytest.raises(Unresolved):  # over HTTPS there is nobody
        await resolver.resolve(did)


async def test_a_private_address_is_not_resolved() -> None:
    with pytest.raises(Unresolved) as refused:
        await DidResolver().resolve("did:web:127.0.0.1%3A1")
    assert refused.value.is_final
