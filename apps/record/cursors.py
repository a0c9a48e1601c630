"""Cursors: where a list goes on, bound to who asks for what, so that they are of no use for anything else."""

from __future__ import annotations

import hashlib
from typing import Any

from django.core import signing


class ForeignCursor(Exception):
    """The text is no cursor of this list and this caller."""


def binding(*bound: Any) -> str:
    """What a cursor is bound to, of values that print alike only where they are alike."""
    return "page." + hashlib.sha256(repr(bound).encode()).hexdigest()


def seal(place: list[Any], bound: str) -> str:
    """A place in a list, a few JSON values, as a text that nobody else can make or change."""
    return signing.dumps(place, salt=bound, compress=False)


def unseal(text: str, bound: str) -> list[Any]:
    """The place that a cursor names. Raises ForeignCursor."""
    try:
        place: list[Any] = signing.loads(text, salt=bound)
    except signing.BadSignature:
        raise ForeignCursor from None
    return place
