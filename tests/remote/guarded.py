"""Remote agents that require a credential, with their servers and token issuers."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus

import httpx
from http_message_signatures import HTTPMessageVerifier, MappingKeyResolver, VerifyResult
from http_message_signatures.algorithms import ED25519
from joserfc.jwk import import_key

from apps.agents.identities import identity
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import house_workspace
from parley import outbound
from parley.outbound.transports import Transport
from tests.outbound.receiving import answer
from tests.remote import card_server

JSON_TYPE = "Content-Type: application/json"


def card(url: str, schemes: dict[str, Any] | None = None, *alternatives: dict[str, list[str]], **more: Any) -> Any:
    wanted = [{"schemes": {name: {"list": scopes} for name, scopes in one.items()}} for one in alternatives]
    more = {"name": "Vault", "securitySchemes": schemes or {}, "securityRequirements": wanted} | more
    return card_server.card(url, **more)


def registered(said: Any, slug: str = "vault", **fields: Any) -> Agent:
    given = {"kind": Agent.Kind.REMOTE, "name": said["name"], "description": "-", "workspace": house_workspace()}
    agent = Agent.objects.create(slug=slug, **given | fields)
    return approved(agent, said)


def approved(agent: Agent, said: Any) -> Agent:
    number = agent.versions.count() + 1
    content = {"kind": "remote", "card": said}
    agent.current_version = AgentVersion.objects.create(agent=agent, number=number, content=content, sha256="0" * 64)
    agent.save(update_fields=["current_version"])
    return agent


def api_key(place: str, name: str) -> Any:
    return {"apiKeySecurityScheme": {"location": place, "name": name}}


def http(scheme: str) -> Any:
    return {"httpAuthSecurityScheme": {"scheme": scheme}}


def oauth2_scheme(token_url: str, flow: str = "clientCredentials") -> Any:
    return {"oauth2SecurityScheme": {"flows": {flow: {"tokenUrl": token_url, "scopes": {"read": "Reads."}}}}}


def client(**options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=Transport(outbound.exchange()), **options)


class Request:
    def __init__(self, content: bytes) -> None:
        head, _, self.body = content.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, target, _ = first.split(" ")
        self.path, _, query = target.partition("?")
        self.query = parse_qs(query)
        self.form = dict(parse_qsl(self.body.decode()))
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def letting_in(is_known: Callable[[Request], bool]) -> Any:
    """An agent that answers callers it knows, and 401 to others."""

    async def answering(content: bytes, writer: Any) -> None:
        known = is_known(Request(content))
        writer.write(answer(b'{"ok": true}') if known else answer(b"who?", "401 Unauthorized"))

    return answering


def verified(request: Request, url: str) -> VerifyResult:
    """The signature of a request to this address with a token and a body, by the key of the installation's DID."""
    message = httpx.Request(request.method, url, headers=request.headers)
    [document] = identity.did_document(None)["verificationMethod"]
    keys = {document["id"]: import_key(document["publicKeyJwk"]).public_key}
    resolver = MappingKeyResolver(public_keys=keys, private_keys={})
    verifier = HTTPMessageVerifier(signature_algorithm=ED25519, key_resolver=resolver)
    needed = ("@method", "@target-uri", "authorization", "content-digest")
    [found] = verifier.verify(message, expect_tag="parley", require_components=needed, body=request.body)
    return found


class Issuer:
    """An authorization server for one client. Its tokens t-1, t-2, … are valid until they are refused."""

    def __init__(self, client_id: str = "parley", client_secret: str = "client-secret-1", **said: Any) -> None:
        self.client = client_id, client_secret
        self.said = {"expires_in": 3600, "token_type": "Bearer"} | said
        self.by_header = True
        self.asked: list[Request] = []
        self.refused: set[str] = set()
        self.issued: list[str] = []

    async def __call__(self, content: bytes, writer: Any) -> None:
        request = Request(content)
        self.asked.append(request)
        if self._client_of(request) != self.client:
            writer.write(answer(json.dumps({"error": "invalid_client"}).encode(), "401 Unauthorized", JSON_TYPE))
            return
        token = f"t-{len(self.issued) + 1}-{uuid.uuid4().hex}"
        self.issued.append(token)
        writer.write(answer(json.dumps({"access_token": token} | self.said).encode(), "200 OK", JSON_TYPE))

    def _client_of(self, request: Request) -> tuple[str, str] | None:
        scheme, _, pair = request.headers.get("authorization", "").partition(" ")
        if scheme == "Basic" and self.by_header:
            name, _, secret = base64.b64decode(pair).decode().partition(":")
            return unquote_plus(name), unquote_plus(secret)
        form = request.form
        return (form["client_id"], form["client_secret"]) if "client_secret" in form else None

    def use_loaded(self, request: Request) -> bool:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return token in self.issued and token not in self.refused
