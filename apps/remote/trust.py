"""Signatures on other agents' cards (A2A 1.0 §8.4): whose they are, and by which key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import rfc8785
from django.conf import settings

import outbound
from apps.agents import jose
from apps.agents.card_signatures import content
from apps.record import strict_json
from apps.remote import card_03, cards
from apps.remote.errors import BadCard
from apps.remote.models.remote_agents import Label
from outbound import Limits

JSON = dict[str, Any]
JWK = dict[str, Any]

LIMITS = Limits(seconds=5.0, connect_seconds=3.0, bytes=64 * 1024, header_bytes=16 * 1024, connections=1)
MOST = 4  # signatures of a card that are looked at
MOST_KEYS = 100  # of a key set
OLD_DEFAULTS: JSON = {"preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}


@dataclass(frozen=True, slots=True)
class Signature:
    """What is known of a card's signature: with VERIFIED the public key that made it, with UNVERIFIED why."""

    label: Label
    key: JWK = field(default_factory=dict)
    reason: str = ""

    @property
    def thumbprint(self) -> str:
        """The key's name (RFC 7638), or ""."""
        return jose.thumbprint(self.key) if self.key else ""


async def judge(told: JSON, home: str, pinned: Sequence[JWK] = ()) -> Signature:
    """Look at the signatures of a card as it came.

    `home` is the origin whose key sets are believed besides TRUSTED_KEY_SETS: that of the card. Keys of `pinned` need
    no look-up. Raises BadCard where a signature is wrong: the key is known, and did not sign this.
    """
    signatures = told.get("signatures") or []
    if not signatures:
        return Signature(Label.UNSIGNED)
    payloads = _canonical_forms(told)
    reason, wrong = "", False
    for one in signatures[:MOST] if isinstance(signatures, list) else [signatures]:
        known: list[JWK] = []
        try:
            signature, header = _read(one)
            known = _named(pinned, header)
            key = _fitting(known, signature, payloads) or _fitting(await _published(header, home), signature, payloads)
        except _Unknown as unknown:
            reason = reason or str(unknown)
            wrong |= bool(known)
            continue
        if key is not None:
            return Signature(Label.VERIFIED, _public(key))
        wrong = True
    if wrong:
        raise BadCard("The card's signature is wrong: the card was changed, or signed by another key than it says.")
    return Signature(Label.UNVERIFIED, reason=reason)


class _Unknown(Exception):
    """Nothing can be said about a signature."""


def _read(one: Any) -> tuple[str, JSON]:
    """A signature as a detached JWS, and its protected header."""
    if not isinstance(one, dict) or not all(isinstance(one.get(name), str) for name in ("protected", "signature")):
        raise _Unknown("The signature is not one that can be read.")
    signature = f"{one['protected']}..{one['signature']}"
    try:
        header = jose.header_of(signature)
    except jose.BadSignature as error:
        raise _Unknown(str(error)) from None
    if header.get("alg") not in jose.FOREIGN:
        raise _Unknown(f"The signature is by an algorithm that is not among {', '.join(jose.FOREIGN)}.")
    return signature, header


def _named(keys: Sequence[JWK], header: JSON) -> list[JWK]:
    kid = header.get("kid")
    return [key for key in keys if kid is None or key.get("kid") == kid]


async def _published(header: JSON, home: str) -> list[JWK]:
    """The keys of the signature's name in the key sets that are believed."""
    jku = header.get("jku")
    if not jku:
        sets: list[str] = list(settings.TRUSTED_KEY_SETS)
    elif isinstance(jku, str) and (jku in settings.TRUSTED_KEY_SETS or _is_at(jku, home)):
        sets = [jku]
    else:
        raise _Unknown("The signature's keys are on another server than the card, which no operator trusts.")
    found: list[JWK] = []
    why = _Unknown("The key that made the signature is not to be found.")
    for url in sets:
        try:
            found += _named(await _key_set(url), header)
        except _Unknown as unknown:  # another set may have it
            why = unknown
    if not found:
        raise why
    return found


def _is_at(url: str, home: str) -> bool:
    try:
        return cards.origin(url) == home
    except outbound.Forbidden:
        return False


async def _key_set(url: str) -> list[JWK]:
    """The keys of a JSON Web Key Set (RFC 7517)."""
    try:
        async with outbound.exchange(LIMITS) as way, way.send("GET", url, {"Accept": "application/json"}) as answer:
            if answer.status != 200:
                raise _Unknown(f"The key set at {url} answers with status {answer.status}.")
            told = strict_json.read(await answer.read())
    except (outbound.OutboundError, strict_json.NotStrict) as error:
        raise _Unknown(f"The key set at {url} cannot be read. {error}") from None
    keys = told.get("keys") if isinstance(told, dict) else None
    return [key for key in keys[:MOST_KEYS] if isinstance(key, dict)] if isinstance(keys, list) else []


def _fitting(keys: Sequence[JWK], signature: str, payloads: Sequence[bytes]) -> JWK | None:
    """The key that made the signature."""
    return next((key for key in keys for payload in payloads if _fits(signature, payload, key)), None)


def _fits(signature: str, payload: bytes, key: JWK) -> bool:
    try:
        jose.check_foreign(signature, payload, key)
    except jose.BadSignature:
        return False
    return True


def _public(key: JWK) -> JWK:
    return {name: value for name, value in key.items() if name in jose.PUBLIC_MEMBERS}


def _canonical_forms(told: JSON) -> list[bytes]:
    """What signers take for the canonical form of a card. Each says all that the card says, so each may be believed.

    The specification keeps required fields that are empty (§8.4.1); the SDK drops all that is empty; in 0.3 it is the
    card as it came, and the SDK drops what has its default.
    """
    came = {name: value for name, value in told.items() if name != "signatures"}
    if card_03.is_old(told):
        forms = [came, _full({k: v for k, v in came.items() if OLD_DEFAULTS.get(k) != v})]
    else:
        shown = content(told)
        forms = [shown, _full(shown), came]
    try:
        return list(dict.fromkeys(rfc8785.dumps(form) for form in forms))
    except (rfc8785.CanonicalizationError, UnicodeError):
        raise BadCard("The card's signature cannot be checked: the card has no canonical form (RFC 8785).") from None


def _full(value: Any) -> Any:
    """Without what is empty, at every level."""
    match value:
        case dict():
            return {name: full for name, one in value.items() if (full := _full(one)) not in ("", [], {}, None)}
        case list():
            return [full for one in value if (full := _full(one)) not in ("", [], {}, None)]
    return value
