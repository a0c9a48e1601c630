"""Web Push: the installation's key (VAPID, RFC 8292), and messages that only a browser can read (RFC 8291).

Only encryption: the call itself goes through `outbound`, as all calls do.
"""

from __future__ import annotations

import base64
import json
import os
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from joserfc import jwt
from joserfc.jwk import ECKey

from apps.notifications.models import PushKey

CURVE = ec.SECP256R1()
RECORD_BYTES = 4096  # what push services take at most
TOKEN_SECONDS = 12 * 3600
KEPT_SECONDS = 24 * 3600  # by a push service, while the browser is away


class BadSubscription(ValueError):
    """This is no subscription to Web Push. Send what the browser's `PushSubscription.toJSON()` gives."""

    def __str__(self) -> str:
        return self.__doc__ or ""


@dataclass(frozen=True, slots=True)
class Keys:
    """Of a browser's subscription."""

    p256dh: bytes
    auth: bytes

    @classmethod
    def read(cls, p256dh: str, auth: str) -> Keys:
        """Raises BadSubscription."""
        try:
            keys = cls(decoded(p256dh), decoded(auth))
            ec.EllipticCurvePublicKey.from_encoded_point(CURVE, keys.p256dh)
        except ValueError:
            raise BadSubscription from None
        if len(keys.auth) != 16:
            raise BadSubscription
        return keys

    @classmethod
    def of(cls, stored: str) -> Keys:
        return cls.read(**json.loads(stored))


def decoded(text: str) -> bytes:
    """Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def point_of(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def push_key() -> PushKey:
    """In the database, so that all processes have the same. The first caller makes it."""
    if (found := PushKey.objects.filter(pk=1).first()) is not None:
        return found
    private = ec.generate_private_key(CURVE)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    values = {"private": pem.decode(), "public": encoded(point_of(private.public_key()))}
    return PushKey.objects.get_or_create(pk=1, defaults=values)[0]


def contact() -> str:
    """Whom a push service may ask about what comes from here (RFC 8292 §2.1)."""
    if settings.VAPID_CONTACT:
        return str(settings.VAPID_CONTACT)
    return settings.PUBLIC_BASE_URL if settings.IS_HTTPS else f"mailto:{settings.DEFAULT_FROM_EMAIL}"


def push_headers(key: PushKey, endpoint: str, *, is_urgent: bool) -> dict[str, str]:
    """Of the request to the push service."""
    address = urlsplit(endpoint)
    claims = {
        "aud": f"{address.scheme}://{address.netloc}",
        "exp": int(time.time()) + TOKEN_SECONDS,
        "sub": contact(),
    }
    token = jwt.encode({"alg": "ES256", "typ": "JWT"}, claims, ECKey.import_key(key.private))
    return {
        "Authorization": f"vapid t={token}, k={key.public}",
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(KEPT_SECONDS),
        "Urgency": "high" if is_urgent else "normal",
    }


def encrypted(text: bytes, keys: Keys) -> bytes:
    """The body for one browser, in one record (RFC 8188), with a key and a salt of its own."""
    private, salt = ec.generate_private_key(CURVE), os.urandom(16)
    sender, receiver = point_of(private.public_key()), ec.EllipticCurvePublicKey.from_encoded_point(CURVE, keys.p256dh)
    shared = private.exchange(ec.ECDH(), receiver)
    secret = _derived(shared, keys.auth, b"WebPush: info\0" + keys.p256dh + sender, 32)
    key = _derived(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(secret, salt, b"Content-Encoding: nonce\0", 12)
    sealed = AESGCM(key).encrypt(nonce, text + b"\x02", None)  # 2 ends the last record
    return salt + RECORD_BYTES.to_bytes(4) + len(sender).to_bytes(1) + sender + sealed


def _derived(secret: bytes, salt: bytes, info: bytes, size: int) -> bytes:
    return HKDF(hashes.SHA256(), size, salt, info).derive(secret)
