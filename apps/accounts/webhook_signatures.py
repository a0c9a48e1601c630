"""Signatures of webhooks, theirs and ours: Standard Webhooks, GitHub's, Stripe's, and bearer tokens.

Sources: https://www.standardwebhooks.com (symmetric, `v1`), https://docs.github.com/webhooks (validating deliveries),
https://docs.stripe.com/webhooks (signatures). Everything is compared in constant time.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

STANDARD_PREFIX = "whsec_"
SECRET_BYTES = 32
GRACE = datetime.timedelta(days=1)  # for which a secret counts, and signs, after it was replaced
TOLERANCE_SECONDS = 300  # between the sender's clock and ours
SECONDS = re.compile(r"\d{1,12}", re.ASCII)

STANDARD, GITHUB, STRIPE, BEARER = "standard", "github", "stripe", "bearer"
SIGNATURE_HEADERS = {
    STANDARD: "webhook-signature",
    GITHUB: "X-Hub-Signature-256",
    STRIPE: "Stripe-Signature",
    BEARER: "Authorization",
}


def new_secret(scheme: str = STANDARD) -> str:
    """A secret of 256 bits, in the scheme's form."""
    if scheme == STANDARD:
        return STANDARD_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    return secrets.token_urlsafe(SECRET_BYTES)


def secret_problem(scheme: str, secret: str) -> str:
    """Why a sender's own secret cannot be used, as a sentence; "" if it can."""
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        return "Must be printable ASCII characters without spaces."
    if scheme == STANDARD and len(_standard_key(secret)) < 16:
        return "Must be whsec_ and at least 16 bytes in base64, as the sender shows it."
    if len(secret) < 16:
        return "Must have at least 16 characters."
    return ""


def standard_headers(message_id: str, at: datetime.datetime, body: bytes, keys: Iterable[str]) -> dict[str, str]:
    """The headers of a webhook that we send, with a signature for each secret; none without secrets.

    `at` is the time of this attempt; `message_id` stays the same for all attempts.
    """
    timestamp = str(int(at.timestamp()))
    signatures = [f"v1,{_standard(_standard_key(key), message_id, timestamp, body)}" for key in keys]
    headers = {"webhook-id": message_id, "webhook-timestamp": timestamp}
    return headers | ({"webhook-signature": " ".join(signatures)} if signatures else {})


def is_signed(scheme: str, keys: Iterable[str], headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Whether one of these secrets signed the request. `now` is in seconds since 1970.

    `headers` find names in any case. Empty secrets sign nothing.
    """
    verify = VERIFIERS[scheme]
    return any([verify(key, headers, body, now) for key in keys if key])  # noqa: C419 - all, in constant time


def has_signature(scheme: str, headers: Mapping[str, str]) -> bool:
    """Whether the headers have a signature of this scheme, which `is_signed` checks once the body is there."""
    return bool(headers.get(SIGNATURE_HEADERS[scheme]))


def _standard(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def _standard_key(secret: str) -> bytes:
    text = secret.removeprefix(STANDARD_PREFIX)
    with suppress(binascii.Error, ValueError):
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    return b""


def _is_recent(timestamp: str, now: float) -> bool:
    return bool(SECONDS.fullmatch(timestamp)) and abs(now - int(timestamp)) <= TOLERANCE_SECONDS


def _is_one_of(expected: str, given: Iterable[str]) -> bool:
    return any([hmac.compare_digest(expected.encode(), one.encode()) for one in given])  # noqa: C419


def _verify_standard(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    key = _standard_key(secret)
    if not message_id or not key or not _is_recent(timestamp, now):
        return False
    given = [one.partition(",") for one in headers.get(SIGNATURE_HEADERS[STANDARD], "").split()]
    return _is_one_of(
        _standard(key, message_id, timestamp, body), [text for version, _, text in given if version == "v1"]
    )


def _verify_github(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """GitHub signs neither a time nor the event's id, so `incoming.receive` knows events again by their body too."""
    expected = "sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex()
    return _is_one_of(expected, [headers.get(SIGNATURE_HEADERS[GITHUB], "")])


def _verify_stripe(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    fields = [one.strip().partition("=") for one in headers.get(SIGNATURE_HEADERS[STRIPE], "").split(",")]
    timestamp = next((value for name, _, value in fields if name == "t"), "")
    if not _is_recent(timestamp, now):
        return False
    expected = hmac.digest(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hex()
    return _is_one_of(expected, [value for name, _, value in fields if name == "v1"])


def _verify_bearer(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    scheme, _, token = headers.get(SIGNATURE_HEADERS[BEARER], "").partition(" ")
    return scheme.lower() == "bearer" and _is_one_of(secret, [token.strip()])


VERIFIERS: dict[str, Callable[[str, Mapping[str, str], bytes, float], bool]] = {
    STANDARD: _verify_standard,
    GITHUB: _verify_github,
    STRIPE: _verify_stripe,
    BEARER: _verify_bearer,
}
