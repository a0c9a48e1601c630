"""Signed agent cards (A2A 1.0 §8.4): a JWS over a card's canonical form."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import rfc8785
from a2a.types import AgentCard
from google.api.field_behavior_pb2 import FieldBehavior, field_behavior
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from apps.agents.identities import identity
from apps.agents.identities.signing import Signer, signer_of
from apps.agents.models import Agent

JSON = dict[str, Any]

ANY_JSON_TYPES = "google.protobuf."  # types of any JSON value, without defaults
DEFAULTS: tuple[Any, ...] = ("", [], {}, False, 0)


def signed_card(card: JSON, agent: Agent | None, widen: Callable[[JSON], JSON] | None = None) -> JSON:
    """The card's content, signed by the agent (None: the platform). Mostly without a query.

    The first signature covers everything that is sent. What `widen` adds is no content of A2A 1.0, so a second one
    covers the content alone, for verifiers that drop unknown fields before they verify (as the SDK).
    """
    content = card_content(card)
    forms = [content] if widen is None else [widen(content), content]
    signer = signer_of(agent)
    signed = [_sign(rfc8785.dumps(form), signer, identity.key_set_url()) for form in forms]
    signatures = [{"protected": protected, "signature": signature} for protected, signature in signed]
    return {**forms[0], "signatures": signatures}


def card_content(card: JSON) -> JSON:
    """The content that §8.4.1 signs.

    Required fields, and optional ones that are set, stay. `signatures`, unknown fields and others with their default
    value go.
    """
    shown: JSON = _present(card, AgentCard.DESCRIPTOR)
    shown.pop("signatures", None)
    return shown


def card_etag(card: JSON) -> str:
    """A strong ETag (quoted) of a signed card, from its content and key.

    Not from the signature: an algorithm may give another one each time.
    """
    named = [one["protected"] for one in card["signatures"]]
    told = {**card, "signatures": named}
    return f'"{hashlib.sha256(rfc8785.dumps(told)).hexdigest()[:32]}"'


def card_changed_at(content: datetime.datetime, agent: Agent | None) -> datetime.datetime:
    """When a signed card last changed: its content or the key."""
    return max(content, signer_of(agent).since)


@lru_cache(maxsize=1024)
def _sign(payload: bytes, signer: Signer, key_set_url: str) -> tuple[str, str]:
    """The protected header and the signature, cached for a card and its key."""
    protected, _, signature = signer.sign(payload, jku=key_set_url).split(".")
    return protected, signature


def _present(value: Any, kind: Descriptor) -> Any:
    """The fields of a JSON message that count as present."""
    if not isinstance(value, dict) or kind.full_name.startswith(ANY_JSON_TYPES):
        return value
    shown = {}
    for field in kind.fields:
        given = value.get(field.json_name, value.get(field.name))
        if given is not None and (_is_kept_empty(field) or given not in DEFAULTS):
            shown[field.json_name] = _inside(field, given)
    return shown


def _inside(field: FieldDescriptor, given: Any) -> Any:
    kind = field.message_type
    if kind is None:
        return given
    if kind.GetOptions().map_entry and isinstance(given, dict):
        values = kind.fields_by_name["value"]
        return {key: _inside(values, one) for key, one in given.items()}
    return [_present(one, kind) for one in given] if isinstance(given, list) else _present(given, kind)


def _is_kept_empty(field: FieldDescriptor) -> bool:
    return field.has_presence or FieldBehavior.REQUIRED in field.GetOptions().Extensions[field_behavior]
