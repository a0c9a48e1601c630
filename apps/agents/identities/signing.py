"""Detached JSON Web Signatures (RFC 7515, appendix F), and keys. An agent of None is the platform."""

from __future__ import annotations

import base64
import datetime
import json
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.accounts.secrets.encryption import CannotDecrypt
from apps.agents.models import Agent, SigningKey
from parley.db.sql import write_transaction

JWK = dict[str, Any]

ALGORITHMS = ("EdDSA", "ES256")
"""The algorithms of our own signatures, the default first: no `none`, symmetric ones or RSA."""

FOREIGN_ALGORITHMS = (*ALGORITHMS, "Ed25519", "ES384", "PS256", "RS256")
"""The algorithms of others' signatures: no `none` or symmetric ones."""

RSA_BITS = 2048  # minimum
PUBLIC_MEMBERS = ("kty", "crv", "x", "y", "n", "e", "kid", "alg", "use")


class BadSignature(Exception):
    """The signature is invalid or cannot be read."""


class _Registry(jws.JWSRegistry):
    """Only listed algorithms. RFC 9864 renames EdDSA to Ed25519; A2A's tools know EdDSA."""

    max_header_length = 4096  # bytes; fits a long PUBLIC_BASE_URL

    def get_alg(self, name: str) -> Any:
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError(f"{name} is not among {', '.join(self.allowed or ())}")
        return self.algorithms[name]


_REGISTRY = _Registry(algorithms=ALGORITHMS)
_FOREIGN_REGISTRY = _Registry(algorithms=FOREIGN_ALGORITHMS, strict_check_header=False)  # `crit` is still checked
_FOREIGN_REGISTRY.max_payload_length = 1024**2  # bytes


def generate_key(algorithm: str) -> JWK:
    """A new private key (RFC 7517) for one of ALGORITHMS."""
    key: Key = OKPKey.generate_key("Ed25519") if algorithm == "EdDSA" else ECKey.generate_key("P-256")
    return dict(key.as_dict(private=True))


def public_jwk(private: JWK) -> JWK:
    """The public part of a key."""
    return {name: value for name, value in private.items() if name != "d"}


def thumbprint(key: JWK) -> str:
    """The SHA-256 thumbprint (RFC 7638): the key's id."""
    return import_key(public_jwk(key)).thumbprint()


@dataclass(frozen=True, slots=True)
class Signer:
    """A loaded private key, made at `since`."""

    kid: str
    algorithm: str
    since: datetime.datetime
    key: Any = field(compare=False, repr=False)  # joserfc's, slow to load

    @classmethod
    def of(cls, private: JWK, algorithm: str, since: datetime.datetime) -> Signer:
        return cls(thumbprint(private), algorithm, since, import_key(private))

    def sign(self, payload: bytes, **header: str) -> str:
        """A compact JWS without its payload. `header` goes into the protected header."""
        protected = {"alg": self.algorithm, "kid": self.kid, "typ": "JOSE", **header}
        return jws.detach_content(jws.serialize_compact(protected, payload, self.key, registry=_REGISTRY))

    def token(self, claims: JWK, kind: str) -> str:
        """A JSON Web Token (RFC 7519) of this type (`typ`)."""
        protected = {"alg": self.algorithm, "kid": self.kid, "typ": kind}
        return jws.serialize_compact(protected, json.dumps(claims).encode(), self.key, registry=_REGISTRY)


def unverified_token(token: str) -> tuple[JWK, JWK]:
    """The header and the claims of a token, not verified. Raises BadSignature."""
    try:
        header, claims, _ = token.split(".")
        read = json.loads(_base64url_decode(header)), json.loads(_base64url_decode(claims))
    except (ValueError, RecursionError) as error:
        raise BadSignature("This is no token.") from error
    if not all(isinstance(one, dict) for one in read):
        raise BadSignature("This is no token.")
    return read


def verify_token(token: str, public: JWK) -> None:
    """Verify another installation's token by its key. Raises BadSignature."""
    header, payload, signature = token.split(".")
    verify_foreign(f"{header}..{signature}", _base64url_decode(payload), public)


def unverified_header(signature: str) -> dict[str, Any]:
    """The protected header, not verified: it names the key. Raises BadSignature."""
    try:
        protected, empty, _ = signature.split(".")
        header = json.loads(_base64url_decode(protected))
    except (ValueError, RecursionError) as error:
        raise BadSignature("The signature is no compact JWS.") from error
    if empty or not isinstance(header, dict):
        raise BadSignature("The signature is no compact JWS with a detached payload.")
    return header


def verify(signature: str, payload: bytes, public: JWK, algorithm: str) -> None:
    """Raises BadSignature, also if `alg` is not `algorithm`."""
    if unverified_header(signature).get("alg") != algorithm:
        raise BadSignature("The signature names another algorithm than that of its key.")
    _base64url_decode(signature.rpartition(".")[2])
    try:
        jws.deserialize_compact(signature, import_key(public), registry=_REGISTRY, payload=payload)
    except (JoseError, ValueError) as error:
        raise BadSignature("The signature is not one of this content by this key.") from error


def verify_foreign(signature: str, payload: bytes, public: JWK) -> None:
    """For signatures of others, by FOREIGN_ALGORITHMS. Raises BadSignature."""
    algorithm = unverified_header(signature).get("alg")
    if algorithm not in FOREIGN_ALGORITHMS:
        raise BadSignature(f"The signature is by an algorithm that is not among {', '.join(FOREIGN_ALGORITHMS)}.")
    key = import_foreign_key(public)
    _base64url_decode(signature.rpartition(".")[2])
    try:
        jws.deserialize_compact(signature, key, registry=_FOREIGN_REGISTRY, payload=payload)
    except (JoseError, ValueError, TypeError) as error:
        raise BadSignature("The signature is not one of this content by this key.") from error


def import_foreign_key(public: JWK) -> Key:
    """Load another party's public key. Raises BadSignature."""
    try:
        key = import_key({name: value for name, value in public.items() if name in PUBLIC_MEMBERS})
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise BadSignature("The key cannot be read.") from error
    if isinstance(key, RSAKey) and key.raw_value.key_size < RSA_BITS:
        raise BadSignature(f"The RSA key has less than {RSA_BITS} bits.")
    if not isinstance(key, (ECKey, OKPKey, RSAKey)):
        raise BadSignature("The key is of a kind that is not taken.")
    return key


def _base64url_decode(segment: str) -> bytes:
    """Decode canonical base64url (RFC 7515). Raises BadSignature."""
    try:
        content = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except ValueError as error:
        raise BadSignature("The signature is not written in base64url.") from error
    if base64.urlsafe_b64encode(content).rstrip(b"=") != segment.encode():
        raise BadSignature("The signature is not written in plain base64url.")
    return content


SIGNER_CACHE_SECONDS = 10.0  # for which a process caches the current key

_signers: dict[int | None, tuple[float, Signer]] = {}


def signer_of(agent: Agent | None) -> Signer:
    """The current key, made if missing. Cached. Raises encryption.CannotDecrypt."""
    owner = agent.pk if agent else None
    until, signer = _signers.get(owner, (0.0, None))
    if signer is None or until < time.monotonic():
        key = SigningKey.objects.of(agent).current().first() or make_key(agent)
        signer = Signer.of(json.loads(key.private), key.algorithm, key.created_at)
        transaction.on_commit(partial(_cache_signer, owner, signer))  # a key is cached only after the commit
    return signer


def rotate_key(agent: Agent | None, algorithm: str = SigningKey.Algorithm.EDDSA) -> SigningKey:
    """Retire the current key, if any, and make another. Old signatures stay valid."""
    with write_transaction():
        old = _readable_signer(agent)
        for key in SigningKey.objects.of(agent).current().defer("private").select_for_update():
            _retire_key(key)  # even if it cannot be decrypted
        key = make_key(agent, algorithm)
        if old is not None:
            key.endorsement = old.sign(endorsed(key.kid))
            key.save(update_fields=["endorsement"])
        _record(AuditAction.SIGNING_KEY_ROTATED, key)
    _clear_signers_on_commit()
    return key


def _readable_signer(agent: Agent | None) -> Signer | None:
    try:
        key = SigningKey.objects.of(agent).current().first()
        return Signer.of(json.loads(key.private), key.algorithm, key.created_at) if key else None
    except CannotDecrypt:
        return None


def endorsed(kid: str) -> bytes:
    """What a key signs to name its successor."""
    return f"parley key rotation: {kid}".encode()


def revoke_key(key: SigningKey) -> None:
    """Revoke a key and its signatures; replaces the current key."""
    key.revoked_at = key.revoked_at or timezone.now()
    with write_transaction():
        _retire_key(key)
        _record(AuditAction.SIGNING_KEY_REVOKED, key)
    _clear_signers_on_commit()


def _rotate(key: SigningKey, _: Principal) -> SigningKey:
    if not key.is_current:
        raise NotNeeded("It signs nothing any more.")
    return rotate_key(key.agent, key.algorithm)


def _revoke(key: SigningKey, _: Principal) -> SigningKey:
    if key.revoked_at is not None:
        raise NotNeeded("It is revoked already.")
    revoke_key(key)
    return key


ROTATE = Act(
    name="rotate",
    label="Rotate: replace with a new key",
    do=_rotate,
    summary="Replace a key with a new one",
    effect="Signatures of the old key stay valid.",
    said=lambda key: f"{key.owner_name} has a new signing key. Signatures of the old key stay valid.",
    is_offered=lambda key: key.is_current,
    repeats=False,
    icon="autorenew",
    records=True,
)
REVOKE = Act(
    name="revoke",
    label="Revoke: stop trusting its signatures",
    do=_revoke,
    summary="Revoke a key",
    effect="Its signatures are not trusted any more. If it signs now, another takes its place.",
    said=lambda key: f"Signatures of {key.owner_name} with the key {key.kid[:8]}… are not trusted now.",
    is_offered=lambda key: key.revoked_at is None,
    is_grave=True,
    icon="block",
    records=True,
)
SIGNING_KEYS = Resource("signing-keys", "signingkey", SigningKey, acts=(ROTATE, REVOKE), related=("agent",))


def _record(action: AuditAction, key: SigningKey) -> None:
    subject = audit.Subject("agents.signingkey", str(key.pk), key.kid)
    audit.record(action, object=subject, details={"signs_for": key.agent.slug if key.agent else "the platform"})


def clear_signers() -> None:
    _signers.clear()


def _cache_signer(owner: int | None, signer: Signer) -> None:
    _signers[owner] = time.monotonic() + SIGNER_CACHE_SECONDS, signer


def _retire_key(key: SigningKey) -> None:
    """Also erases the private part."""
    key.retired_at = key.retired_at or timezone.now()
    key.private = ""
    key.save(update_fields=["private", "retired_at", "revoked_at"])


def make_key(agent: Agent | None, algorithm: str = SigningKey.Algorithm.EDDSA) -> SigningKey:
    """Make the current key of an agent that has none."""
    private = generate_key(algorithm)
    try:
        with transaction.atomic():
            return SigningKey.objects.create(
                kid=thumbprint(private),
                algorithm=algorithm,
                agent=agent,
                public=public_jwk(private),
                private=json.dumps(private),
            )
    except IntegrityError:  # another process was first
        return SigningKey.objects.of(agent).current().get()


def _clear_signers_on_commit() -> None:
    clear_signers()
    transaction.on_commit(clear_signers)
