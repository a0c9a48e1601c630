"""Verifying the signatures on other agents' cards (A2A 1.0 §8.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import rfc8785
from django.conf import settings

from apps.agents.identities import signing
from apps.agents.identities.card_signatures import card_content
from apps.record.content import strict_json
from apps.remote.agent_cards import card_shapes, cards
from apps.remote.errors import BadCard
from apps.remote.models import SignatureStatus
from parley import outbound
from parley.outbound import Limits

JSON = dict[str, Any]
JWK = dict[str, Any]

KEY_SET_LIMITS = Limits(seconds=5.0, connect_seconds=3.0, bytes=64 * 1024, header_bytes=16 * 1024, connections=1)
MOST_SIGNATURES = 4  # of a card that are checked
MOST_KEYS = 100  # of a key set
SDK_DEFAULTS_03: JSON = {"preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}


@dataclass(frozen=True, slots=True)
class CardSignature:
    """The state of a card's signature; `key` made it if VERIFIED, `reason` says why it is UNVERIFIED."""

    label: SignatureStatus
    key: JWK = field(default_factory=dict)
    reason: str = ""


async def verify_card(
    told: JSON, card_origin: str, pinned: Sequence[JWK] = (), also: Sequence[str] = ()
) -> CardSignature:
    """Verify the signatures of a card in its original form.

    Key sets at `card_origin` and in TRUSTED_KEY_SETS are trusted, and so are `pinned` keys. Raises BadCard if a known
    key did not make the signature. `also` allows private hosts for this call only.
    """
    signatures = told.get("signatures") or []
    if not signatures:
        return CardSignature(SignatureStatus.UNSIGNED)
    payloads = _canonical_forms(told)
    reason, wrong = "", False
    for one in signatures[:MOST_SIGNATURES] if isinstance(signatures, list) else [signatures]:
        known: list[JWK] = []
        try:
            signature, header = _read_signature(one)
            known = _keys_named_in(pinned, header)
            key = _signing_key(known, signature, payloads) or _signing_key(
                await _published_keys(header, card_origin, also), signature, payloads
            )
        except _Unverifiable as unknown:
            reason = reason or str(unknown)
            wrong |= bool(known)
            continue
        if key is not None:
            public = {name: value for name, value in key.items() if name in signing.PUBLIC_MEMBERS}
            return CardSignature(SignatureStatus.VERIFIED, public)
        wrong = True
    if wrong:
        raise BadCard("The card's signature is wrong: the card was changed, or signed by another key than it says.")
    return CardSignature(SignatureStatus.UNVERIFIED, reason=reason)


class _Unverifiable(Exception):
    """A signature cannot be checked."""


def _read_signature(one: Any) -> tuple[str, JSON]:
    if not isinstance(one, dict) or not all(isinstance(one.get(name), str) for name in ("protected", "signature")):
        raise _Unverifiable("The signature is not one that can be read.")
    signature = f"{one['protected']}..{one['signature']}"
    try:
        header = signing.unverified_header(signature)
    except signing.BadSignature as error:
        raise _Unverifiable(str(error)) from None
    if header.get("alg") not in signing.FOREIGN_ALGORITHMS:
        raise _Unverifiable(
            f"The signature is by an algorithm that is not among {', '.join(signing.FOREIGN_ALGORITHMS)}."
        )
    return signature, header


def _keys_named_in(keys: Sequence[JWK], header: JSON) -> list[JWK]:
    kid = header.get("kid")
    return [key for key in keys if kid is None or key.get("kid") == kid]


async def _published_keys(header: JSON, card_origin: str, also: Sequence[str]) -> list[JWK]:
    jku = header.get("jku")
    if not jku:
        sets: list[str] = list(settings.TRUSTED_KEY_SETS)
    elif isinstance(jku, str) and (jku in settings.TRUSTED_KEY_SETS or cards.origin_of(jku) == card_origin):
        sets = [jku]
    else:
        raise _Unverifiable("The signature's keys are on another server than the card, which no operator trusts.")
    found: list[JWK] = []
    why = _Unverifiable("The key that made the signature is not to be found.")
    for url in sets:
        try:
            found += _keys_named_in(await _key_set(url, also), header)
        except _Unverifiable as unknown:
            why = unknown
    if not found:
        raise why
    return found


async def _key_set(url: str, also: Sequence[str]) -> list[JWK]:
    try:
        async with (
            outbound.exchange(KEY_SET_LIMITS, also=also) as way,
            way.send("GET", url, {"Accept": "application/json"}) as answer,
        ):
            if answer.status != 200:
                raise _Unverifiable(f"The key set at {url} answers with status {answer.status}.")
            told = strict_json.parse(await answer.read())
    except (outbound.OutboundError, strict_json.InvalidJSON) as error:
        raise _Unverifiable(f"The key set at {url} cannot be read. {error}") from None
    keys = told.get("keys") if isinstance(told, dict) else None
    return [key for key in keys[:MOST_KEYS] if isinstance(key, dict)] if isinstance(keys, list) else []


def _signing_key(keys: Sequence[JWK], signature: str, payloads: Sequence[bytes]) -> JWK | None:
    return next((key for key in keys for payload in payloads if _verifies(signature, payload, key)), None)


def _verifies(signature: str, payload: bytes, key: JWK) -> bool:
    try:
        signing.verify_foreign(signature, payload, key)
    except signing.BadSignature:
        return False
    return True


def _canonical_forms(told: JSON) -> list[bytes]:
    """The forms of a card that signers consider canonical. None leaves out content, so each may be trusted.

    The specification keeps required fields that are empty (§8.4.1); the SDK drops everything empty. For 0.3 it is the
    original card; the SDK drops fields with their default.
    """
    original = {name: value for name, value in told.items() if name != "signatures"}
    if card_shapes.is_card_03(told):
        forms = [original, _without_empty({k: v for k, v in original.items() if SDK_DEFAULTS_03.get(k) != v})]
    else:
        content = card_content(told)
        forms = [content, _without_empty(content), original]
    try:
        return list(dict.fromkeys(rfc8785.dumps(form) for form in forms))
    except (rfc8785.CanonicalizationError, UnicodeError):
        raise BadCard("The card's signature cannot be checked: the card has no canonical form (RFC 8785).") from None


def _without_empty(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: full for name, one in value.items() if (full := _without_empty(one)) not in ("", [], {}, None)
            }
        case list():
            return [full for one in value if (full := _without_empty(one)) not in ("", [], {}, None)]
    return value
