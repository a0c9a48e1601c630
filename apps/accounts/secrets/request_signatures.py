"""Signed requests (RFC 9421), so that the secret of an API key is worth nothing without a private key.

A key with a public key is accepted only in requests that the private one signed. Source of the rules:
https://www.rfc-editor.org/rfc/rfc9421 and, for the digest of bodies, https://www.rfc-editor.org/rfc/rfc9530.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import http_message_signatures as signatures
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.utils import timezone
from http_message_signatures.algorithms import ECDSA_P256_SHA256, ED25519
from joserfc.errors import JoseError
from joserfc.jwk import import_key

from apps.accounts.models import UsedNonce
from apps.accounts.requests import bodies

COVERED = ("@method", "@target-uri", "authorization")
"""What each signature covers at least; with a body, `content-digest` too."""
IF_SENT = ("idempotency-key", "upload-offset", "x-parley-workspace")
"""Headers that change what a request does: covered if they are there."""
LONGEST_AGE = datetime.timedelta(minutes=5)
CLOCK_SKEW = datetime.timedelta(seconds=60)
SWEEP = 100  # requests between two deletions of ended nonces, on average
TAG = "parley"  # of Parley's own signatures

PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey


class Unsigned(Exception):
    """The request is not signed as it must be; the message says what is wrong."""


def read_public_key(text: str) -> str:
    """The public key, which is given as PEM or as a JWK, as PEM in one form. Raises ValueError with a sentence."""
    try:
        key = _key_in(text.strip())
    except (ValueError, TypeError, LookupError, RecursionError, JoseError, UnsupportedAlgorithm):
        raise ValueError(
            "Give a public key as PEM, which begins with “-----BEGIN PUBLIC KEY-----”, or as JWK."
        ) from None
    if key is None:
        raise ValueError("This is a private key. Keep it, and give its public key.")
    is_p256 = isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)
    if not (isinstance(key, ed25519.Ed25519PublicKey) or is_p256):
        raise ValueError("Give an Ed25519 or a P-256 key.")
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(*form).decode()


def _key_in(text: str) -> PublicKeyTypes | None:
    """The key of `cryptography`; None if it is a private one. Raises the errors of both libraries."""
    if text.startswith("{"):
        key = import_key(json.loads(text))
        return None if key.is_private else cast(PublicKeyTypes, key.public_key)
    return None if "PRIVATE KEY" in text else serialization.load_pem_public_key(text.encode())


def _needed(request: HttpRequest) -> tuple[str, ...]:
    return (*COVERED, *(name for name in IF_SENT if name in request.headers))


def accept_signature(request: HttpRequest) -> str:
    """The header `Accept-Signature`, which says how to sign the request (RFC 9421 §5.1)."""
    digest = ["content-digest"] if bodies.has_body(request) else []
    names = " ".join(f'"{name}"' for name in (*_needed(request), *digest))
    return f'parley=({names});created;nonce="{secrets.token_urlsafe(16)}"'


@dataclass
class Message:
    """A request, as the library reads and signs it."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _OneKey(signatures.HTTPSignatureKeyResolver):
    key: Any

    def resolve_public_key(self, key_id: str) -> Any:
        """One key for each id: the API key has said which it is."""
        return self.key

    resolve_private_key = resolve_public_key


class _Verifier(signatures.HTTPMessageVerifier):
    max_clock_skew = CLOCK_SKEW


def check_request(request: HttpRequest, pem: str, owner: str) -> Callable[[bytes], None]:
    """Check the signature of a request by this public key; each nonce works once for this owner.

    The result checks that the request's body is the signed one. Both raise Unsigned.
    """
    key = serialization.load_pem_public_key(pem.encode())
    algorithm = ED25519 if isinstance(key, ed25519.Ed25519PublicKey) else ECDSA_P256_SHA256
    verifier = _Verifier(signature_algorithm=algorithm, key_resolver=_OneKey(key))
    message = Message(str(request.method), _target_uri(request), request.headers)
    oldest = LONGEST_AGE - CLOCK_SKEW  # the library adds the skew
    with _explained():
        [found] = verifier.verify(message, max_age=oldest, require_components=_needed(request))
    if not found.nonce:
        raise Unsigned("its signature has no nonce")
    _use_nonce(owner, found.nonce)

    def check_body(body: bytes) -> None:
        with _explained():
            verifier.verify_body(message, [found], body)

    return check_body


@contextmanager
def _explained() -> Iterator[None]:
    """Raises Unsigned."""
    try:
        yield
    except signatures.HTTPMessageSignaturesException as error:
        raise Unsigned(str(error) or "its signature is of another key or another request") from error


INSERT_NONCE = "INSERT INTO used_nonces (digest, expires_at) VALUES (%s, %s) ON CONFLICT DO NOTHING"


def _use_nonce(owner: str, nonce: str) -> None:
    """One insert; one in SWEEP also deletes those whose signatures have ended. Raises Unsigned for a used one."""
    now, digest = timezone.now(), hashlib.sha256(f"{owner} {nonce}".encode()).hexdigest()
    until = connection.ops.adapt_datetimefield_value(now + LONGEST_AGE + 2 * CLOCK_SKEW)
    with connection.cursor() as cursor:
        cursor.execute(INSERT_NONCE, [digest, until])
        is_new = cursor.rowcount == 1
    if not is_new:
        raise Unsigned("its signature was used before")
    if secrets.randbelow(SWEEP) == 0:
        UsedNonce.objects.filter(expires_at__lt=now).delete()


def _target_uri(request: HttpRequest) -> str:
    """The address as the client wrote it. Django's text of a path may escape other characters."""
    sent: bytes = getattr(request, "scope", {}).get("raw_path") or b""
    if not sent:
        return f"{settings.PUBLIC_BASE_URL}{request.get_full_path()}"
    path, query = sent.partition(b"?")[0].decode("latin-1"), request.META.get("QUERY_STRING", "")
    return f"{settings.PUBLIC_BASE_URL}{path}{'?' if query else ''}{query}"


def sign(message: Any, private_key: Any, key_id: str, nonce: str, body: bytes) -> None:
    """Sign an outgoing request in place. `message` has `method`, `url` and `headers`, such as HTTPX's requests.

    Args:
        private_key: of `cryptography`, Ed25519 or P-256.
    """
    algorithm = ED25519 if isinstance(private_key, ed25519.Ed25519PrivateKey) else ECDSA_P256_SHA256
    signer = signatures.HTTPMessageSigner(signature_algorithm=algorithm, key_resolver=_OneKey(private_key))
    covered = [one for one in COVERED if one.startswith("@") or one in message.headers]
    now = datetime.datetime.now(datetime.UTC)
    signer.sign(
        message,
        key_id=key_id,
        created=now,
        expires=now + LONGEST_AGE,
        nonce=nonce,
        tag=TAG,
        covered_component_ids=covered,
        body=body or None,
    )
