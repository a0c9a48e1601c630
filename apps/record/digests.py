"""The canonical form of JSON values (RFC 8785) and its SHA-256: the same for the same value wherever it was written."""

import hashlib
import json
from decimal import Decimal
from typing import Any

import rfc8785
from rfc8785 import IntegerDomainError


def canonical(value: Any) -> bytes:
    """The RFC 8785 form. Raises rfc8785.CanonicalizationError for an integer that is no double, which has none."""
    try:
        return rfc8785.dumps(value)
    except IntegerDomainError:
        return rfc8785.dumps(_with_doubles(value))


def digest_of(value: Any) -> str:
    """SHA-256 of the value's canonical form, in hexadecimal.

    A value with integers that have no such form, which JSON allows, is hashed in a plain sorted one.
    """
    try:
        content = canonical(value)
    except IntegerDomainError:
        plain = _with_doubles(value)
        content = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return hashlib.sha256(content).hexdigest()


def _with_doubles(value: Any) -> Any:
    """The value with doubles that a database wrote out as integers (1e23 as 100000000000000000000000) as doubles."""
    if isinstance(value, dict):
        return {name: _with_doubles(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_doubles(one) for one in value]
    return float(value) if isinstance(value, int) and _is_double(value) else value


def _is_double(number: int) -> bool:
    """Is a large integer what some double is written as?"""
    try:
        return abs(number) > 2**53 and Decimal(repr(float(number))) == number
    except OverflowError:
        return False
