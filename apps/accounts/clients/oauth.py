"""OAuth 2.1 by django-allauth's identity provider: what its tokens may do here, and what differs from its defaults.

A token has scopes of ours (`TASK_SCOPES`). `agent:<slug>`, or a resource (RFC 8707) `…/a2a/<slug>`, limits it to
agents. A client without a user (client credentials) acts for its owner.

django-allauth checks a client's secret within the transaction of its tokens, so secrets have a fast hash (they are
random), and who does not know one is refused before that transaction.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from allauth.idp.oidc.adapter import DefaultOIDCAdapter
from allauth.idp.oidc.models import Client, PrivateKey, Token
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from django.conf import settings
from django.contrib.auth.hashers import BasePasswordHasher, make_password
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from apps.accounts.models import User
from apps.accounts.people import links
from apps.accounts.principals import TASK_SCOPES, Principal

AGENT_SCOPE = "agent:"
IDENTITY_SCOPES = {"openid": "know who you are", "profile": "know your name", "email": "know your e-mail address"}
RESOURCE_PATH = re.compile(r"(/((a2a|agui)(/(?P<slug>[a-z0-9][a-z0-9-]{0,62}))?|api/v1|v1|mcp|langgraph)?)?")
TOKEN_HEADER = re.compile(r"(?i:bearer) \s*([A-Za-z0-9_-]{86})\s*")
GRANTS = tuple(str(grant) for grant in Client.GrantType)
LOOPBACK = re.compile(r"(http://(?:127\.0\.0\.1|\[::1\]|localhost))(?::\d{1,5})?(?=[/?]|\Z)", re.ASCII)
USED = "ur"
"""The type of a token's row that stands for a refresh token after its use."""


class RandomSecretHasher(BasePasswordHasher):
    """For secrets that nobody can guess: `Adapter.generate_client_secret` draws 256 bits. Never for passwords."""

    algorithm = "random_secret"

    def encode(self, password: str, salt: str) -> str:
        return f"{self.algorithm}${salt}${hashlib.sha256((salt + password).encode()).hexdigest()}"

    def decode(self, encoded: str) -> dict[str, Any]:
        algorithm, salt, digest = encoded.split("$")
        return {"algorithm": algorithm, "salt": salt, "hash": digest}

    def verify(self, password: str, encoded: str) -> bool:
        return constant_time_compare(encoded, self.encode(password, str(self.decode(encoded)["salt"])))

    def safe_summary(self, encoded: str) -> dict[Any, Any]:
        return {"algorithm": self.algorithm}

    def harden_runtime(self, password: str, encoded: str) -> None:
        """A wrong secret takes as long as a right one."""


def new_secret(client: Client) -> str:
    """Give the client a new secret, which is not stored; the caller saves the client."""
    secret = Adapter().generate_client_secret()
    client.secret = make_password(secret, hasher=RandomSecretHasher.algorithm)
    return secret


def credentials_in(request: HttpRequest) -> tuple[str, str]:
    """The client's id and secret, from the header or the form (RFC 6749 §2.3.1); "" for what is missing."""
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        with suppress(ValueError):
            client, _, secret = base64.b64decode(encoded).decode().partition(":")
            if client and secret:
                return client, secret
    return request.POST.get("client_id", ""), request.POST.get("client_secret", "")


def has_secret(client_id: str, secret: str) -> bool:
    """Whether there is the client, with this secret. An older, slow hash is replaced."""
    client = Client.objects.filter(pk=client_id).first() if client_id.isprintable() else None
    if client is None or not client.check_secret(secret):
        return False
    if not client.secret.startswith(f"{RandomSecretHasher.algorithm}$"):
        quick = make_password(secret, hasher=RandomSecretHasher.algorithm)
        Client.objects.filter(pk=client.pk, secret=client.secret).update(secret=quick)
    return True


def is_registered(address: str, registered: Iterable[str]) -> bool:
    """Whether it is one of these redirect addresses, to the letter (RFC 9700 §2.1).

    An app on this machine may choose its port (RFC 8252 §7.3).
    """
    return _without_port(address) in map(_without_port, registered)


def _without_port(address: str) -> str:
    found = LOOPBACK.match(address)
    return found[1] + address[found.end() :] if found else address


def end_grant(refresh_token: str) -> None:
    """Revoke all tokens of a grant if the refresh token was used before: somebody has a copy (RFC 9700 §4.14.2)."""
    used = Token.objects.by_value(refresh_token).filter(type=USED).first()
    if used is not None and used.get_grant_id():
        of_grant = Token.objects.filter(client=used.client_id, data__grant_id=used.get_grant_id())
        of_grant.filter(type__in=(Token.Type.ACCESS_TOKEN, Token.Type.REFRESH_TOKEN)).delete()


def note_used(token: Token) -> None:
    """Remember a refresh token, which allauth deletes when it is used."""
    known = {name: getattr(token, name) for name in ("hash", "client", "user", "data", "scopes", "expires_at")}
    Token.objects.create(type=USED, **known)


def hash_of(token: str) -> str:
    return str(Adapter().hash_token(token))


def oauth_principal(token: Token | None, client: Client | None, user: User | None) -> Principal | None:
    """The caller of an access token, with the user that it stands for; None if it has ended."""
    if token is None or client is None or user is None or not user.is_active:
        return None
    if token.expires_at is not None and token.expires_at <= timezone.now():
        return None
    granted = token.get_scopes()
    return replace(
        user.principal,
        scopes=frozenset(granted).intersection(TASK_SCOPES),
        agents=_agents_of(granted, token.get_resources()),
        key=f"OAuth client {client.name or client.pk}",
    )


def _agents_of(scopes: Iterable[str], resources: list[str]) -> frozenset[str] | None:
    """The only agents of a token with these scopes and resources; None: all."""
    named = frozenset(scope.removeprefix(AGENT_SCOPE) for scope in scopes if scope.startswith(AGENT_SCOPE)) or None
    slugs = [agent_of(resource) for resource in resources]
    if not slugs or "" in slugs:
        return named
    reached = frozenset(slug for slug in slugs if slug)
    return reached if named is None else reached & named


def opens(token: Token, path: str) -> bool:
    """Whether the token is for the door at this path (RFC 8707): it names no resource, or one that the path is in.

    Stored files have no door of their own: every door's answers have links to them.
    """
    named = [one.removeprefix(settings.PUBLIC_BASE_URL).rstrip("/") for one in token.get_resources()]
    if not named or path.startswith("/files/"):
        return True
    return any(path == one or path.startswith(f"{one}/") for one in named)


def agent_of(resource: str) -> str | None:
    """The agent's slug of a resource of ours, "" for a wider one; None for somebody else's."""
    path = resource.removeprefix(settings.PUBLIC_BASE_URL)
    found = RESOURCE_PATH.fullmatch(path) if path != resource else None
    return (found["slug"] or "") if found else None


def scope_words(scope: str) -> str:
    """What a client with the scope may do."""
    if scope.startswith(AGENT_SCOPE):
        return f"only with the agent {scope.removeprefix(AGENT_SCOPE)}"
    return {**TASK_SCOPES, **IDENTITY_SCOPES}.get(scope, scope)


class ScopeWords(dict[str, str]):
    def get(self, scope: str, default: Any = None) -> Any:
        words = scope_words(scope)
        return words[:1].upper() + words[1:]


class Adapter(DefaultOIDCAdapter):  # type: ignore[misc]  # allauth has no types
    """Absolute URLs come from PUBLIC_BASE_URL, never from the Host header."""

    scope_display: ClassVar[dict[str, str]] = ScopeWords()

    def generate_client_secret(self) -> str:
        """Without characters that programs would have to escape."""
        return secrets.token_urlsafe(32)

    def get_issuer(self) -> str:
        return str(settings.PUBLIC_BASE_URL)

    def get_claims(self, purpose: Literal["id_token", "userinfo"], user: Any, *args: Any, **kwargs: Any) -> Any:
        claims = super().get_claims(purpose, user, *args, **kwargs)
        scopes = kwargs.get("scopes") or (args[1] if len(args) > 1 else ())
        if "profile" in scopes:
            claims["name"] = user.short_name
        if "email" in scopes:
            claims |= {"email": user.email, "email_verified": links.is_confirmed(user)}
        return claims

    def validate_resource_uris(self, *, uris: list[str], **kwargs: Any) -> None:
        """Raises ValidationError for a resource of somebody else's."""
        if wrong := [uri for uri in uris if agent_of(uri) is None]:
            raise ValidationError(f"{wrong[0][:200]} is not a resource of this installation.")

    def populate_server_metadata(self, data: dict[str, Any]) -> None:
        data |= {
            name: settings.PUBLIC_BASE_URL + reverse(f"idp:oidc:{view}")
            for name, view in {
                "authorization_endpoint": "authorization",
                "device_authorization_endpoint": "device_code",
                "end_session_endpoint": "logout",
                "jwks_uri": "jwks",
                "revocation_endpoint": "revoke",
                "token_endpoint": "token",
                "userinfo_endpoint": "userinfo",
            }.items()
        }
        if settings.OAUTH_OPEN_REGISTRATION:
            data["registration_endpoint"] = settings.PUBLIC_BASE_URL + reverse("idp:oidc:client_registration")
            data["client_id_metadata_document_supported"] = True
        data["scopes_supported"] = [*IDENTITY_SCOPES, *TASK_SCOPES]
        data["response_types_supported"] = ["code"]
        data["grant_types_supported"] = sorted(GRANTS)

    def list_private_keys(self, **which: Any) -> list[PrivateKey]:
        return [PrivateKey(pem=signing_key())]


def signing_key() -> str:
    """The key that signs ID tokens, in PEM."""
    return settings.OIDC_PRIVATE_KEY or _kept_key(settings.DATA_DIR / "oidc-private-key.pem")


@cache
def _kept_key(path: Path) -> str:
    """In DATA_DIR (mode 600); made when it is first needed."""
    if not path.exists():
        made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        own = path.with_suffix(f".{os.getpid()}")
        with open(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(made.private_bytes(*form))
        with suppress(FileExistsError):
            os.link(own, path)  # whole, and only once
        own.unlink()
    return str(path.read_text())
