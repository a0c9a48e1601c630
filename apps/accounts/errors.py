"""A request that cannot be done. `record.error_table` says how each protocol tells it."""

from __future__ import annotations

from enum import Enum, auto
from typing import ClassVar

from django.http import Http404


class Kind(Enum):
    UNREADABLE = auto()
    INVALID = auto()
    NOT_FOUND = auto()
    CONFLICT = auto()
    TOO_LARGE = auto()
    UNAUTHENTICATED = auto()
    FORBIDDEN = auto()
    METHOD_NOT_ALLOWED = auto()
    NOT_ACCEPTABLE = auto()
    MEDIA_TYPE_NOT_SUPPORTED = auto()
    TOO_MANY = auto()
    UNAVAILABLE = auto()
    INTERNAL = auto()


class Refusal(Exception):
    """A request that cannot be done; nothing was stored. `str()` is a sentence for people.

    `field`: of a form, if the sentence is about one.
    """

    kind: ClassVar[Kind] = Kind.INVALID
    field: str = ""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.__doc__)


class NotFound(Refusal, Http404):
    """There is nothing at this address, or it is not yours."""

    kind = Kind.NOT_FOUND
