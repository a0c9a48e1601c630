"""Page tokens: where a list goes on, bound to who asks for what, so that they are of no use for anything else."""

from __future__ import annotations

import datetime
import hashlib
import uuid
from typing import Any

from django.core import signing

from apps.conversations.errors import InvalidParams

Cursor = tuple[datetime.datetime, uuid.UUID]
"""The time and the key of the last row of a page, by which the list is ordered."""


def binding(*bound: Any) -> str:
    """What a token is bound to, of values that print alike only where they are alike."""
    return "a2a.page." + hashlib.sha256(repr(bound).encode()).hexdigest()


def token(last: Cursor, bound: str) -> str:
    at, key = last
    return signing.dumps([at.isoformat(), key.hex], salt=bound, compress=False)


def read_token(text: str, bound: str) -> Cursor | None:
    """The cursor of a token; None of an empty one, with which a list begins. Raises InvalidParams."""
    if not text:
        return None
    try:
        at, key = signing.loads(text, salt=bound)
    except signing.BadSignature:
        raise InvalidParams("Is none that this list gave. Begin again without one.", "pageToken") from None
    return datetime.datetime.fromisoformat(at), uuid.UUID(key)
