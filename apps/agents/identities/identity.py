"""Identities of agents and the platform (`did:web`), and their keys.

https://w3c-ccg.github.io/did-method-web/
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

from django.conf import settings

from apps.agents import cards
from apps.agents.identities import signing
from apps.agents.models import Agent, SigningKey

JSON = dict[str, Any]


def did_of(agent: Agent | None) -> str:
    """Of an agent, or with None of the platform: `did:web:parley.example.org:a2a:echo`."""
    return ":".join([did_at(settings.PUBLIC_BASE_URL), *(["a2a", agent.slug] if agent else [])])


def did_at(base_url: str) -> str:
    """The identity of the installation at this address."""
    address = urlsplit(base_url)
    path = [quote(step, safe="") for step in address.path.split("/") if step]
    return ":".join(["did", "web", quote(address.netloc.lower(), safe=""), *path])


def did_document(agent: Agent | None) -> JSON:
    """The document of the identifier (https://www.w3.org/TR/did-1.0/). One query if a key exists.

    It lists all trusted keys by key id. A disabled agent offers no service.
    """
    did = did_of(agent)
    keys = SigningKey.objects.of(agent)
    trusted = list(keys.trusted())
    if not trusted and not keys.exists():
        trusted = [signing.make_key(agent)]
    methods = [_verification_method(did, key) for key in trusted]
    return {
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/jws-2020/v1"],
        "id": did,
        "verificationMethod": methods,
        "assertionMethod": [method["id"] for method in methods],
        "service": [_service(did, agent)] if agent is None or agent.is_enabled else [],
    }


def key_set() -> JSON:
    """All trusted public keys: a JSON Web Key Set (RFC 7517). One query."""
    return {"keys": [key.published for key in SigningKey.objects.trusted()]}


def key_set_url() -> str:
    return f"{settings.PUBLIC_BASE_URL}/.well-known/jwks.json"


def _verification_method(did: str, key: SigningKey) -> JSON:
    method = {
        "id": f"{did}#{key.kid}",
        "type": "JsonWebKey2020",
        "controller": did,
        "publicKeyJwk": {**key.public, "kid": key.kid, "alg": key.algorithm},
    }
    return method | ({"endorsement": key.endorsement} if key.endorsement else {})


def _service(did: str, agent: Agent | None) -> JSON:
    url = cards.agent_url(agent) if agent else cards.platform_url()
    return {"id": f"{did}#a2a", "type": "A2A", "serviceEndpoint": url}
