"""Page tokens: the cursors of lists that go by a time and a key."""

from __future__ import annotations

import datetime
import uuid

from apps.record import cursors
from apps.record.cursors import binding
from apps.record.errors import InvalidParams

__all__ = ["Cursor", "binding", "read_token", "token"]

Cursor = tuple[datetime.datetime, uuid.UUID]
"""The time and the key of the last row of a page, by which the list is ordered."""


def token(last: Cursor, bound: str) -> str:
    at, key = last
    return cursors.seal([at.isoformat(), key.hex], bound)


def read_token(text: str, bound: str) -> Cursor | None:
    """The cursor of a token; None of an empty one, with which a list begins. Raises InvalidParams."""
    if not text:
        return None
    try:
        at, key = cursors.unseal(text, bound)
    except cursors.ForeignCursor:
        raise InvalidParams("Is none that this list gave. Begin again without one.", "pageToken") from None
    return datetime.datetime.fromisoformat(at), uuid.UUID(key)
